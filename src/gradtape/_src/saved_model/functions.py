"""Functions of loaded SavedModels: binding of arguments, choice of a trace, flat inputs and structured results."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NamedTuple

from gradtape._src import nest
from gradtape._src.conversion import convert, is_library
from gradtape._src.ops.ragged import RaggedTensor, RaggedTensorSpec
from gradtape._src.ops.sparse_tensor import SparseTensor, SparseTensorSpec
from gradtape._src.saved_model.messages import Fields, integer, read, text, texts
from gradtape._src.saved_model.structures import structure
from gradtape._src.shape import TensorSpec
from gradtape._src.tensor import Tensor
from gradtape._src.variable import Variable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gradtape._src.saved_model.interpreter import GraphFunction
    from gradtape._src.saved_model.messages import ConcreteFunction as SavedConcreteFunction

SPECS = (TensorSpec, RaggedTensorSpec, SparseTensorSpec)


class ConcreteFunction:
    """One trace of a function of a SavedModel.

    `structured_input_signature` is `(positional, keyword)`, `structured_outputs` the nest of its results.
    """

    def __init__(
        self, function: GraphFunction, saved: SavedConcreteFunction, captures: Callable[[], list[Any]]
    ) -> None:
        input_signature = structure(saved.input_signature)
        if not isinstance(input_signature, tuple) or len(input_signature) != 2:
            raise ValueError(f"The function {function.name!r} has no input signature.")
        self.function, self.saved, self.captures = function, saved, captures
        self.structured_input_signature = input_signature
        self.structured_outputs = structure(saved.output_signature)
        self.keywords: list[str] | None = None
        self.positional = 0

    def _bound(self) -> list[Any]:
        """Its captures, in the form that its graph takes."""
        return [graph_input(each) for each in self.captures()]

    @property
    def name(self) -> str:
        """The name of the function in the file."""
        return self.function.name

    @property
    def captured_inputs(self) -> list[Any]:
        """Variables, constants and tables that the function uses."""
        return self._bound()

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables that the function uses."""
        return tuple(each for each in self._bound() if isinstance(each, Variable))

    @property
    def trainable_variables(self) -> tuple[Variable, ...]:
        """The trainable variables that the function uses."""
        return tuple(each for each in self.variables if each.trainable)

    @property
    def has_stored_programs(self) -> bool:
        """Whether it runs programs that gradtape has saved, rather than ops."""
        return self.function.has_stored_programs

    def take_keywords(self, keywords: list[str], positional: int) -> None:
        """Let calls pass flat inputs by name, as in signatures."""
        self.keywords, self.positional = keywords, positional

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.keywords is not None:
            return self.call_flat(self._named(args, kwargs))
        found = tensors_of(self.structured_input_signature, (args, kwargs), convertible=True)
        if found is None:
            raise TypeError(
                f"The arguments do not match the signature of {self.name}: {self.structured_input_signature}. "
                f"Received: args={args}, kwargs={kwargs}."
            )
        return self.call_flat(found)

    def _named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
        """The flat inputs of a call that passes them by name."""
        keywords = self.keywords or []
        if len(args) > self.positional:
            raise TypeError(
                f"signature_wrapper({', '.join(keywords)}) takes {self.positional} positional arguments, "
                f"got {len(args)}."
            )
        given = dict(zip(keywords, args, strict=False))
        for key, value in kwargs.items():
            if key in given:
                raise TypeError(f"signature_wrapper({', '.join(keywords)}) got two values for {key!r}.")
            given[key] = value
        missing, unknown = set(keywords) - set(given), set(given) - set(keywords)
        if missing or unknown:
            what = (
                f"missing required arguments: {', '.join(sorted(missing))}"
                if missing
                else (f"got unexpected keyword arguments: {', '.join(sorted(unknown))}")
            )
            raise TypeError(f"signature_wrapper({', '.join(keywords)}) {what}.")
        specs = {
            spec.name: spec for spec in nest.flatten(self.structured_input_signature) if isinstance(spec, TensorSpec)
        }
        specs |= self.structured_input_signature[1]
        return [_checked(specs.get(key), given[key], key) for key in keywords]

    def call_flat(self, tensors: list[Any]) -> Any:
        """Call with flat inputs."""
        results = iter(self.function(*tensors, *self._bound()))
        return _packed(self.structured_outputs, results)

    def __repr__(self) -> str:
        return f"<ConcreteFunction {self.name} {self.structured_input_signature} -> {self.structured_outputs}>"


def graph_input(value: Any) -> Any:
    """The form in which a graph takes a captured object: the handle of a table, the path of an asset."""
    return value.graph_input() if hasattr(value, "graph_input") else value


def _checked(spec: Any, value: Any, name: str) -> Tensor:
    tensor = convert(value, None if spec is None or is_library(value) else spec.dtype)
    if spec is not None and tensor.dtype != spec.dtype:
        raise TypeError(
            f"cannot compute the signature: the input {name!r} was expected to be a {spec.dtype.name} tensor but is a "
            f"{tensor.dtype.name} tensor."
        )
    if spec is not None and not spec.shape.is_compatible_with(tensor.shape):
        raise TypeError(f"The input {name!r} has the shape {tensor.shape}, expected {spec.shape}.")
    return tensor


# -- matching --------------------------------------------------------------------------------------------------------
def tensors_of(expected: Any, given: Any, convertible: bool) -> list[Any] | None:
    """The tensors among arguments, in flat order; None if they do not fit the signature."""
    found: list[Any] = []
    return found if _collect(expected, given, convertible, found) else None


def _collect(expected: Any, given: Any, convertible: bool, found: list[Any]) -> bool:
    if isinstance(expected, TensorSpec):
        return _collect_tensor(expected, given, convertible, found)
    if isinstance(expected, (RaggedTensorSpec, SparseTensorSpec)):
        if not expected.is_compatible_with(given):
            return False
        found += nest.flatten(given, expand_composites=True)
        return True
    if isinstance(expected, dict):
        if not isinstance(given, dict) or set(expected) != set(given):
            return False
        return all(_collect(expected[key], given[key], convertible, found) for key in sorted(expected))
    if isinstance(expected, (list, tuple)):
        if not isinstance(given, (list, tuple)) or len(expected) != len(given) or not _same_kind(expected, given):
            return False
        return all(_collect(one, other, convertible, found) for one, other in zip(expected, given, strict=True))
    return _is_equal(expected, given)


def _same_kind(expected: Any, given: Any) -> bool:
    """Whether both are lists, both tuples, or both named tuples with the same fields."""
    return isinstance(expected, list) == isinstance(given, list) and (
        getattr(expected, "_fields", None) == getattr(given, "_fields", None)
    )


def _collect_tensor(spec: TensorSpec, given: Any, convertible: bool, found: list[Any]) -> bool:
    if not isinstance(given, (Tensor, Variable)):
        if not convertible or given is None or isinstance(given, (RaggedTensor, SparseTensor, dict)):
            return False
        try:
            given = convert(given, dtype_hint=spec.dtype)
        except (TypeError, ValueError):
            return False
    if given.dtype != spec.dtype or not spec.shape.is_compatible_with(given.shape):
        return False
    found.append(convert(given))
    return True


def _is_equal(expected: Any, given: Any) -> bool:
    if is_library(given):
        return given is expected
    return type(given) is type(expected) and bool(given == expected) if expected is not None else given is None


def _packed(expected: Any, values: Iterator[Any]) -> Any:
    """Replace the specs of a nest by values."""
    if isinstance(expected, TensorSpec):
        return next(values)
    if isinstance(expected, RaggedTensorSpec):
        flat = next(values)
        splits = [next(values) for _ in range(expected.ragged_rank)]
        return RaggedTensor.from_nested_row_splits(flat, splits) if splits else flat
    if isinstance(expected, SparseTensorSpec):
        return SparseTensor(next(values), next(values), next(values))
    if isinstance(expected, dict):
        found = {key: _packed(expected[key], values) for key in sorted(expected)}
        return {key: found[key] for key in expected}
    if isinstance(expected, (list, tuple)):
        items = [_packed(each, values) for each in expected]
        return type(expected)(*items) if hasattr(expected, "_fields") else type(expected)(items)
    return expected


# -- functions with several traces -----------------------------------------------------------------------------------
class FunctionSpec(NamedTuple):
    """The properties of a Python function in the file: its parameters, and its `input_signature`, or None.

    `data` is the message.
    """

    parameters: inspect.Signature
    input_signature: Any
    data: bytes

    @classmethod
    def read(cls, data: bytes) -> FunctionSpec | None:
        """A FunctionSpec message; None if there is none."""
        message = read(data)
        if 1 not in message:
            return None
        signature = structure(message[5][-1]) if 5 in message else None
        return cls(_parameters(structure(message[1][-1])), signature, data)


def _parameters(spec: Any) -> inspect.Signature:
    """Python's signature of a full argument specification."""
    missing = {"args", "varargs", "varkw", "defaults", "kwonlyargs", "kwonlydefaults"} - set(
        getattr(spec, "_fields", ())
    )
    if missing:
        raise ValueError(f"a function's parameters lack {sorted(missing)}")
    kinds, empty = inspect.Parameter, inspect.Parameter.empty
    names, defaults = list(spec.args), list(spec.defaults or ())
    first = len(names) - len(defaults)
    found = []
    for i, name in enumerate(names):
        found.append(kinds(name, kinds.POSITIONAL_OR_KEYWORD, default=defaults[i - first] if i >= first else empty))
    if spec.varargs:
        found.append(kinds(spec.varargs, kinds.VAR_POSITIONAL))
    for name in spec.kwonlyargs or ():
        found.append(kinds(name, kinds.KEYWORD_ONLY, default=(spec.kwonlydefaults or {}).get(name, empty)))
    if spec.varkw:
        found.append(kinds(spec.varkw, kinds.VAR_KEYWORD))
    return inspect.Signature(found)


class RestoredFunction:
    """A function of a SavedModel: a call runs the first trace that its arguments fit."""

    def __init__(self, name: str, spec: FunctionSpec | None, concrete: list[ConcreteFunction]) -> None:
        self.__name__ = name
        self.spec, self.concrete_functions = spec, concrete
        if spec is not None:
            self.__signature__ = spec.parameters

    @property
    def input_signature(self) -> Any:
        """The signature that the function was declared with, or None."""
        return None if self.spec is None else self.spec.input_signature

    def _canonical(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """The arguments as (positional, keyword-only), including defaults."""
        if self.spec is None:
            return args, kwargs
        bound = self.spec.parameters.bind(*args, **kwargs)
        given = len(bound.args)
        bound.apply_defaults()
        declared = self.input_signature
        if declared is None:
            return bound.args, bound.kwargs
        return bound.args[: max(given, len(declared))], bound.kwargs  # further parameters have their defaults

    def _chosen(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[ConcreteFunction, list[Any]]:
        if not self.concrete_functions:
            raise ValueError("Found zero restored functions for caller function.")
        given = self._canonical(args, kwargs)
        for convertible in (False, True):
            for concrete in self.concrete_functions:
                found = tensors_of(concrete.structured_input_signature, given, convertible)
                if found is not None:
                    return concrete, found
        if self.input_signature is not None:
            raise TypeError(
                f"Binding inputs to tf.function failed: {self.__name__}{given[0]} does not match the "
                f"input_signature {self.input_signature}. Received args: {args} and kwargs: {kwargs}."
            )
        options = "\n".join(
            f"Option {i + 1}:\n  {concrete.structured_input_signature}"
            for i, concrete in enumerate(self.concrete_functions)
        )
        raise ValueError(
            "Could not find matching concrete function to call loaded from the SavedModel. Got:\n"
            f"  Positional arguments ({len(given[0])} total): {given[0]}\n  Keyword arguments: {given[1]}\n\n"
            "Expected these arguments to match one of the following "
            f"{len(self.concrete_functions)} option(s):\n{options}"
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        concrete, tensors = self._chosen(args, kwargs)
        return concrete.call_flat(tensors)

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """The trace for these arguments, which may be specs; the only one if none are given."""
        if not args and not kwargs and len(self.concrete_functions) == 1:
            return self.concrete_functions[0]
        given = nest.map_structure(_placeholder, self._canonical(args, kwargs))
        for concrete in self.concrete_functions:
            if _fits(concrete.structured_input_signature, given):
                return concrete
        return self._chosen(args, kwargs)[0]

    def __repr__(self) -> str:
        return f"<tf.function {self.__name__} of a SavedModel, {len(self.concrete_functions)} trace(s)>"


def _placeholder(value: Any) -> Any:
    return TensorSpec(value.shape, value.dtype) if isinstance(value, (Tensor, Variable)) else value


def _fits(expected: Any, given: Any) -> bool:
    """Whether specs of arguments fit a signature."""
    if isinstance(expected, TensorSpec):
        return (
            isinstance(given, TensorSpec)
            and given.dtype == expected.dtype
            and (expected.shape.is_compatible_with(given.shape))
        )
    if isinstance(expected, dict):
        return (
            isinstance(given, dict)
            and set(expected) == set(given)
            and all(_fits(expected[key], given[key]) for key in expected)
        )
    if isinstance(expected, (list, tuple)):
        return (
            isinstance(given, (list, tuple))
            and len(expected) == len(given)
            and all(_fits(one, other) for one, other in zip(expected, given, strict=True))
        )
    return type(expected) is type(given) and bool(expected == given)


def bare_arguments(message: Fields) -> tuple[str, list[str], int]:
    """Read a SavedBareConcreteFunction: the function's name, names of flat inputs, the number of positional ones."""
    return text(message, 1), texts(message, 2), integer(message, 3)
