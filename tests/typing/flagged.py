"""Mistakes that type checkers flag: those lines end in a comment that says why, and no others do."""

from __future__ import annotations

import gradtape as tf

x = tf.constant([1.0, 2.0])
v = tf.Variable(1.0)

# names that do not exist
tf.reduce_men(x)  # error: a misspelled function
tf.nn.rellu(x)  # error: a misspelled function of a namespace
tf.io.parse_exampel(x, {})  # error: a misspelled function of a namespace with names that are loaded on first use
tf.kears.layers.Dense(1)  # error: a misspelled namespace
tf.keras.layers.Dens(1)  # error: a misspelled layer
tf.data.DataSet.range(3)  # error: a misspelled class
x.reshape(2, 1)  # error: tensors are not NumPy arrays
v.asign(2.0)  # error: a misspelled method

# wrong arguments
tf.tanh()  # error: no argument
tf.tanh(None)  # error: None is no tensor
tf.tanh(object())  # error: an object that no array is made of
tf.add(x)  # error: one argument of two
tf.reduce_sum(x, axes=0)  # error: TensorFlow's name is axis
tf.reduce_sum(x, axis=0.5)  # error: an axis is an integer
tf.matmul(x, None)  # error: None is no tensor
tf.nn.relu(x, nmae="y")  # error: a misspelled keyword
x + None  # error: None is no tensor
v.assign(None)  # error: None is no tensor
v.assign_add()  # error: no argument
tf.GradientTape(persistant=True)  # error: a misspelled keyword
tf.function(x)  # error: a tensor is no function

with tf.GradientTape() as tape:
    y = v * v
tape.gradint(y, v)  # error: a misspelled method
tape.gradient(y)  # error: no sources
tape.gradient(y, v).asign(1.0)  # error: a gradient is a tensor, which has no such method
tape.explain(y, v).raeson  # error: a misspelled attribute
tf.scan(lambda total, row: total + row, x).rank()  # error: a tensor has no such method


def rotated(pair: tuple[tf.Tensor, tf.Tensor], row: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return row, pair[0]


tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, y), (0, (x, x)))[1].rank()  # error: a tuple has no such method
tf.foldl(rotated, x, initializer=(x, x)).rank()  # error: the result is a tuple
tf.scan(lambda a, b: a, x, 0.0, revers=True)  # error: a misspelled keyword
length: str = tf.tanh(x)  # error: a tensor is no text


@tf.function
def f(x: tf.Tensor, n: int) -> tf.Tensor:
    return x * float(n)


f(x)  # error: one argument of two
f(x, "2")  # error: a text is no number
number: int = f(x, 2)  # error: a tensor is no number
f.get_concrete_functoin(x, 2)  # error: a misspelled method
