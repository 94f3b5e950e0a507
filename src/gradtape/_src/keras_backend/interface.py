"""The interface of a Keras backend: the names that the other backends list in their `__init__`."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

from keras.src.backend.common.name_scope import name_scope as name_scope

from gradtape._src.dtypes import DType
from gradtape._src.function.modes import init_scope
from gradtape._src.keras_backend import (
    core as core,
    distribution_lib as distribution_lib,
    image as image,
    linalg as linalg,
    math as math,
    nn as nn,
    numpy as numpy,
    randomness,
)
from gradtape._src.keras_backend.core import (
    IS_THREAD_SAFE as IS_THREAD_SAFE,
    SUPPORTS_COMPLEX_DTYPES as SUPPORTS_COMPLEX_DTYPES,
    SUPPORTS_RAGGED_TENSORS as SUPPORTS_RAGGED_TENSORS,
    SUPPORTS_SPARSE_TENSORS as SUPPORTS_SPARSE_TENSORS,
    Variable as Variable,
    cast as cast,
    compute_output_spec as compute_output_spec,
    cond as cond,
    convert_to_numpy as convert_to_numpy,
    convert_to_tensor as convert_to_tensor,
    device_scope as device_scope,
    is_tensor as is_tensor,
    random_seed_dtype as random_seed_dtype,
    scatter as scatter,
    shape as shape,
    stop_gradient as stop_gradient,
    vectorized_map as vectorized_map,
)
from gradtape._src.keras_backend.rnn import (
    bidirectional_gru as bidirectional_gru,
    bidirectional_lstm as bidirectional_lstm,
    cudnn_ok as cudnn_ok,
    gru as gru,
    lstm as lstm,
    rnn as rnn,
)
from gradtape._src.shape import TensorShape
from gradtape._src.tensor import Tensor

random = randomness
tensorflow_types = SimpleNamespace(available=True, TensorShape=TensorShape, DType=DType, TypeSpec=())
"""Types that may occur in the configuration of a layer, besides tensors."""


class _Namespace:
    """The names of a module, and some others."""

    def __init__(self, root: ModuleType) -> None:
        self._root = root

    def __getattr__(self, name: str) -> Any:
        return getattr(self._root, name)


class AvailableTensorFlow(_Namespace):
    """gradtape, for code of Keras that checks whether TensorFlow is installed."""

    available = True


class BackendAsTensorFlow(_Namespace):
    """Keras' backend, for layers that do more if its name is TensorFlow's: ragged and sparse results."""

    def backend(self) -> str:
        return "tensorflow"


class TensorFlowBackend(_Namespace):
    """This backend, for layers that import TensorFlow's: it has TensorFlow's ops for counting."""

    def __init__(self, root: ModuleType) -> None:
        super().__init__(root)
        self.__name__ = "keras.src.backend.tensorflow"


class LegacyTensorFlow(_Namespace):
    """The part of TensorFlow that the legacy functions of `keras.backend` use: public names, and some private ones."""

    __internal__ = SimpleNamespace(
        EagerTensor=Tensor,
        eager_context=SimpleNamespace(eager_mode=init_scope),
        tf2=SimpleNamespace(enabled=lambda: True),
    )


def join_dynamic_backend(dynamic: type) -> None:
    """Register this backend with preprocessing layers, which switch backends by name."""
    elsewhere, choose = dynamic.__getattr__, dynamic.set_backend  # type: ignore[attr-defined]

    def attribute(self: Any, name: str) -> Any:
        if vars(self).get("_backend") == "gradtape":
            from keras.src import backend

            return getattr(backend, name)
        return elsewhere(self, name)

    def set_backend(self: Any, backend: str) -> None:
        if backend == "gradtape":
            self._backend = backend
        else:
            choose(self, backend)

    dynamic.__getattr__, dynamic.set_backend = attribute, set_backend  # type: ignore[attr-defined]
