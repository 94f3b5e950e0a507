"""The parts of TensorFlow that Keras' callback `TensorBoard` uses: summaries and profiles."""

from __future__ import annotations

import warnings
from types import ModuleType
from typing import Any

from gradtape._src.formats.event import SummaryMetadata
from gradtape._src.tf import profiler, summary, summary_experimental

__all__ = ["Backend", "keras_model_summary", "start_batch_trace", "start_trace", "stop_batch_trace", "stop_trace"]


def start_trace(logdir: str) -> None:
    """Start a profile."""
    profiler.start(logdir)


def stop_trace(save: bool) -> None:
    """Stop a profile."""
    profiler.stop(save)


def start_batch_trace(batch: int) -> Any:
    """Start a batch of a profile."""
    return profiler.Trace("Profiled batch", step_num=batch).__enter__()


def stop_batch_trace(batch_trace_context: Any) -> None:
    """Stop a batch of a profile."""
    batch_trace_context.__exit__(None, None, None)


class Backend:
    """Keras' backend for the callback: with summaries and profiles, like TensorFlow's."""

    def __init__(self, backend: ModuleType, tensorboard: ModuleType) -> None:
        self._backend, self.tensorboard = backend, tensorboard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    @staticmethod
    def backend() -> str:
        """The name by which the callback recognises such a backend."""
        return "tensorflow"


def summary_of(callback: Any) -> ModuleType:
    """The module with which the callback writes summaries."""
    return summary


def keras_model_summary(name: str, data: Any, step: Any = None) -> Any:
    """Write the structure of a model for TensorBoard. False without a writer, or if the model has no JSON."""
    metadata = SummaryMetadata(plugin_data={"plugin_name": "graph_keras_model", "content": b"1"})
    try:
        text = data.to_json()
    except Exception as error:  # the callback continues without it
        warnings.warn(f"Model failed to serialize as JSON. Ignoring... {error}", stacklevel=2)
        return False
    with summary_experimental.summary_scope(name, "graph_keras_model") as (tag, _):
        return summary.write(tag, text, step, metadata)
