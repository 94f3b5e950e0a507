"""Measurements on an accelerator: `python -m benchmarks.gpu.gpt`."""
