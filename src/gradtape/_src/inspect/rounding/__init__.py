"""How far rounding can have moved a result: enclosures of every value on a tape, and what `certify` says of them."""
