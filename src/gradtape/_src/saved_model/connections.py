"""Connect the results of branches and loops to all of their inputs, including those that a call did not use.

TensorFlow differentiates a whole graph: the gradient with respect to an input that only the other branch uses is zero,
not None. Eager code runs one branch, whose results are connected here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradtape._src.autodiff.custom_gradient import custom_gradient
from gradtape._src.conversion import convert
from gradtape._src.function.modes import inside_function
from gradtape._src.saved_model.messages import Function, attr_value
from gradtape._src.tensor import Tensor
from gradtape._src.tf.array import identity, zeros_like
from gradtape._src.variable import Variable

if TYPE_CHECKING:
    from collections.abc import Callable

    from gradtape._src.saved_model.messages import FunctionDefinition, Node

CONTROL_FLOW = frozenset({"If", "StatelessIf", "Case", "StatelessCase", "While", "StatelessWhile"})

_SEVERING = frozenset({
    "ArgMax", "ArgMin", "Ceil", "Equal", "Floor", "FloorDiv", "Greater", "GreaterEqual", "IsFinite", "IsInf", "IsNan",
    "Less", "LessEqual", "LogicalAnd", "LogicalNot", "LogicalOr", "NotEqual", "OnesLike", "Rank", "Rint", "Round",
    "Shape", "ShapeN", "Sign", "Size", "StopGradient", "VariableShape", "ZerosLike",
})  # fmt: skip
"""Non-differentiable ops."""


def reaching(definition: FunctionDefinition, arguments: list[str], function: Callable[[str], Any]) -> frozenset[int]:
    """The arguments from which a path of differentiable ops leads to a result."""
    places = {name: i for i, name in enumerate(arguments)}
    seen: set[str] = set()
    found: set[int] = set()
    stack = [reference.split(":")[0] for reference in definition.results.values()]
    while stack:
        name = stack.pop()
        if name in places:
            found.add(places[name])
        elif name not in seen and name in definition.nodes:
            seen.add(name)
            stack += _sources(definition.nodes[name], function)
    return frozenset(found)


def _sources(node: Node, function: Callable[[str], Any]) -> list[str]:
    """The nodes and arguments that a node's gradient flows to."""
    if node.op in _SEVERING:
        return []
    names = [each.split(":")[0] for each in node.inputs]
    callee = attr_value(node.attrs["f"]) if "f" in node.attrs else None
    if isinstance(callee, Function):
        return [name for i, name in enumerate(names) if i in function(callee.name).reaching]
    return names


def connecting(run: Callable[..., list[Any]], op: str, attrs: dict[str, Any]) -> Callable[..., list[Any]]:
    """Run a branch or a loop, and connect its results to inputs that only the part that did not run uses."""
    branches = [attrs[name] for name in ("then_branch", "else_branch", "body") if name in attrs]
    branches += attrs.get("branches", [])
    first = 0 if op.endswith("While") else 1  # other ops take a condition or an index first

    def connected(inputs: list[Any], values: dict[str, list[Any]]) -> list[Any]:
        results = run(inputs, values)
        if inside_function():
            return results
        given = inputs[first:]
        used = frozenset().union(*(branch.reaching for branch in branches))
        others = [given[i] for i in sorted(used) if i < len(given) and _is_differentiable(given[i])]
        return connect(results, others) if others else results

    return connected


def _is_differentiable(value: Any) -> bool:
    return isinstance(value, (Tensor, Variable)) and (value.dtype.is_floating or value.dtype.is_complex)


def connect(results: list[Any], sources: list[Any]) -> list[Any]:
    """The results, with gradients of zeros for the sources in addition to their own."""
    places = [i for i, each in enumerate(results) if isinstance(each, Tensor) and _is_differentiable(each)]
    if not places:
        return results

    @custom_gradient
    def attached(*xs: Any) -> Any:
        def vjp(*g: Any) -> list[Any]:
            rest = list(xs[len(places) :])
            return [*g, *connect([zeros_like(x) for x in rest], [*rest, *g])]  # zeros of every order

        return [identity(x) for x in xs[: len(places)]], vjp

    found = attached(*(results[i] for i in places), *(convert(each) for each in sources))
    tensors = list(found) if isinstance(found, (list, tuple)) else [found]
    merged = list(results)
    for i, tensor in zip(places, tensors, strict=True):
        merged[i] = tensor
    return merged
