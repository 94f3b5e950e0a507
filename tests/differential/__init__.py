"""Many small questions to TensorFlow 2.21, its recorded answers, and a list of what differs on purpose."""
