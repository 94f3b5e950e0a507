"""`tf.feature_column`: how the features of a batch become the input of a model."""
