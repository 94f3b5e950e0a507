"""The messages of event files, which TensorBoard reads: `Event`, `Summary` and their parts."""

from __future__ import annotations

from typing import Any, ClassVar

from gradtape._src.formats.schema import Field, Record, mapping, repeated

__all__ = [
    "Event",
    "HistogramProto",
    "PluginData",
    "RunMetadata",
    "SessionLog",
    "Summary",
    "SummaryDescription",
    "SummaryMetadata",
    "TaggedRunMetadata",
    "TensorProto",
    "TensorShapeProto",
]


class _Dim(Record):
    """A dimension: its size, -1 if it is unknown."""

    schema: ClassVar[dict[str, Field]] = {"size": Field(1, "int"), "name": Field(2, "string")}


class TensorShapeProto(Record):
    """A shape."""

    Dim = _Dim
    schema: ClassVar[dict[str, Field]] = {"dim": repeated(2, _Dim), "unknown_rank": Field(3, "bool")}


class TensorProto(Record):
    """A tensor: its dtype, its shape, and its values as bytes or in the list for its dtype."""

    schema: ClassVar[dict[str, Field]] = {
        "dtype": Field(1, "int"),
        "tensor_shape": Field(2, TensorShapeProto),
        "version_number": Field(3, "int"),
        "tensor_content": Field(4, "bytes"),
        "float_val": repeated(5, "float"),
        "double_val": repeated(6, "double"),
        "int_val": repeated(7, "int"),
        "string_val": repeated(8, "bytes"),
        "scomplex_val": repeated(9, "float"),
        "int64_val": repeated(10, "int"),
        "bool_val": repeated(11, "bool"),
        "dcomplex_val": repeated(12, "double"),
        "half_val": repeated(13, "int"),
        "uint32_val": repeated(16, "int"),
        "uint64_val": repeated(17, "int"),
        "float8_val": Field(18, "bytes"),
    }


class PluginData(Record):
    """The plugin of TensorBoard that shows a summary, and the plugin's data."""

    schema: ClassVar[dict[str, Field]] = {"plugin_name": Field(1, "string"), "content": Field(2, "bytes")}


class SummaryMetadata(Record):
    """What a summary is: the plugin that shows it, its name and description.

    >>> metadata = SummaryMetadata(summary_description="the loss")
    >>> metadata.plugin_data.plugin_name = "scalars"
    >>> SummaryMetadata.FromString(metadata.SerializeToString()).plugin_data.plugin_name
    'scalars'
    """

    PluginData = PluginData
    schema: ClassVar[dict[str, Field]] = {
        "plugin_data": Field(1, PluginData),
        "display_name": Field(2, "string"),
        "summary_description": Field(3, "string"),
        "data_class": Field(4, "int"),
    }


class HistogramProto(Record):
    """A histogram of TensorFlow 1: upper limits of buckets, and counts."""

    schema: ClassVar[dict[str, Field]] = {
        "min": Field(1, "double"),
        "max": Field(2, "double"),
        "num": Field(3, "double"),
        "sum": Field(4, "double"),
        "sum_squares": Field(5, "double"),
        "bucket_limit": repeated(6, "double"),
        "bucket": repeated(7, "double"),
    }


class _Image(Record):
    """An image of TensorFlow 1: a PNG, JPEG or GIF file."""

    schema: ClassVar[dict[str, Field]] = {
        "height": Field(1, "int"),
        "width": Field(2, "int"),
        "colorspace": Field(3, "int"),
        "encoded_image_string": Field(4, "bytes"),
    }


class _Audio(Record):
    """A sound of TensorFlow 1: a WAV file."""

    schema: ClassVar[dict[str, Field]] = {
        "sample_rate": Field(1, "float"),
        "num_channels": Field(2, "int"),
        "length_frames": Field(3, "int"),
        "encoded_audio_string": Field(4, "bytes"),
        "content_type": Field(5, "string"),
    }


class _Value(Record):
    """A value with its tag."""

    schema: ClassVar[dict[str, Field]] = {
        "tag": Field(1, "string"),
        "simple_value": Field(2, "float", oneof="value"),
        "image": Field(4, _Image, oneof="value"),
        "histo": Field(5, HistogramProto, oneof="value"),
        "audio": Field(6, _Audio, oneof="value"),
        "node_name": Field(7, "string"),
        "tensor": Field(8, TensorProto, oneof="value"),
        "metadata": Field(9, SummaryMetadata),
    }


class Summary(Record):
    """Values with their tags.

    >>> Summary(value=[Summary.Value(tag="a", simple_value=2.5)]).SerializeToString().hex()
    '0a080a01611500002040'
    """

    Value, Image, Audio = _Value, _Image, _Audio
    schema: ClassVar[dict[str, Field]] = {"value": repeated(1, _Value)}


class SummaryDescription(Record):
    """The kind of values that an op of TensorFlow 1 produces."""

    schema: ClassVar[dict[str, Field]] = {"type_hint": Field(1, "string")}


class SessionLog(Record):
    """The start or end of a run, or a checkpoint."""

    STATUS_UNSPECIFIED, START, STOP, CHECKPOINT = range(4)
    schema: ClassVar[dict[str, Field]] = {
        "status": Field(1, "int"),
        "checkpoint_path": Field(2, "string"),
        "msg": Field(3, "string"),
    }


class _FunctionGraphs(Record):
    """A function that ran: its graph, as bytes of a GraphDef."""

    schema: ClassVar[dict[str, Field]] = {"pre_optimization_graph": Field(2, "bytes")}


class RunMetadata(Record):
    """The graphs that ran."""

    schema: ClassVar[dict[str, Field]] = {
        "partition_graphs": repeated(3, "bytes"),
        "function_graphs": repeated(4, _FunctionGraphs),
    }


class TaggedRunMetadata(Record):
    """The metadata of a run, with a tag."""

    schema: ClassVar[dict[str, Field]] = {"tag": Field(1, "string"), "run_metadata": Field(2, "bytes")}


class _LogMessage(Record):
    schema: ClassVar[dict[str, Field]] = {"level": Field(1, "int"), "message": Field(2, "string")}


class _Source(Record):
    schema: ClassVar[dict[str, Field]] = {"writer": Field(1, "string")}


class Event(Record):
    """A record of an event file."""

    schema: ClassVar[dict[str, Field]] = {
        "wall_time": Field(1, "double"),
        "step": Field(2, "int"),
        "file_version": Field(3, "string", oneof="what"),
        "graph_def": Field(4, "bytes", oneof="what"),
        "summary": Field(5, Summary, oneof="what"),
        "log_message": Field(6, _LogMessage, oneof="what"),
        "session_log": Field(7, SessionLog, oneof="what"),
        "tagged_run_metadata": Field(8, TaggedRunMetadata, oneof="what"),
        "meta_graph_def": Field(9, "bytes", oneof="what"),
        "source_metadata": Field(10, _Source),
    }


class _NamedFunction(Record):
    """A function that an op calls."""

    schema: ClassVar[dict[str, Field]] = {"name": Field(1, "string")}


class AttrValue(Record):
    """An attribute of an op; only the kinds that graph views show."""

    schema: ClassVar[dict[str, Field]] = {
        "s": Field(2, "bytes", oneof="value"),
        "i": Field(3, "int", oneof="value"),
        "f": Field(4, "float", oneof="value"),
        "b": Field(5, "bool", oneof="value"),
        "type": Field(6, "int", oneof="value"),
        "shape": Field(7, TensorShapeProto, oneof="value"),
        "tensor": Field(8, TensorProto, oneof="value"),
        "func": Field(10, _NamedFunction, oneof="value"),
    }


class NodeDef(Record):
    """An op of a graph: its name, its kind, the names of its inputs."""

    schema: ClassVar[dict[str, Field]] = {
        "name": Field(1, "string"),
        "op": Field(2, "string"),
        "input": repeated(3, "string"),
        "device": Field(4, "string"),
        "attr": mapping(5, AttrValue),
    }


class _Versions(Record):
    schema: ClassVar[dict[str, Field]] = {"producer": Field(1, "int"), "min_consumer": Field(2, "int")}


class ArgDef(Record):
    """An argument or a result of an op."""

    schema: ClassVar[dict[str, Field]] = {"name": Field(1, "string"), "type": Field(3, "int")}


class OpDef(Record):
    """The signature of an op or a function."""

    ArgDef = ArgDef
    schema: ClassVar[dict[str, Field]] = {
        "name": Field(1, "string"),
        "input_arg": repeated(2, ArgDef),
        "output_arg": repeated(3, ArgDef),
    }


class FunctionDef(Record):
    """A function that ops of a graph call: its ops, and the tensors that it returns."""

    schema: ClassVar[dict[str, Field]] = {
        "signature": Field(1, OpDef),
        "node_def": repeated(3, NodeDef),
        "ret": mapping(4, "string"),
    }


class _FunctionLibrary(Record):
    schema: ClassVar[dict[str, Field]] = {"function": repeated(1, FunctionDef)}


class GraphDef(Record):
    """A graph as a list of its ops, and the functions that they call."""

    schema: ClassVar[dict[str, Field]] = {
        "node": repeated(1, NodeDef),
        "library": Field(2, _FunctionLibrary),
        "versions": Field(4, _Versions),
    }


def shape_proto(shape: Any) -> TensorShapeProto:
    """A shape as a message; None is a dimension of unknown size."""
    return TensorShapeProto(dim=[_Dim(size=-1 if size is None else int(size)) for size in shape])
