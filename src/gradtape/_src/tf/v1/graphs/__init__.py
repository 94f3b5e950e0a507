"""Graphs and sessions of TensorFlow 1: see docs/design/tensorflow1-graphs.md."""
