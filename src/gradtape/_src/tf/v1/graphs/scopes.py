"""Variable scopes: names of variables, and whether a name refers to a new or an existing variable."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from gradtape._src.dtypes import as_dtype, float32
from gradtape._src.interrupts import setting
from gradtape._src.shape import TensorShape
from gradtape._src.tf.compat_initializers import default_value
from gradtape._src.tf.v1.graphs.tensors import is_graph_value
from gradtape._src.variable import name_prefix, scope_within

__all__ = ["AUTO_REUSE", "VariableScope", "graph_variable", "graph_variable_scope", "open_scope"]


class _AutoReuse:
    def __repr__(self) -> str:
        return "<_ReuseMode.AUTO_REUSE: 1>"


AUTO_REUSE = _AutoReuse()
"""Reuse a variable if it exists, otherwise create it."""

_INHERITED = ("initializer", "regularizer", "custom_getter", "dtype", "constraint", "use_resource", "caching_device")


class VariableScope:
    """A scope of variables: its name, and the options of the variables in it."""

    def __init__(self, reuse: Any, name: str = "", original_name_scope: str = "", **options: Any) -> None:
        self.reuse, self.name, self.original_name_scope = reuse, name, original_name_scope
        self.initializer = self.regularizer = self.custom_getter = self.constraint = None
        self.use_resource = self.caching_device = self.partitioner = None
        self.dtype: Any = float32
        for option, value in options.items():
            setattr(self, option, value)

    def reuse_variables(self) -> None:
        """Reuse variables in this scope from now on."""
        self.reuse = True

    def set_initializer(self, initializer: Any) -> None:
        """Set the initializer of the scope."""
        self.initializer = initializer

    def set_regularizer(self, regularizer: Any) -> None:
        """Set the regularizer of the scope."""
        self.regularizer = regularizer

    def global_variables(self) -> list[Any]:
        """The variables in this scope."""
        return self._collected("variables")

    def trainable_variables(self) -> list[Any]:
        """The trainable variables in this scope."""
        return self._collected("trainable_variables")

    def _collected(self, key: str) -> list[Any]:
        from gradtape._src.tf.v1.graphs.default import get_default_graph

        return get_default_graph().get_collection(key, f"{self.name}/" if self.name else None)

    def get_variable(self, *args: Any, **kwargs: Any) -> Any:
        """A variable of this scope."""
        from gradtape._src.tf.v1.graphs.default import get_default_graph

        names = ("var_store", "name", "shape", "dtype")
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        name, shape, dtype = given.pop("name"), given.pop("shape", None), given.pop("dtype", None)
        with setting(_scope, self):
            return graph_variable(get_default_graph(), name, shape, dtype, given)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VariableScope) and vars(self) == vars(other)

    __hash__ = object.__hash__


_scope: ContextVar[VariableScope | None] = ContextVar("gradtape_variable_scope_object", default=None)


def open_scope() -> VariableScope:
    """The innermost variable scope."""
    found = _scope.get()
    if found is None:
        from gradtape._src.tf.v1.graphs.default import get_default_graph

        graph = get_default_graph()
        found = vars(graph).setdefault("root_scope", VariableScope(False))
    return found


def graph_variable_scope(
    name_or_scope: Any, default_name: str | None, reuse: Any, auxiliary_name_scope: bool, options: dict[str, Any]
) -> tuple[VariableScope, tuple[tuple[ContextVar[Any], Any], ...]]:
    """The scope that a `variable_scope` opens, and the context variables that it sets."""
    from gradtape._src.tf.v1.graphs.default import get_default_graph

    if name_or_scope is None and default_name is None:
        raise TypeError("If default_name is None then name_or_scope is required")
    outer = open_scope()
    if isinstance(name_or_scope, VariableScope):
        outer, full = name_or_scope, name_or_scope.name
        last = full.rpartition("/")[2]
    else:
        last = _unused(outer, default_name) if name_or_scope is None else name_or_scope
        full = f"{outer.name}/{last}" if outer.name and last else last or outer.name
    if reuse is False and outer.reuse is True:
        reuse = True
    inherited = {option: getattr(outer, option) for option in _INHERITED}
    inherited.update({option: value for option, value in options.items() if value is not None})
    pairs: list[tuple[ContextVar[Any], Any]] = []
    names = name_prefix.get()
    if auxiliary_name_scope and last:
        names = scope_within(names, last)
        pairs.append((name_prefix, names))
    scope = VariableScope(outer.reuse if reuse is None else reuse, full, names, **inherited)
    pairs.append((_scope, scope))
    opened = vars(get_default_graph()).setdefault("opened_scopes", {})
    opened[full] = opened.get(full, 0) + 1
    return scope, tuple(pairs)


def _unused(outer: VariableScope, default_name: str | None) -> str:
    """A default name, with a number if it is taken."""
    from gradtape._src.tf.v1.graphs.default import get_default_graph

    opened = vars(get_default_graph()).setdefault("opened_scopes", {})
    prefix = f"{outer.name}/" if outer.name else ""
    count, name = 0, str(default_name)
    while f"{prefix}{name}" in opened:
        count += 1
        name = f"{default_name}_{count}"
    return name


def graph_variable(graph: Any, name: str, shape: Any, dtype: Any, options: dict[str, Any]) -> Any:
    """`get_variable` in a graph: the existing variable with this name, or a new one."""
    scope = open_scope()
    getter = options.pop("custom_getter", None) or scope.custom_getter
    if getter is None:
        return _found_or_made(graph, scope, name, shape, dtype, options)

    def plain(name: str, shape: Any = None, dtype: Any = None, **given: Any) -> Any:
        given.pop("reuse", None)
        inner = VariableScope(scope.reuse, "", scope.original_name_scope, initializer=scope.initializer)
        return _found_or_made(graph, inner, name, shape, dtype, {**options, **given})

    full = f"{scope.name}/{name}" if scope.name else name
    return getter(plain, name=full, shape=shape, dtype=dtype or scope.dtype, reuse=scope.reuse, **options)


def _found_or_made(graph: Any, scope: VariableScope, name: str, shape: Any, dtype: Any, options: dict[str, Any]) -> Any:
    full = f"{scope.name}/{name}" if scope.name else name
    store = graph.variable_store
    if full in store:
        from gradtape._src.tf.v1.graphs.tensors import active_mode

        if scope.reuse is False and active_mode() is None:  # a body that runs again finds its variables
            raise ValueError(
                f"Variable {full} already exists, disallowed. Did you mean to set reuse=True or reuse=tf.AUTO_REUSE in "
                "VarScope?"
            )
        return _checked(store[full], full, shape, dtype)
    if scope.reuse is True:
        raise ValueError(
            f"Variable {full} does not exist, or was not created with tf.get_variable(). Did you mean to set "
            "reuse=tf.AUTO_REUSE in VarScope?"
        )
    made = store[full] = _made(graph, scope, full, shape, dtype, options)
    return made


def _checked(found: Any, full: str, shape: Any, dtype: Any) -> Any:
    if shape is not None and not TensorShape(shape).is_compatible_with(found.shape):
        raise ValueError(
            f"Trying to share variable {full}, but specified shape {TensorShape(shape)} and found shape {found.shape}."
        )
    if dtype is not None and as_dtype(dtype) != found.dtype:
        raise ValueError(
            f"Trying to share variable {full}, but specified dtype {as_dtype(dtype).name} and found dtype "
            f"{found.dtype.name}."
        )
    return found


def _made(graph: Any, scope: VariableScope, full: str, shape: Any, dtype: Any, options: dict[str, Any]) -> Any:
    from gradtape._src.tf.v1.graphs.variables import GraphVariable

    initializer = scope.initializer if options.get("initializer") is None else options["initializer"]
    kind = as_dtype(dtype or scope.dtype)
    value, known = _initial_value(initializer, full, shape, kind)
    regularizer = options.get("regularizer") or scope.regularizer
    variable = GraphVariable(
        graph,
        value,
        options.get("trainable"),
        options.get("validate_shape", True),
        dtype=kind if known or dtype is not None else None,
        constraint=options.get("constraint") or scope.constraint,
        collections=options.get("collections"),
        full_name=full,
    )
    if regularizer is not None:
        with setting(name_prefix, f"{full}/Regularizer/"):
            loss = graph.record(regularizer, (variable,), {}, "value")
        if loss is not None:
            graph.add_to_collection("regularization_losses", loss)
    return variable


def _initial_value(initializer: Any, full: str, shape: Any, dtype: Any) -> tuple[Any, bool]:
    """The initial value, or a function that returns it; and whether its dtype is that of the variable."""
    if initializer is not None and (is_graph_value(initializer) or not callable(initializer)):
        if shape is not None:
            raise ValueError("If initializer is a constant, do not specify shape.")
        return initializer, False
    if shape is None or not TensorShape(shape).is_fully_defined():
        raise ValueError(
            "The initializer passed is not valid. It should be a callable with no arguments and the shape should not "
            "be provided or an instance of `tf.keras.initializers.*' and `shape` should be fully defined."
            if initializer is not None
            else f"Shape of a new variable ({full}) must be fully defined, but instead was {TensorShape(shape)}."
        )
    sizes = [n or 0 for n in TensorShape(shape).as_list()]
    return _maker(initializer() if isinstance(initializer, type) else initializer, sizes, dtype), True


def _maker(initializer: Any, shape: list[int], dtype: Any) -> Callable[[], Any]:
    def make() -> Any:
        if initializer is None:
            return default_value(tuple(shape), dtype)
        return initializer(shape, dtype=dtype)

    return make
