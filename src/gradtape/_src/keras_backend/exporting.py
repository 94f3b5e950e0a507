"""Exporting for TensorFlow Serving: a format of TensorFlow's programs, which gradtape has not."""

from __future__ import annotations

from typing import Any, NoReturn

_REASON = (
    "`export_saved_model` only currently supports the tensorflow, jax and torch backends. A SavedModel holds a "
    "TensorFlow graph, and gradtape makes none. Save the model with model.save('name.keras'), which Keras reads with "
    "any backend, and export it from there: KERAS_BACKEND=tensorflow or KERAS_BACKEND=jax."
)


class ExportArchive:
    """The exporter that Keras looks for; it raises an error that says what to do."""

    def track(self, resource: Any) -> NoReturn:
        raise NotImplementedError(_REASON)

    def add_endpoint(self, name: str, fn: Any, input_signature: Any = None, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(_REASON)

    def track_and_add_endpoint(self, name: str, resource: Any, input_signature: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(_REASON)

    def add_variable_collection(self, name: str, variables: Any) -> NoReturn:
        raise NotImplementedError(_REASON)

    def write_out(self, filepath: Any, options: Any = None, verbose: bool = True) -> NoReturn:
        raise NotImplementedError(_REASON)
