"""Concrete functions: traced for one signature, and called with tensors."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Iterator, Sequence, Set as AbstractSet
from typing import TYPE_CHECKING, Any, cast

from numpy import ndarray

from gradtape._src import errors, nest
from gradtape._src.arrays.dimensions import DynamicOpError, DynamicSizeError
from gradtape._src.arrays.lazy import is_lazy_on_host
from gradtape._src.arrays.symbolic import NeedsEagerError, Symbolic, current_graph
from gradtape._src.conversion import convert
from gradtape._src.devices import chosen, placement
from gradtape._src.function.arguments import Arguments, arguments_of, distinct, plain, split_keywords
from gradtape._src.function.python_code import is_raised_by_op
from gradtape._src.function.signature import example, named, paired, spec_of, spec_text
from gradtape._src.shape import TensorShape, TensorSpec
from gradtape._src.tensor import Tensor
from gradtape._src.variable import (
    StreamState,
    Variable,
    VariableParam,
    abstract_value,
    notice_reading,
    on_host,
    read,
    stored,
    updating,
)
from gradtape._src.variable.spec import VariableSpec

if TYPE_CHECKING:
    from gradtape._src.function.function import Function
    from gradtape._src.graph.operations import FuncGraph
    from gradtape._src.graph.traced import Traced

_COMPUTED = object()

on_concrete: list[Callable[[ConcreteFunction], None]] = []
"""Callbacks for every function that has been traced."""


class FunctionRef:
    """A weak reference to the function that concrete functions were traced from, which recreates it if it is gone."""

    def __init__(self, function: Function, parameters: inspect.Signature | None) -> None:
        self.name, self.parameters = function.name, parameters
        self._function = weakref.ref(function)
        self._made_by = function.__reduce__()
        self._copy: Function | None = None

    def copy(self) -> Function:
        """An equal function without traces."""
        make, options = self._made_by
        made: Function = make(*options)
        return made

    def function(self) -> Function:
        """The function, or an equal one."""
        found = self._function() or self._copy
        if found is None:
            make, options = self._made_by
            found = self._copy = make(*options)
        return found


class ConcreteFunction:
    """A function traced for one signature."""

    patterns: Any = None  # the shapes of its arguments, if they have unknown dimensions
    _eager: ConcreteFunction | None = None  # runs calls with sizes that the trace does not fit
    unknown_shapes: AbstractSet[int] = frozenset()  # uids of tensors whose shapes were unknown to the trace
    names: list[str | None] | None = None  # of the tensor arguments, if their specifications have names

    def __init__(self, origin: FunctionRef, given: Any, leaves: list[Any], traced: Traced, result: Any) -> None:
        self._origin, self.name = origin, origin.name
        self._given = nest.pack_sequence_as(given, [spec_of(leaf) for leaf in leaves], expand_composites=True)
        self._traced, self.unknown_shapes = traced, traced.graph.unknown_shapes
        flat = nest.flatten(result, expand_composites=True)
        self._single = type(result) is Tensor and not is_text(result)
        # Leaves that no program computes are kept as they are: None, and strings.
        self._leaves = [leaf if leaf is None or is_text(leaf) else _COMPUTED for leaf in flat]
        self._structure = nest.pack_sequence_as(result, [spec_of(leaf) for leaf in flat], expand_composites=True)
        self._template = result
        self._captured = [v for v in traced.variables if type(v) not in (VariableParam, StreamState)]
        self._on_host = all(map(_is_on_host, self._captured))
        for observe in on_concrete:
            observe(self)

    @property
    def graph(self) -> FuncGraph:
        """The graph of the trace: nodes, inputs, variables."""
        return cast("FuncGraph", self._traced.graph)

    def xla(self) -> Any:
        """The XLA executor of its program."""
        return self._traced.plain.xla

    @property
    def is_for_each_size(self) -> bool:
        """Whether it is only a signature with unknown dimensions, and calls are traced for each size."""
        declared = self.declared_shapes
        return self.patterns is None and declared is not None and not all(s.is_fully_defined() for s in declared)

    @property
    def traced(self) -> Traced:
        """The trace with its program."""
        return self._traced

    @property
    def origin(self) -> FunctionRef:
        """A reference to the function that it was traced from."""
        return self._origin

    @property
    def template(self) -> Any:
        """The structure that the traced code returned, with symbolic tensors as leaves."""
        return self._template

    def of_rank(self, rank: int) -> ConcreteFunction:
        """The function traced for tensors of this rank, if its signature declares none."""
        specs = nest.flatten(self._given, expand_composites=True)
        known = [
            TensorSpec([None] * rank, s.dtype) if isinstance(s, TensorSpec) and s.shape.rank is None else s
            for s in specs
        ]
        args, kwargs = split_keywords(tuple(nest.pack_sequence_as(self._given, known, expand_composites=True)))
        return self._origin.copy().get_concrete_function(*args, **kwargs)

    def staged(self) -> Any:
        """The function traced for a file, in which ops without an XLA program are nodes between programs."""
        declared = self.declared_shapes
        specs = nest.flatten(self._given, expand_composites=True)
        tensors = example([s for s in specs if isinstance(s, TensorSpec)], {})
        return self._origin.function().staged(self._arguments(tensors, []), declared)

    @property
    def structured_outputs(self) -> Any:
        """The results as a structure of `TensorSpec`s."""
        return self._structure

    @property
    def structured_input_signature(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments as a structure of `TensorSpec`s, and the keyword-only ones."""
        given = self._given
        if self.names is not None:
            remaining, leaves = iter(self.names), nest.flatten(given, expand_composites=True)
            specs = [_renamed(leaf, next(remaining)) if isinstance(leaf, TensorSpec) else leaf for leaf in leaves]
            given = nest.pack_sequence_as(given, specs, expand_composites=True)
        args, kwargs = split_keywords(tuple(given))
        if self._origin.parameters is None:
            return args, kwargs
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        names = [p.name for p in self._origin.parameters.parameters.values() if p.kind in positional]
        first = [named(spec, name) for spec, name in zip(args, names, strict=False)]
        return (*first, *args[len(first) :]), {name: named(spec, name) for name, spec in kwargs.items()}

    def name_inputs(self, names: list[str | None] | None) -> None:
        """Use the names that specifications give to tensors."""
        if names is not None:
            self.names = names
            known = [*self.graph.argument_names, *[""] * len(names)]
            self.graph.argument_names = [new or old for new, old in zip(names, known, strict=False)]

    @property
    def inputs(self) -> list[Any]:
        """The tensors of its graph that are arguments."""
        return list(self.graph.inputs)

    @property
    def outputs(self) -> list[Any]:
        """The tensors of its graph that are results."""
        return list(self.graph.outputs)

    @property
    def input_specs(self) -> list[Any]:
        """The `TensorSpec`s of the tensors that it takes."""
        return [spec_of(t) for t in self._traced.inputs]

    @property
    def output_specs(self) -> list[Any]:
        """The `TensorSpec`s of the tensors that it returns."""
        return [spec_of(t) for t in self._traced.outputs]

    @property
    def captured_inputs(self) -> list[Any]:
        """What it takes besides its arguments: handles of variables, and tensors from outside."""
        feeds = [feed for feed in self.graph.feeds if feed.kind in ("variable", "array")]
        return [feed.value.handle if feed.kind == "variable" else convert(feed.value) for feed in feeds]

    @property
    def function_def(self) -> Any:
        """Its graph as the message `FunctionDef`."""
        return self.graph.function_def(f"__inference_{self.name}")

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables that it reads or assigns, without its arguments."""
        return tuple(self._captured)

    @property
    def trainable_variables(self) -> tuple[Variable, ...]:
        """The trainable ones of its variables."""
        return tuple(v for v in self._captured if v.trainable)

    def add_to_graph(self, g: Any = None, overwrite: bool = False) -> None:
        """Do nothing: a graph contains the functions that its nodes call."""

    def add_gradient_functions_to_graph(self, g: Any = None) -> None:
        """Do nothing: derivatives are traced when they are needed."""

    def pretty_printed_signature(self, verbose: bool = True) -> str:
        """The signature as text: one line, or with `verbose`, the results below it."""
        args, kwargs = self.structured_input_signature
        given = [spec_text(value) for value in args] + [f"{name}={spec_text(value)}" for name, value in kwargs.items()]
        line = f"{self.name}({', '.join(given)})"
        return f"{line}\n  Returns: {spec_text(self._structure)}" if verbose else line

    @property
    def output_shapes(self) -> Any:
        """The shapes of the results in their structure."""
        return nest.map_structure(
            lambda leaf: leaf.shape if isinstance(leaf, TensorSpec) else leaf, self.structured_outputs
        )

    @property
    def output_dtypes(self) -> Any:
        """The dtypes of the results in their structure."""
        return nest.map_structure(
            lambda leaf: leaf.dtype if isinstance(leaf, TensorSpec) else leaf, self.structured_outputs
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = self._bound(args, kwargs)
        tensors = [leaf for leaf, spec in given if isinstance(spec, TensorSpec)]
        variables = [leaf for leaf, spec in given if isinstance(spec, VariableSpec)]
        specs = [spec for _, spec in given]
        variable_args = distinct(variables)
        numbers = [next(i for i, v in enumerate(variable_args) if v.uid == variable.uid) for variable in variables]
        alike = numbers == [spec.alias_id for spec in specs if isinstance(spec, VariableSpec)]
        fitting = all(
            spec.shape.is_compatible_with(leaf.array.shape) for leaf, spec in given if isinstance(spec, TensorSpec)
        )
        if fitting and (not variables or (alike and self.matches(variable_args))):
            return self.run(tensors, variable_args)
        return self._origin.function().concrete_for(self._arguments(tensors, variables)).run(tensors, variable_args)

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[Any, Any]]:
        """Pair the tensors and variables of a call with their declarations; Python values have to be equal to the
        traced ones.

        As in TensorFlow, a call may instead pass all tensors in order, without the structure of the arguments.
        """
        try:
            places = {id(spec): leaf for leaf, spec in self._pairs(args, kwargs)}
        except TypeError as error:
            flat = self._in_order(args, kwargs)
            if flat is None:
                raise TypeError(
                    f"Binding inputs to tf.function failed due to `{error}`. Received args: {args} and kwargs: "
                    f"{kwargs} for signature: {self.pretty_printed_signature(False)}."
                ) from None
            places = flat
        specs = [s for s in nest.flatten(self._given, True) if isinstance(s, (TensorSpec, VariableSpec))]
        return [
            (self._checked(places[id(s)], s) if isinstance(s, VariableSpec) else self._converted(places[id(s)], s), s)
            for s in specs
        ]

    def _in_order(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[int, Any] | None:
        """Tensors by the ids of their declarations, if a call passes exactly these, without
        structure; otherwise None.
        """
        names: dict[str, Any] = {}
        for name, declared in self._declared().items():
            for spec in nest.flatten(declared, True):
                if isinstance(spec, (TensorSpec, VariableSpec)):
                    taken = [name, *(f"{name}_{i}" for i in range(1, len(names) + 1))]
                    names[next(each for each in taken if each not in names)] = spec
        places = dict(zip(names, args, strict=False))
        if len(args) > len(names) or places.keys() & kwargs.keys():
            return None
        places.update(kwargs)
        if places.keys() != names.keys() or not all(isinstance(v, (Tensor, Variable)) for v in places.values()):
            return None
        return {id(names[name]): value for name, value in places.items()}

    def _declared(self) -> dict[str, Any]:
        """The declaration of each argument, by name."""
        args, kwargs = split_keywords(self._given)
        if self._origin.parameters is None:
            return {"": args}
        return self._origin.parameters.bind_partial(*args, **kwargs).arguments

    def _pairs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
        declared = self._declared()
        if self._origin.parameters is None:  # no signature: bind by position
            given: dict[str, Any] = {"": args}
        else:
            given = self._origin.parameters.bind_partial(*args, **kwargs).arguments
        for name, value in given.items():
            if name not in declared and value not in ((), {}):
                raise TypeError(f"got an unexpected argument '{name}'")
        for name, spec in declared.items():
            if name not in given:
                if any(isinstance(s, (TensorSpec, VariableSpec)) for s in nest.flatten(spec, True)):
                    raise TypeError(f"missing a required argument: '{name}'")
                continue  # a Python value may be omitted
            yield from paired(given[name], spec)

    def _converted(self, leaf: Any, spec: TensorSpec) -> Tensor:
        """Convert an argument to a tensor that fits its specification."""
        if isinstance(leaf, Variable):
            leaf = read(leaf)
        tensor = leaf if isinstance(leaf, Tensor) else convert(leaf, spec.dtype)
        if tensor.dtype != spec.dtype:
            raise errors.invalid_argument(
                f"cannot compute {self.name} as input was expected to be a {spec.dtype.word} tensor but is a "
                f"{tensor.dtype.word} tensor",
                self.name,
            )
        return tensor if type(tensor) is Tensor else plain(tensor)

    def _checked(self, leaf: Any, spec: VariableSpec) -> Variable:
        """Check that a variable fits its specification."""
        if not isinstance(leaf, Variable):
            raise errors.invalid_argument(
                f"cannot compute {self.name}: {self.pretty_printed_signature(False)} received {leaf!r} but takes a "
                "tf.Variable",
                self.name,
            )
        variable = leaf if isinstance(leaf, VariableParam) and current_graph() is not None else stored(leaf)
        like = abstract_value(variable)
        if variable.dtype != spec.dtype or not spec.shape.is_compatible_with(like.shape):
            raise TypeError(
                f"Binding inputs to tf.function failed: {self.pretty_printed_signature(False)} received a variable "
                f"of shape {variable.shape} and dtype {variable.dtype.name}, but takes {spec!r}."
            )
        return variable

    def matches(self, variable_args: Sequence[Variable]) -> bool:
        """Whether its program may run with these variables.

        It may not if the code reached a variable in another way than as an argument, and that is not the one that is
        passed.
        """
        also_captured = self.graph.also_captured
        own = [v.uid for v in self._captured]
        return all(
            v.uid == uid or (uid not in also_captured and v.uid not in own)
            for uid, v in zip(self.graph.variable_params, variable_args, strict=True)
        )

    def takes(self, shapes: Sequence[Sequence[Any]]) -> bool:
        """Whether it was traced with unknown dimensions that may have these sizes."""
        return False

    def declare_shapes(self, declared: Sequence[TensorShape]) -> None:
        """Set the shapes that its signature shows."""
        leaves = nest.flatten(self._given, expand_composites=True)
        shapes = iter(declared)
        specs = [TensorSpec(next(shapes), leaf.dtype) if isinstance(leaf, TensorSpec) else leaf for leaf in leaves]
        self._given = nest.pack_sequence_as(self._given, specs, expand_composites=True)

    def forget_result_shapes(self) -> None:
        """Show no sizes in its results: they are those of a trace for sizes that stand for unknown ones."""

        def without_sizes(leaf: Any) -> Any:
            return TensorSpec([None] * len(leaf.shape), leaf.dtype, leaf.name) if type(leaf) is TensorSpec else leaf

        self._structure = nest.map_structure(without_sizes, self._structure)

    @property
    def declared_shapes(self) -> list[TensorShape]:
        """The shapes that its signature shows."""
        leaves = nest.flatten(self._given, expand_composites=True)
        return [leaf.shape for leaf in leaves if isinstance(leaf, TensorSpec)]

    def _arguments(self, tensors: Sequence[Tensor], variables: Sequence[Variable]) -> Arguments:
        """The arguments of a call with these tensors and variables, in order."""
        of = {TensorSpec: iter(tensors), VariableSpec: iter(variables)}
        leaves = nest.flatten(self._given, expand_composites=True)
        filled = [next(of[type(leaf)]) if type(leaf) in of else leaf for leaf in leaves]
        return arguments_of(nest.pack_sequence_as(self._given, filled, expand_composites=True))

    def run(self, tensors: list[Tensor], variable_args: Sequence[Variable] = ()) -> Any:
        """Call it with the tensors among the arguments, in order, and the variables, without repetitions."""
        host = self._on_host and (not placement.places or chosen() is None)
        for tensor in tensors:
            if type(tensor.array) is not ndarray and not is_lazy_on_host(tensor.array):
                host = False
                break
        if variable_args:
            with updating():  # another program may take the memory of a variable
                host = host and all(map(_is_on_host, variable_args))
            for variable in variable_args:  # tapes treat every variable argument as read
                notice_reading(variable)
        try:
            outputs = self._traced(tensors, host, None, variable_args)
        except NeedsEagerError as error:  # raised by a derivative, before anything has run
            return self._eager_instead(error, tensors, variable_args).run(tensors, variable_args)
        except DynamicSizeError as error:  # variables are unchanged
            return self._run_eagerly(error, tensors, variable_args)
        except (ValueError, TypeError, IndexError) as error:  # of NumPy, about sizes that depend on values
            if not self._traced.graph.root.dynamic_sizes or not is_raised_by_op(error):
                raise
            return self._run_eagerly(DynamicOpError(str(error)), tensors, variable_args)
        if self._single:
            return outputs[0]
        remaining = iter(outputs)
        flat = [next(remaining) if leaf is _COMPUTED else leaf for leaf in self._leaves]
        return nest.pack_sequence_as(self._template, flat, expand_composites=True)

    def _run_eagerly(self, reason: Exception, tensors: list[Tensor], variable_args: Sequence[Variable]) -> Any:
        """Run the Python code for this call only; the trace may fit the sizes of later calls."""
        if current_graph() is not None:
            raise NeedsEagerError(reason)
        if isinstance(reason, DynamicOpError) and self._traced.graph.root.first_effect is not None:
            raise errors.invalid_argument(str(reason), self.name) from reason  # callbacks must not run twice
        if self._eager is None:
            self._eager = self._origin.function().eager_beside(self._arguments_of_call(tensors, variable_args), reason)
        try:
            return self._eager.run(tensors, variable_args)
        except ValueError as error:  # for sizes that a program finds out, TensorFlow's is of this class
            if not is_raised_by_op(error):
                raise
            raise errors.InvalidArgumentError(None, None, str(error)) from error

    def _eager_instead(
        self, error: NeedsEagerError, tensors: list[Tensor], variable_args: Sequence[Variable]
    ) -> ConcreteFunction:
        """The function that replaces this one from now on, which runs eagerly."""
        if current_graph() is not None:
            raise error
        arguments = self._arguments_of_call(tensors, variable_args)
        return self._origin.function().replace_by_eager(self, arguments, error.reason)

    def _arguments_of_call(self, tensors: Sequence[Tensor], variable_args: Sequence[Variable]) -> Arguments:
        """The arguments of a call with these tensors and variables; `variable_args` has no repetitions."""
        specs = nest.flatten(self._given, expand_composites=True)
        return self._arguments(
            tensors,
            [variable_args[s.alias_id] for s in specs if isinstance(s, VariableSpec) and s.alias_id is not None],
        )

    def __repr__(self) -> str:
        return f"<ConcreteFunction {self.pretty_printed_signature(False)}>"


def _renamed(spec: TensorSpec, name: str | None) -> TensorSpec:
    return spec if name is None else TensorSpec(spec.shape, spec.dtype, name)


def _is_on_host(variable: Variable) -> bool:
    storage = abstract_value(variable)
    return type(storage) is ndarray or type(storage) is Symbolic or on_host(storage)


def is_text(leaf: Any) -> bool:
    """Whether a leaf is a tensor of strings that no program computes: a constant, or the result of an op of a file."""
    if not isinstance(leaf, Tensor) or leaf.array.dtype.kind != "O":
        return False
    return type(leaf.array) is not Symbolic or leaf.array.graph.root.static
