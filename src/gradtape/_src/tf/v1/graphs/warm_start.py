"""`tf.compat.v1.train.init_from_checkpoint`: initial values of variables from a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gradtape._src.arrays.symbolic import default_graph
from gradtape._src.checkpoint.reading import load_checkpoint
from gradtape._src.checkpoint.state import latest_checkpoint

__all__ = ["init_from_checkpoint"]


def init_from_checkpoint(ckpt_dir_or_file: str, assignment_map: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> None:
    """Let variables begin with the values that a checkpoint has. Eager variables get them immediately.

    Args:
      ckpt_dir_or_file: A checkpoint, or a folder whose latest one it is.
      assignment_map: Names in the checkpoint, and for each of them a variable, the name of one in the graph, or a list
        of variables; or "scope/" and "other_scope/", for all variables of the graph in the second one.

    >>> import gradtape as tf, os, tempfile
    >>> path = tf.train.Checkpoint(w=tf.Variable([1.0, 2.0])).write(os.path.join(tempfile.mkdtemp(), "saved"))
    >>> v = tf.Variable([0.0, 0.0])
    >>> tf.compat.v1.train.init_from_checkpoint(path, {"w/.ATTRIBUTES/VARIABLE_VALUE": v})
    >>> v.numpy().tolist()
    [1.0, 2.0]
    """
    path = latest_checkpoint(ckpt_dir_or_file) or ckpt_dir_or_file
    reader = load_checkpoint(path)
    shapes = reader.get_variable_to_shape_map()
    pairs = assignment_map.items() if isinstance(assignment_map, Mapping) else assignment_map
    wanted = [pair for name, target in pairs for pair in _targets(name, target, path, shapes)]
    for name, variable in wanted:
        _check(name, variable, path, shapes)
    for name, variable in wanted:
        _initialize(variable, reader.get_tensor(name))


def _targets(name: str, target: Any, path: str, shapes: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The names in the checkpoint, with the variable for each."""
    if not isinstance(target, str):
        many = isinstance(target, Sequence)
        return [(name, variable) for variable in (target if many else [target])]
    graph = default_graph()
    variables = {} if graph is None else {v.op.name: v for v in graph.get_collection("variables")}
    if target in variables:
        return [(name, variables[target])]
    if not name.endswith("/"):
        scope = target.rpartition("/")[0] if "/" in target else target
        raise ValueError(
            f"Assignment map with scope only name {scope} should map to scope only {name}. Should be 'scope/': "
            "'other_scope/'."
        )
    inside = {n.removeprefix(target): v for n, v in variables.items() if n.startswith(target) or target == "/"}
    prefix = "" if name == "/" else name
    for rest in inside:
        if prefix + rest not in shapes:
            raise ValueError(f"Tensor {rest} ({prefix}{rest} in {name}) is not found in {path} checkpoint")
    return [(prefix + rest, variable) for rest, variable in inside.items()]


def _check(name: str, variable: Any, path: str, shapes: Mapping[str, Any]) -> None:
    if name not in shapes:
        raise ValueError(f"Tensor {name} is not found in {path} checkpoint {dict(shapes)}")
    if not variable.shape.is_compatible_with(shapes[name]):
        raise ValueError(
            f"Shape of variable {variable.name} ({tuple(variable.shape)}) doesn't match with shape of tensor {name} "
            f"({list(shapes[name])}) from checkpoint reader."
        )


def _initialize(variable: Any, value: Any) -> None:
    if hasattr(type(variable), "is_graph_variable"):
        variable.initialize_with(value)
    else:
        variable.assign(value)
