"""What Keras' callback `TensorBoard` needs of TensorFlow: summaries and profiles."""

from __future__ import annotations

import warnings
from types import ModuleType
from typing import Any

from gradtape._src.formats.event import SummaryMetadata
from gradtape._src.tf import profiler, summary, summary_experimental

__all__ = ["Backend", "keras_model_summary", "start_batch_trace", "start_trace", "stop_batch_trace", "stop_trace"]


def start_trace(logdir: str) -> None:
    """Begin a profile."""
    profiler.start(logdir)


def stop_trace(save: bool) -> None:
    """End a profile."""
    profiler.stop(save)


def start_batch_trace(batch: int) -> Any:
    """Begin a batch that a profile shows."""
    return profiler.Trace("Profiled batch", step_num=batch).__enter__()


def stop_batch_trace(batch_trace_context: Any) -> None:
    """End a batch that a profile shows."""
    batch_trace_context.__exit__(None, None, None)


class Backend:
    """Keras' backend as the callback sees it: one that has summaries and profiles, as TensorFlow's has."""

    def __init__(self, backend: ModuleType, tensorboard: ModuleType) -> None:
        self._backend, self.tensorboard = backend, tensorboard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    @staticmethod
    def backend() -> str:
        """The name by which the callback knows such a backend."""
        return "tensorflow"


def summary_of(callback: Any) -> ModuleType:
    """The module that the callback writes summaries with."""
    return summary


def keras_model_summary(name: str, data: Any, step: Any = None) -> Any:
    """Write the structure of a model, which TensorBoard draws. False without a writer, or if it has no JSON."""
    metadata = SummaryMetadata(plugin_data={"plugin_name": "graph_keras_model", "content": b"1"})
    try:
        text = data.to_json()
    except Exception as error:  # a callback goes on without the drawing
        warnings.warn(f"Model failed to serialize as JSON. Ignoring... {error}", stacklevel=2)
        return False
    with summary_experimental.summary_scope(name, "graph_keras_model") as (tag, _):
        return summary.write(tag, text, step, metadata)
