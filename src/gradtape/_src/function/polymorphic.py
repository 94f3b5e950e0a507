"""Functions traced once for arguments whose dimensions are not all known.

A dimension is unknown where an input signature says None, where a `TensorSpec` does, and, with `reduce_retracing`,
where two calls differ. While the Python code runs such a dimension is a variable, `tensor.shape` shows None, and
`tf.shape` gives a value of the program. XLA then compiles for each size that is met, without running the code again.

What cannot be traced like that (code that needs the number, arrays of different unknown lengths that meet) is traced
for each size: the same results, more traces.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from gradtape._src import nest
from gradtape._src.arrays.dimensions import UnknownDimensionError, is_dimension, variable
from gradtape._src.arrays.seeds import seeds
from gradtape._src.arrays.symbolic import NeedsEagerError, current_graph
from gradtape._src.errors import InvalidArgumentError
from gradtape._src.function.function import ConcreteFunction, signature_of
from gradtape._src.interrupts import is_interrupt
from gradtape._src.shape import TensorShape, TensorSpec, VariableSpec
from gradtape._src.tensor import Tensor
from gradtape._src.variable import Variable

if TYPE_CHECKING:
    from gradtape._src.function.function import Function

Shapes = tuple[tuple[int, ...], ...]
Patterns = list[tuple[Any, ...]]
"""The shape of each argument, with a dimension variable for each number that is not known."""


class OpenFunction(ConcreteFunction):
    """A function traced for arguments with unknown dimensions, or, where that cannot be, a place for those that are
    traced for each size."""

    patterns: Patterns | None = None
    _owner: Function

    def declare(self, owner: Function, patterns: Patterns | None) -> OpenFunction:
        """Say what it takes. None: nothing as it is."""
        self._owner, self.patterns = owner, patterns
        return self

    def takes(self, shapes: Sequence[Sequence[Any]]) -> bool:
        """Whether arguments of these shapes fit: one variable has one size, and no size is 0, as JAX assumes."""
        if self.patterns is None:
            return False
        sizes: dict[Any, Any] = {}
        for pattern, shape in zip(self.patterns, shapes, strict=True):
            if len(pattern) != len(shape):
                return False
            for n, size in zip(pattern, shape, strict=True):
                if not (sizes.setdefault(n, size) == size and size != 0 if is_dimension(n) else n == size):
                    return False
        return True

    def run(self, tensors: list[Tensor], passed: Sequence[Variable] = ()) -> Any:
        if self.takes([t.array.shape for t in tensors]):
            try:
                return super().run(tensors, passed)
            except UnknownDimensionError:  # of a derivative, before anything has run
                if current_graph() is not None:
                    raise
                self.patterns = None
        return self._for_sizes_of(tensors, passed).run(tensors, passed)

    def _for_sizes_of(self, tensors: list[Tensor], passed: Sequence[Variable]) -> ConcreteFunction:
        specs = nest.flatten(self._given, expand_composites=True)
        variables = [passed[spec.alias_id] for spec in specs if isinstance(spec, VariableSpec)]
        given = self._arguments(tensors, variables)
        return self._owner._trace(given, *signature_of(given), known=True)


class _Group:
    """Calls that differ in nothing but the sizes of dimensions."""

    def __init__(self) -> None:
        self.functions: list[Any] = []  # the last one first: it takes the most
        self.general: list[tuple[int | None, ...]] | None = None
        self.seen: list[Shapes] = []  # what was traced for
        self.refused = False

    def widened(self, shapes: Shapes) -> list[tuple[int | None, ...]] | None:
        """What this call and those before it have in common; None at the first one."""
        if self.general is None:
            self.general = list(shapes)
            return None
        self.general = [
            tuple([n if n == m else None for n, m in zip(one, other, strict=True)])
            for one, other in zip(self.general, shapes, strict=True)
        ]
        return self.general


class General:
    """The traces of a function for unknown dimensions. `declared` are the shapes of its input signature, if any."""

    def __init__(self, declared: list[TensorShape] | None) -> None:
        self._declared = declared
        self._groups: dict[Any, _Group] = {}

    def function_for(
        self, owner: Function, given: tuple[Any, ...], leaves: list[Any], key: Any, passed: Sequence[Variable]
    ) -> ConcreteFunction | None:
        """The function for a call that was not met before; None: it is to be traced for these very shapes."""
        shapes: Shapes = tuple([tuple(leaf.array.shape) for leaf in leaves if type(leaf) is Tensor])
        group = self._group(leaves, key)
        for function in group.functions:
            if function.takes(shapes) and function.serves(passed):
                return function
        if self._declared is not None and len(self._declared) == len(shapes):
            general = [_of_rank(d, len(s)) for d, s in zip(self._declared, shapes, strict=True)]
        elif owner._reduce_retracing:
            widened = group.widened(shapes)
            if widened is None:
                return None
            general = widened
        else:
            return None
        unknown = [(i, axis) for i, shape in enumerate(general) for axis, n in enumerate(shape) if n is None]
        group.refused = group.refused or any(f.patterns is None for f in group.functions)
        if group.refused or not unknown or any(shapes[i][axis] == 0 for i, axis in unknown):
            return None
        group.seen.append(shapes)
        # Sizes that were the same in all calls are taken to be one: those of the first axes (a batch) to begin with.
        same = {at: tuple([seen[at[0]][at[1]] for seen in group.seen]) for at in unknown}
        batches = {at: size if at[1] == 0 else at for at, size in same.items()}
        found = self._opened(owner, given, leaves, passed, group, _patterns(general, [batches, same]))
        group.refused = found is None
        return found

    def for_specs(
        self,
        owner: Function,
        given: tuple[Any, ...],
        leaves: list[Any],
        key: Any,
        passed: Sequence[Variable],
        shapes: dict[int, TensorShape],
    ) -> ConcreteFunction:
        """The function for specifications: `shapes` has them by the id of the tensor that stands for one."""
        group = self._group(leaves, key)
        tensors = [leaf for leaf in leaves if type(leaf) is Tensor]
        declared = [shapes.get(id(t), TensorShape(t.array.shape)) for t in tensors]
        for function in group.functions:
            if [spec.shape for spec in _specs(function)] == declared and function.serves(passed):
                return function
        general = [_of_rank(d, len(t.array.shape)) for d, t in zip(declared, tensors, strict=True)]
        unknown = [(i, axis) for i, shape in enumerate(general) for axis, n in enumerate(shape) if n is None]
        apart: dict[tuple[int, int], Any] = {at: at for at in unknown}
        batches = {at: at[1] == 0 or at for at in unknown}
        found = None
        if all(d.rank is not None for d in declared):
            found = self._opened(owner, given, leaves, passed, group, _patterns(general, [apart, batches]))
        if found is None:
            specs = iter([TensorSpec(d, t.dtype) for d, t in zip(declared, tensors, strict=True)])
            found = owner._traced_or_eager(given, leaves, passed, kind=OpenFunction)
            if isinstance(found, OpenFunction):
                found.declare(owner, None)
            flat = nest.flatten(found._given, expand_composites=True)
            flat = [next(specs) if isinstance(leaf, TensorSpec) else leaf for leaf in flat]
            found._given = nest.pack_sequence_as(given, flat, expand_composites=True)
            if not found.graph.transient:
                group.functions.append(found)
        return found

    def _group(self, leaves: list[Any], key: Any) -> _Group:
        """By what is left of a key without the sizes."""
        front = len(key) - len(leaves)
        kinds = [
            (len(part[0]), part[1]) if type(leaf) is Tensor else part
            for leaf, part in zip(leaves, key[front:], strict=True)
        ]
        return self._groups.setdefault((*key[:front], *kinds), _Group())

    def _opened(
        self,
        owner: Function,
        given: tuple[Any, ...],
        leaves: list[Any],
        passed: Sequence[Variable],
        group: _Group,
        candidates: Iterator[Patterns],
    ) -> OpenFunction | None:
        for patterns in candidates:
            traces = owner._traces
            try:
                function = owner._traced_at_last(given, leaves, passed, patterns, OpenFunction)
            except (Exception, NeedsEagerError) as error:  # the trace for these very shapes will say what is wrong
                if owner._knows_ranks:
                    owner._is_wrong_for_all = functools.partial(_fits_nothing, owner, given, leaves, passed, patterns)
                owner._traces = traces
                if not isinstance(error, NeedsEagerError) and is_interrupt(error):
                    raise
                continue
            function.declare(owner, patterns)
            if not function.graph.transient:
                group.functions.insert(0, function)
            return function
        return None


def _fits_nothing(
    owner: Function,
    given: tuple[Any, ...],
    leaves: list[Any],
    passed: Sequence[Variable],
    patterns: Patterns,
    error: InvalidArgumentError,
) -> bool:
    """Whether shapes do not fit, whatever the unknown dimensions are: then TensorFlow says so while it traces.

    A dimension without a number is equal to nothing but itself, so the error of a trace with them does not tell. The
    sizes that might fit are those of the arguments, and the numbers in the message.
    """
    numbers = {int(word) for word in re.findall(r"\b\d{1,6}\b", error.message)}
    sizes = {n for leaf in leaves if type(leaf) is Tensor for n in leaf.array.shape}
    state = seeds.state()
    try:
        return not any(_fits(owner, given, leaves, passed, patterns, n) for n in sorted(numbers | sizes) if n)
    finally:
        seeds.restore(state)


def _fits(
    owner: Function, given: tuple[Any, ...], leaves: list[Any], passed: Sequence[Variable], patterns: Patterns, n: int
) -> bool:
    """Whether the code can be traced with this size for all unknown dimensions."""
    shapes = [tuple([n if is_dimension(m) else m for m in shape]) for shape in patterns]
    try:
        owner._traced(given, leaves, passed, False, shapes, None)
    except InvalidArgumentError:
        return False
    except (Exception, NeedsEagerError) as error:
        if not isinstance(error, NeedsEagerError) and is_interrupt(error):
            raise
    return True


def _of_rank(shape: TensorShape, rank: int) -> tuple[int | None, ...]:
    return (None,) * rank if shape.rank is None else tuple(shape.as_list())


def _specs(function: ConcreteFunction) -> list[TensorSpec]:
    leaves = nest.flatten(function._given, expand_composites=True)
    return [leaf for leaf in leaves if isinstance(leaf, TensorSpec)]


def _patterns(
    general: Sequence[tuple[int | None, ...]], labels: Sequence[dict[tuple[int, int], Any]]
) -> Iterator[Patterns]:
    """Shapes with variables, by labels that say which of the unknown dimensions are one; each way once."""
    tried = []
    for label in labels:
        names: dict[Any, str] = {}
        for at in label.values():
            names.setdefault(at, f"d{len(names)}")
        patterns = [
            tuple([variable(names[label[i, axis]]) if n is None else n for axis, n in enumerate(shape)])
            for i, shape in enumerate(general)
        ]
        if patterns not in tried:
            tried.append(patterns)
            yield patterns
