"""The number of BLAS threads: one for small products, and as before afterwards."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from gradtape._src.arrays.numpy import blas

control = blas._control()
needs_openblas = pytest.mark.skipif(control is None, reason="this NumPy has another BLAS library")


@pytest.fixture
def _two():
    before = control.get()
    control.set(2)
    yield
    control.set(before)


@needs_openblas
@pytest.mark.usefixtures("_two")
def test_a_call_alone_has_one_thread_and_leaves_the_number_as_it_was():
    assert blas.alone(control.get) == 1
    assert blas.alone(blas.alone, control.get) == 1
    assert control.get() == 2
    with pytest.raises(ZeroDivisionError):
        blas.alone(lambda: 1 / 0)
    assert control.get() == 2


@needs_openblas
@pytest.mark.usefixtures("_two")
@pytest.mark.parametrize(("count", "seen"), [(10, 2), (2**18, 2), (2**20, 1), (2**24, 2)])
def test_products_of_medium_size_run_alone(count, seen, monkeypatch):
    monkeypatch.setattr(blas, "SEVERAL", True)
    assert blas.by_size(lambda: count)(control.get)() == seen


PROGRAM = """
import numpy as np
from gradtape._src.arrays.numpy import blas, core, neural
seen, alone = [], blas.alone
blas.alone = lambda function, *args, **options: seen.append(function.__name__) or alone(function, *args, **options)
x = np.random.default_rng(0).standard_normal((128, 128)).astype(np.float32)
for options in ({}, {"adjoint_x": True}, {"adjoint_y": True}):
    a, b = x.T if "adjoint_x" in options else x, x.T if "adjoint_y" in options else x
    np.testing.assert_allclose(core.matmul(x, x, **options), a @ b, rtol=1e-4, atol=1e-4)
core.matmul(x[:8], x[:, :8])
core.matmul(np.stack([x[:8]] * 100), np.stack([x[:, :8]] * 100))
core.matmul(np.tile(x, (8, 8)), np.tile(x, (8, 8)))
image, filters = x.reshape(1, 32, 32, 16), x[:, :36].reshape(3, 3, 16, 32)
neural.conv(image, filters, strides=(1, 1), dilations=(1, 1), padding=((1, 1), (1, 1)))
print(blas.SEVERAL, *seen)
"""


@needs_openblas
@pytest.mark.parametrize(("threads", "printed"), [("1", "False"), ("2", "True matmul matmul matmul conv")])
def test_which_products_run_alone(threads, printed):
    environment = {**os.environ, "OMP_NUM_THREADS": threads}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == printed


def test_without_openblas_products_run_as_they_are(monkeypatch):
    monkeypatch.setattr(blas, "_control", lambda: None)
    assert blas.alone(np.dot, np.ones(3), np.ones(3)) == 3
