"""The default graph outside of any block, and the switch that makes whole programs build graphs."""

from __future__ import annotations

from typing import Any

from gradtape._src.arrays.symbolic import build_from_now_on, current_graph, default_graph
from gradtape._src.tf.v1.graphs import modules as modules, ops as ops  # which register themselves
from gradtape._src.tf.v1.graphs.graph import Graph as Graph, prepare_modules
from gradtape._src.variable import variable_maker

_global: list[Graph] = []
_switched: list[bool] = []


def get_default_graph() -> Any:
    """The graph that is traced or built here; in eager code one that a session may use.

    >>> with Graph().as_default() as graph:
    ...     print(get_default_graph() is graph)
    True
    """
    traced = current_graph()
    if traced is not None:
        return traced.root
    return default_graph() or _global_graph()


def _global_graph() -> Graph:
    if not _global:
        _global.append(Graph())
    return _global[0]


def reset_default_graph() -> None:
    """Let an empty graph be the default one."""
    if default_graph() is not None and not (_switched and default_graph() in _global):
        raise AssertionError(
            "Do not use tf.reset_default_graph() to clear nested graphs. If you need a cleared graph, exit the nesting "
            "and create a new graph."
        )
    _global.clear()
    if _switched:
        _enter(_global_graph())


def disable_eager_execution() -> None:
    """Build graphs from now on: functions add operations to the default graph, and sessions run them."""
    if not _switched:
        _switched.append(True)
        _enter(_global_graph())


def enable_eager_execution(*args: Any, **kwargs: Any) -> None:
    """Run functions when they are called, as from the start."""
    if _switched:
        _switched.clear()
        build_from_now_on(None)
        variable_maker.set(None)


def _enter(graph: Graph) -> None:
    prepare_modules()
    build_from_now_on(graph)
    variable_maker.set(graph.make_variable)


def is_switched_off() -> bool:
    """Whether eager execution is off."""
    return bool(_switched)
