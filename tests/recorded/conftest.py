"""Files here are read by tests, and are no tests."""

collect_ignore_glob = ["*"]
