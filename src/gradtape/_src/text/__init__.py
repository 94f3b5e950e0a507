"""Texts in NumPy arrays of bytes: hashes, regular expressions, Unicode, numbers as text. None has a derivative."""
