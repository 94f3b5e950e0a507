"""Graphs in event files: the traces of functions, as TensorBoard draws them."""

from __future__ import annotations

import time
from typing import Any

from gradtape._src.conversion import convert
from gradtape._src.formats.event import Event, RunMetadata
from gradtape._src.formats.protobuf import encode
from gradtape._src.formats.tensor_proto import serialized
from gradtape._src.function.concrete import on_concrete
from gradtape._src.function.modes import inside_function
from gradtape._src.graph.operations import FuncGraph
from gradtape._src.tensor import Tensor
from gradtape._src.tf.scopes import executing_eagerly
from gradtape._src.tf.summary_writer import current_writer, should_record_summaries, step_value

__all__ = ["graph", "trace_export", "trace_off", "trace_on"]


def graph(graph_data: Any) -> Tensor:
    """Write a graph for TensorBoard: `f.get_concrete_function(...).graph`. Returns True if it was written.

    >>> import gradtape as tf, tempfile
    >>> square = tf.function(lambda x: x * x).get_concrete_function(tf.constant(2.0))
    >>> with tf.summary.create_file_writer(tempfile.mkdtemp()).as_default():
    ...     written = tf.summary.graph(square.graph)
    >>> bool(written)
    True
    """
    if not executing_eagerly():
        raise ValueError(
            "graph() cannot be invoked inside a graph context. Call it in eager code: a graph is written once."
        )
    writer = current_writer()
    if not isinstance(graph_data, FuncGraph) and not hasattr(graph_data, "SerializeToString"):
        raise ValueError(
            f"Argument 'graph_data' is not tf.Graph or tf.compat.v1.GraphDef. Received graph_data={graph_data} of type "
            f"{type(graph_data).__name__}. A concrete function has one: f.get_concrete_function(...).graph"
        )
    if writer is None or not should_record_summaries():
        return convert(False)
    message = graph_data.as_graph_def() if isinstance(graph_data, FuncGraph) else graph_data
    writer.file.add(Event(wall_time=time.time(), graph_def=message.SerializeToString()).SerializeToString())
    return convert(True)


# -- traces ----------------------------------------------------------------------------------------------------------
class _Trace:
    """What was traced since `trace_on`."""

    def __init__(self, graphs: bool, profiler_outdir: str | None) -> None:
        self.with_graphs, self.profiler_outdir = graphs, profiler_outdir
        self.graphs: list[FuncGraph] = []


_open: list[_Trace] = []


def _on_concrete(function: Any) -> None:
    for trace in _open:
        if trace.with_graphs:
            trace.graphs.append(function.graph)


def trace_on(graph: bool = True, profiler: bool = False, profiler_outdir: str | None = None) -> None:
    """Start to collect the graphs of functions that are traced and, with `profiler=True`, a profile.

    >>> import gradtape as tf, tempfile
    >>> tf.summary.trace_on()
    >>> y = tf.function(lambda x: x * x)(tf.constant(2.0))
    >>> with tf.summary.create_file_writer(tempfile.mkdtemp()).as_default():
    ...     tf.summary.trace_export("square", step=0)
    """
    if not executing_eagerly():
        inside = inside_function()
        _log("Cannot enable trace inside a tf.function." if inside else "Must enable trace in eager mode.")
        return
    if _open:
        _log("Trace already enabled")
        return
    if profiler and profiler_outdir is None:
        _log("No `profiler_outdir` passed to trace_on(). Profiler won't be enabled.")
        profiler = False
    if profiler:
        from gradtape._src.tf.profiler import start

        start(str(profiler_outdir))
    _open.append(_Trace(graph, str(profiler_outdir) if profiler else None))
    on_concrete.append(_on_concrete)


def _log(sentence: str) -> None:
    from gradtape._src.call_sites import logger

    logger().warning(sentence)


def trace_off() -> None:
    """End a trace without writing it.

    >>> import gradtape as tf
    >>> tf.summary.trace_off()
    """
    for trace in _open:
        on_concrete.remove(_on_concrete)
        if trace.profiler_outdir is not None:
            from gradtape._src.tf.profiler import stop

            stop()
    _open.clear()


def trace_export(name: str, step: Any = None, profiler_outdir: str | None = None) -> None:
    """End a trace and write its graphs, which TensorBoard draws, and its profile.

    >>> import gradtape as tf
    >>> tf.summary.trace_export("square", step=0)
    Traceback (most recent call last):
    ValueError: Must enable trace before export through tf.summary.trace_on.
    """
    if step is not None:
        step = step_value(step)
    if not executing_eagerly():
        inside = inside_function()
        _log(
            "Cannot export trace inside a tf.function." if inside else "Can only export trace while executing eagerly."
        )
        return
    if not _open:
        raise ValueError("Must enable trace before export through tf.summary.trace_on.")
    trace, writer = _open[0], current_writer()
    if trace.with_graphs and writer is not None:
        graphs = [found.as_graph_def().SerializeToString() for found in trace.graphs]
        metadata = RunMetadata(
            partition_graphs=graphs, function_graphs=[{"pre_optimization_graph": found} for found in graphs]
        )
        tensor = serialized(metadata.SerializeToString())
        described = [(1, [(1, b"graph_run_metadata_graph"), (2, b"1")])]
        value = [(1, [(1, name.encode()), (8, tensor), (9, described)])]
        if should_record_summaries():
            writer.file.add_summary(encode(value), step_value(step))
    trace_off()
