"""`tf.feature_column`: convert the features of a batch to the input of a model."""
