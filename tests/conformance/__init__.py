"""Small programs, and what TensorFlow 2.21 answered when it ran them: see README.md."""
