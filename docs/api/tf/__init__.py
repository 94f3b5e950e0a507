"""The public names of gradtape; docs/griffe_extension.py fills this package for the reference."""
