"""The scripts beside the tests import TensorFlow: they are run by hand."""

collect_ignore = ["make.py", "read_back.py", "record.py", "write.py"]
