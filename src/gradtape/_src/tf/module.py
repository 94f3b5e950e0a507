"""`tf.Module`: an object that collects its variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, ClassVar

from gradtape._src.tf.scopes import name_scope
from gradtape._src.variable import Variable, deferred_restores

_NO_VALUE = object()


class Module:
    """A container for variables and other modules, which are found in attributes, lists and dicts.

    >>> import gradtape as tf
    >>> class Line(tf.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.slope = tf.Variable(2.0)
    ...
    ...     def __call__(self, x):
    ...         return self.slope * x
    >>> [float(v) for v in Line().trainable_variables]
    [2.0]

    >>> class Dense(tf.Module):
    ...     def __init__(self, name=None):
    ...         super().__init__(name=name)
    ...         self.w = tf.Variable([[1.0]], name="w")
    ...         self.steps = tf.Variable(0, trainable=False, name="steps")
    ...
    ...     @tf.Module.with_name_scope
    ...     def __call__(self, x):
    ...         return x @ self.w
    >>> layer = Dense(name="dense")
    >>> layer.name, layer.name_scope.name
    ('dense', 'dense/')
    >>> [v.name for v in layer.variables], [v.name for v in layer.non_trainable_variables]
    (['steps:0', 'w:0'], ['steps:0'])
    >>> len(layer.submodules)
    0
    >>> layer(tf.constant([[3.0]])).numpy().tolist()
    [[3.0]]
    """

    _TF_MODULE_IGNORED_PROPERTIES: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, name: str | None = None) -> None:
        if name is None:
            name = _snake_case(type(self).__name__)
        elif not name.isidentifier():
            raise ValueError(
                f"{name!r} is not a valid module name. Module names must be valid Python identifiers (e.g. a valid "
                "class name)."
            )
        self._name = name
        with name_scope(name) as scope:  # determined where the module is created, not where its methods run
            self._scope_name = scope

    @property
    def name(self) -> str:
        """The name given to the module, or its class name in snake case."""
        return self._name

    @property
    def name_scope(self) -> Any:
        """A name scope with the module's name."""
        return name_scope(self._scope_name)

    @property
    def variables(self) -> tuple[Variable, ...]:
        """All variables of this module and of the modules in it."""
        return tuple(self._flatten(predicate=lambda value: isinstance(value, Variable)))

    @property
    def trainable_variables(self) -> tuple[Variable, ...]:
        """The variables that are trainable."""
        return tuple(self._flatten(predicate=lambda value: isinstance(value, Variable) and value.trainable))

    @property
    def non_trainable_variables(self) -> tuple[Variable, ...]:
        """The variables that are not trainable."""
        return tuple(self._flatten(predicate=lambda value: isinstance(value, Variable) and not value.trainable))

    @property
    def submodules(self) -> tuple[Module, ...]:
        """All modules inside this one, at any depth."""
        return tuple(self._flatten(predicate=lambda value: isinstance(value, Module)))

    def _flatten(
        self,
        recursive: bool = True,
        predicate: Callable[[Any], bool] | None = None,
        attribute_traversal_key: Any = None,
        with_path: bool = False,
        expand_composites: bool = False,
    ) -> Iterator[Any]:
        """The attributes that the predicate accepts, sorted by name, without repetitions, nearest ones first."""
        seen: set[int] = {id(self)}
        queue: list[tuple[tuple[Any, ...], Module]] = [((), self)]
        while queue:
            path, module = queue.pop(0)
            deeper = []
            for key, leaf in _leaves(module):
                if id(leaf) in seen:
                    continue
                seen.add(id(leaf))
                where = (*path, *key)
                if predicate is None or predicate(leaf):
                    yield (where, leaf) if with_path else leaf
                if recursive and isinstance(leaf, Module):
                    deeper.append((where, leaf))
            queue = deeper + queue

    def _no_dependency(self, value: Any) -> Any:
        """A value to store as an attribute without tracking it: unchanged, because only variables and modules are
        tracked.
        """
        return value

    def _trackable_children(self) -> dict[str, Any]:
        """The state that checkpoints save."""
        from gradtape._src.checkpoint.tracking import attributes_of

        return attributes_of(self)

    def __setattr__(self, name: str, value: Any) -> None:
        if getattr(self, name, _NO_VALUE) is value:  # `self.x = self.x` has no effect, not even on a property
            return
        object.__setattr__(self, name, value)
        if deferred_restores:  # a restored checkpoint may have values for new attributes
            from gradtape._src.checkpoint.tracking import resume_at

            resume_at(self, name)

    @classmethod
    def with_name_scope(cls, method: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate a method so that it runs inside the module's name scope."""

        def scoped(self: Module, *args: Any, **kwargs: Any) -> Any:
            with self.name_scope:
                return method(self, *args, **kwargs)

        scoped.__name__ = method.__name__
        scoped.__doc__ = method.__doc__
        return scoped


def _leaves(module: Module) -> Iterator[tuple[tuple[Any, ...], Any]]:
    attributes = vars(module)
    for name in sorted(attributes):
        if name in module._TF_MODULE_IGNORED_PROPERTIES:
            continue
        stack: list[tuple[tuple[Any, ...], Any]] = [((name,), attributes[name])]
        while stack:
            path, value = stack.pop()
            parts = _parts(value)
            if parts is None:
                yield path, value
            else:
                stack.extend(((*path, key), part) for key, part in reversed(list(parts)))


def _parts(value: Any) -> Iterable[tuple[Any, Any]] | None:
    if isinstance(value, Mapping):
        keys = list(value)
        with suppress(TypeError):  # keys of several types are not ordered
            keys = sorted(keys)
        return [(key, value[key]) for key in keys]
    if isinstance(value, (list, tuple)):
        return list(enumerate(value))
    return None


def _snake_case(name: str) -> str:
    import re

    return re.sub(r"((?<=[a-z0-9])[A-Z]|(?!^)[A-Z](?=[a-z]))", r"_\1", name).lower()
