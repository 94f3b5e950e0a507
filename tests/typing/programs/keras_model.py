"""A Keras model, compiled and by hand."""

from __future__ import annotations

import numpy as np

import gradtape as tf

model = tf.keras.Sequential([tf.keras.layers.Dense(4, activation="relu"), tf.keras.layers.Dense(1)])
model.compile(optimizer=tf.keras.optimizers.SGD(0.1), loss="mse")
x, y = np.ones((8, 3), np.float32), np.ones((8, 1), np.float32)
model.fit(x, y, epochs=1)

optimizer = tf.keras.optimizers.Adam(1e-3)
with tf.GradientTape() as tape:
    loss = tf.reduce_mean(tf.square(model(x) - y))
gradients = tape.gradient(loss, model.trainable_variables)
optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
print(float(loss))
