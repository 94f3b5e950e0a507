"""Functions that are traced once for arguments with unknown dimensions.

A dimension is unknown if an input signature or a `TensorSpec` says None, and with `reduce_retracing`, if two calls
differ. While the Python code is traced, such a dimension is a variable: `tensor.shape` shows None, and `tf.shape`
returns a value of the program. XLA then compiles for each new size, without tracing again.

Code that cannot be traced like that (it needs the number, or combines arrays of different unknown sizes) is traced for
each size: the results are the same, with more traces. If the code itself raises a `ValueError` for a `TensorSpec`
because a dimension is None, the caller gets it, as in TensorFlow.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import Any

from gradtape._src.arrays.dimension import collecting_unequal, root
from gradtape._src.arrays.dimensions import UnknownDimensionError, evaluated, is_dimension, is_variable, sized, variable
from gradtape._src.arrays.seeds import seeds
from gradtape._src.arrays.symbolic import NeedsEagerError, current_graph
from gradtape._src.errors import InvalidArgumentError
from gradtape._src.function.arguments import Arguments
from gradtape._src.function.concrete import ConcreteFunction
from gradtape._src.function.python_code import raising_module
from gradtape._src.function.tracing import Tracer, may_fit
from gradtape._src.interrupts import is_interrupt
from gradtape._src.shape import TensorShape
from gradtape._src.tensor import Tensor
from gradtape._src.variable import Variable

Shapes = tuple[tuple[int, ...], ...]
Patterns = list[tuple[Any, ...]]
"""The shape of each argument, with a dimension variable for each unknown size."""


class ShapePolymorphicFunction(ConcreteFunction):
    """A function traced for arguments with unknown dimensions or, if that is impossible, the parent of functions that
    are traced for each size.
    """

    def takes(self, shapes: Sequence[Sequence[Any]]) -> bool:
        """Whether arguments of these shapes fit: one variable has one size, terms have theirs, and no size is 0."""
        if self.patterns is None:
            return False
        sizes: dict[Any, Any] = {}
        for pattern, shape in zip(self.patterns, shapes, strict=True):
            if len(pattern) != len(shape):
                return False
            for n, size in zip(pattern, shape, strict=True):
                if not (sizes.setdefault(n, size) == size and size != 0 if is_dimension(n) else n == size):
                    return False
        if all(map(is_variable, sizes)):
            return True
        named = {str(n): size for n, size in sizes.items() if is_variable(n)}
        return all(evaluated(n, named) == size for n, size in sizes.items())

    def run(self, tensors: list[Tensor], variable_args: Sequence[Variable] = ()) -> Any:
        if self.takes([t.array.shape for t in tensors]):
            try:
                return super().run(tensors, variable_args)
            except UnknownDimensionError:  # raised by a derivative, before anything has run
                if current_graph() is not None:
                    raise
                self.patterns = None
        arguments = self._arguments_of_call(tensors, variable_args)
        return self._origin.function().trace(arguments, known_shapes=True).run(tensors, variable_args)


class _Group:
    """Calls that differ only in sizes."""

    def __init__(self) -> None:
        self.functions: list[Any] = []  # most recent first: it takes the most
        self.general: list[tuple[int | None, ...]] | None = None
        self.seen: list[Shapes] = []  # the shapes of all traces
        self.refused = False

    def widened(self, shapes: Shapes) -> list[tuple[int | None, ...]] | None:
        """The common pattern of this call and earlier ones; None for the first one."""
        if self.general is None:
            self.general = list(shapes)
            return None
        self.general = [
            tuple([n if n == m else None for n, m in zip(one, other, strict=True)])
            for one, other in zip(self.general, shapes, strict=True)
        ]
        return self.general


class ShapePolymorphicTraces:
    """The traces of a function with unknown dimensions."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        signature = tracer.signature
        self._declared: list[TensorShape] | None = None if signature.declared is None else signature.shapes
        self._groups: dict[Any, _Group] = {}

    def functions(self) -> list[Any]:
        """All traces."""
        return [function for group in self._groups.values() for function in group.functions]

    def find(self, arguments: Arguments) -> ConcreteFunction | None:
        """The function for a call with new shapes; None if it has to be traced for exactly these shapes."""
        shapes: Shapes = tuple([tuple(t.array.shape) for t in arguments.tensors])
        group = self._group(arguments)
        for function in group.functions:
            if function.takes(shapes) and function.matches(arguments.variable_args):
                return function
        general = self._general(group, shapes)
        if general is None:
            return None
        unknown = _unknown(general)
        group.refused = group.refused or any(f.patterns is None for f in group.functions)
        if group.refused or not unknown or any(shapes[i][axis] == 0 for i, axis in unknown):
            return None
        group.seen.append(shapes)
        # Sizes that were equal in all calls are assumed to be the same variable, first axes (batches) to begin with.
        same = {at: tuple([seen[at[0]][at[1]] for seen in group.seen]) for at in unknown}
        batches = {at: size if at[1] == 0 else at for at, size in same.items()}
        found = self._traced(arguments, group, _patterns(general, [batches, same]))
        group.refused = found is None
        return found

    def _general(self, group: _Group, shapes: Shapes) -> list[tuple[int | None, ...]] | None:
        """The shapes to trace for; None for those of the call."""
        if self._declared is not None and len(self._declared) == len(shapes):
            return [_of_rank(d, len(s)) for d, s in zip(self._declared, shapes, strict=True)]
        return group.widened(shapes) if self._tracer.reduce_retracing else None

    def for_specs(self, arguments: Arguments, shapes: dict[int, TensorShape]) -> ConcreteFunction:
        """The function for specifications: `shapes` maps the ids of the tensors that represent them to their shapes."""
        group, tensors = self._group(arguments), arguments.tensors
        declared = [shapes.get(id(t), TensorShape(t.array.shape)) for t in tensors]
        for function in group.functions:
            if function.declared_shapes == declared and function.matches(arguments.variable_args):
                return function
        found: ConcreteFunction | None = None
        if all(d.rank is not None for d in declared):
            problems: list[BaseException] = []
            unequal: list[Any] = []
            with collecting_unequal(unequal):
                found = self._traced(arguments, group, _narrowed(candidates(tensors, declared), unequal), problems)
            if problems and found is None and _is_raised_by_program(problems[0]):
                raise problems[0]
        if found is None:
            found = self._for_each_size(arguments)
            found.forget_result_shapes()
            if not found.graph.transient:
                group.functions.append(found)
        found.declare_shapes(declared)
        return found

    def _for_each_size(self, arguments: Arguments) -> ConcreteFunction:
        """A function that traces calls for each size, or runs them eagerly if the code does not fit sizes of 1."""
        try:
            tracer = self._tracer
            found: ConcreteFunction = tracer.trace_or_eager(arguments, ShapePolymorphicFunction, knows_shapes=False)
        except InvalidArgumentError as error:
            return self._tracer.eager(arguments, error)
        return found

    def _group(self, arguments: Arguments) -> _Group:
        """The group of a call, by its key without sizes."""
        leaves, key = arguments.leaves, arguments.key
        front = len(key) - len(leaves)
        kinds = [
            (len(part[0]), part[1]) if type(leaf) is Tensor else part
            for leaf, part in zip(leaves, key[front:], strict=True)
        ]
        return self._groups.setdefault((*key[:front], *kinds), _Group())

    def _traced(
        self,
        arguments: Arguments,
        group: _Group,
        candidates: Iterator[Patterns],
        problems: list[BaseException] | None = None,
    ) -> ShapePolymorphicFunction | None:
        """The function for the first pattern that the code can be traced with; `problems` gets the errors of the
        others.
        """
        tracer = self._tracer
        for patterns in candidates:
            count = tracer.count
            try:
                function: ShapePolymorphicFunction = tracer.trace(arguments, patterns, ShapePolymorphicFunction)
            except (Exception, NeedsEagerError) as error:  # the trace for exactly these shapes will raise it
                if tracer.signature.knows_ranks or problems is not None:
                    tracer.never_fits = functools.partial(_fits_nothing, tracer, arguments, patterns, error)
                tracer.count = count
                if not isinstance(error, NeedsEagerError) and is_interrupt(error):
                    raise
                if problems is not None:
                    problems.append(error)
                continue
            function.patterns, tracer.never_fits = patterns, may_fit
            if not function.graph.transient:
                group.functions.insert(0, function)
            return function
        return None


_LIBRARIES = frozenset({__name__.partition(".")[0], "numpy", "jax", "keras"})


def _is_raised_by_program(error: BaseException) -> bool:
    """Whether the user's code raised a ValueError itself, rather than an op that it calls."""
    return type(error) is ValueError and error.__traceback__ is not None and raising_module(error) not in _LIBRARIES


def candidates(tensors: Sequence[Tensor], declared: Sequence[TensorShape]) -> Iterator[Patterns]:
    """Patterns for tensors of declared shapes: unknown dimensions are all different, or the first ones are the same (a
    batch), or those of each axis are.
    """
    if any(d.rank is None for d in declared):
        return
    general = [_of_rank(d, len(t.array.shape)) for d, t in zip(declared, tensors, strict=True)]
    unknown = _unknown(general)
    apart: dict[tuple[int, int], Any] = {at: at for at in unknown}
    batches = {at: at[1] == 0 or at for at in unknown}
    axes: dict[tuple[int, int], Any] = {at: at[1] for at in unknown}
    yield from _patterns(general, [apart, batches, axes])


def _narrowed(candidates: Iterator[Patterns], unequal: list[Any]) -> Iterator[Patterns]:
    """Patterns, and after each that cannot be traced, the same one with a size that the code needs.

    `unequal` are the differences of sizes that were not equal: the last one stopped the trace. Where one size makes it
    0, as for an op on `x[:, :-1]` of unknown width and an array of length 6, no other can be traced either. The size
    may be a term: `tf.reshape(x, [n, m, 3])` needs n*m rows of an x with three columns.
    """
    for patterns in candidates:
        following: Patterns | None = patterns
        while following is not None:
            unequal.clear()
            yield following
            needed = root(unequal[-1]) if unequal else None
            following = None if needed is None else _with_size(following, *needed)


def _with_size(patterns: Patterns, name: str, size: Any) -> Patterns | None:
    """Patterns with a number or a term instead of a variable; None if the variable is not among them."""
    changed = [sized(shape, ((name, size),)) for shape in patterns]
    return None if changed == patterns else changed


def _unknown(shapes: Sequence[tuple[int | None, ...]]) -> list[tuple[int, int]]:
    """The unknown dimensions, as pairs of the number of a shape and an axis."""
    return [(i, axis) for i, shape in enumerate(shapes) for axis, n in enumerate(shape) if n is None]


def _fits_nothing(
    tracer: Tracer, arguments: Arguments, patterns: Patterns, first: BaseException, error: InvalidArgumentError
) -> bool:
    """Whether shapes are incompatible for all values of the unknown dimensions: then TensorFlow raises while tracing.

    False if TensorFlow raises `first`, the error of the trace with unknown dimensions, in calls.

    An unknown dimension equals only itself, so that error does not show whether some sizes fit. The sizes to try are
    those of the arguments, and the numbers in the message.
    """
    if isinstance(first, InvalidArgumentError) and first.when_traced is None:
        return False
    numbers = {int(word) for word in re.findall(r"\b\d{1,6}\b", error.message)}
    sizes = {n for tensor in arguments.tensors for n in tensor.array.shape}
    state = seeds.state()
    try:
        return not any(map(functools.partial(_fits, tracer, arguments, patterns), sorted((numbers | sizes) - {0})))
    finally:
        seeds.restore(state)


def _fits(tracer: Tracer, arguments: Arguments, patterns: Patterns, n: int) -> bool:
    """Whether the code can be traced with this size for all unknown dimensions."""
    shapes = [tuple([n if is_dimension(m) else m for m in shape]) for shape in patterns]
    try:
        tracer.trace_once(arguments, False, shapes)
    except InvalidArgumentError:
        return False
    except (Exception, NeedsEagerError) as error:
        if not isinstance(error, NeedsEagerError) and is_interrupt(error):
            raise
    return True


def _of_rank(shape: TensorShape, rank: int) -> tuple[int | None, ...]:
    return (None,) * rank if shape.rank is None else tuple(shape.as_list())


def _patterns(
    general: Sequence[tuple[int | None, ...]], labels: Sequence[dict[tuple[int, int], Any]]
) -> Iterator[Patterns]:
    """Shapes with variables; labels say which unknown dimensions are the same. Without repetitions."""
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
