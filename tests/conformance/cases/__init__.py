"""One module for each area; every function `case_<name>(tf, np)` is a program."""
