"""The programs are checked and run by `test_typing.py`: they have no tests of their own."""

collect_ignore_glob = ["programs/*", "flagged.py"]
