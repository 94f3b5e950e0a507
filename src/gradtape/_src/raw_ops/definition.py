"""TensorFlow's op definitions: inputs, attrs, outputs and types of a raw op, and checks of calls.

`definitions.txt` has a line per op; `tools/record_raw_ops.py` writes it and documents the notation.
"""

from __future__ import annotations

import ast
import functools
import re
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple

from gradtape._src import errors
from gradtape._src.conversion import convert, is_library
from gradtape._src.dtypes import DType, as_dtype
from gradtape._src.function.modes import inside_function
from gradtape._src.shape import TensorShape
from gradtape._src.tensor import Reference, Tensor
from gradtape._src.tf.arguments import as_int, number, required_flag, text
from gradtape._src.tf.tensor_array import TensorArray
from gradtape._src.variable import Variable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

HANDLES = ("resource", "variant")
"""Types whose values are Python objects: variables, tables, lists of tensors."""


_RESERVED = frozenset(
    [
        "abs",
        "all",
        "any",
        "assert",
        "complex",
        "fused_batch_norm",
        "histogram_fixed_width",
        "if",
        "max",
        "min",
        "pow",
        "range",
        "slice",
        "sum",
        "while",
    ]
)
"""Names that get an underscore in TensorFlow's Python functions: keywords, built-in functions, and two more."""


class Input(NamedTuple):
    """An input: a tensor, or a list of tensors if `number` (its length) or `is_list` (separate types) is set."""

    name: str
    node_name: str
    type: str
    number: str = ""
    is_list: bool = False


class Attr(NamedTuple):
    """An attr: its kind (`int`, `list(type)`, …) and its allowed values."""

    name: str
    node_name: str
    kind: str
    required: bool
    default: Any
    allowed: tuple[str, ...]
    minimum: int | None


class Output(NamedTuple):
    """An output: a tensor, or a list of tensors if `number` or `is_list` is set."""

    name: str
    type: str
    number: str = ""
    is_list: bool = False


class Types(NamedTuple):
    """A type attr that the inputs determine: its allowed types, and the type of plain values."""

    allowed: tuple[str, ...]
    default: str | None


class Definition(NamedTuple):
    """An op's definition."""

    name: str
    inputs: tuple[Input, ...]
    attrs: tuple[Attr, ...]
    outputs: tuple[Output, ...]
    types: dict[str, Types]

    @property
    def python_name(self) -> str:
        """The name of TensorFlow's Python function: `add_v2` for AddV2."""
        words = re.sub(r"(?<=[a-z])([A-Z])|(?<!^)([A-Z])(?=[a-z])", r"_\1\2", self.name).lower()
        return f"_{words}" if words in _RESERVED else words

    @property
    def parameters(self) -> list[str]:
        """The names of the arguments, in TensorFlow's order."""
        return [each.name for each in self.inputs] + [each.name for each in self.attrs] + ["name"]


# -- the notation ----------------------------------------------------------------------------------------------------
@functools.cache
def _lines() -> dict[str, str]:
    """Name -> line of the file, for ops and sets of types (`#3`)."""
    recorded = resources.files(__package__).joinpath("definitions.txt").read_text(encoding="utf-8")
    return {re.split(r"[ (]", line, maxsplit=1)[0]: line for line in recorded.splitlines()}


def names() -> list[str]:
    """Every op with a definition."""
    return [name for name in _lines() if not name.startswith("#")]


@functools.cache
def definition(name: str) -> Definition:
    """The definition of an op.

    >>> definition("Sum").parameters
    ['input', 'axis', 'keep_dims', 'name']
    """
    head, _, tail = _lines()[name].partition(" ->")
    outputs, _, types = tail.partition(" | ")
    inputs, _, attrs = head[len(name) + 1 : -1].partition("; ")
    return Definition(
        name,
        tuple(_input(each) for each in inputs.split(", ") if each),
        tuple(_attr(each) for each in attrs.split("; ") if each),
        tuple(_output(each) for each in outputs.strip().split(", ") if each),
        dict(_types(each) for each in types.split("; ") if each),
    )


def _arg(words: str) -> tuple[str, str, str, bool]:
    """`name: N*T` -> the name, T, N and whether the arg is a list with separate types (`*T`)."""
    name, _, kind = words.partition(": ")
    count, star, element = kind.rpartition("*")
    return name, element, count, bool(star) and not count


def _input(words: str) -> Input:
    both, kind, count, is_list = _arg(words)
    name, _, node_name = both.partition("@")
    return Input(name, node_name or name, kind, count, is_list)


def _output(words: str) -> Output:
    return Output(*_arg(words))


def _limits(words: str) -> tuple[str, tuple[str, ...], str | None]:
    """`kind in #3 = default` -> kind, the allowed values, the text of the default."""
    words, equals, default = words.partition(" = ")
    words, _, allowed = words.partition(" in ")
    listed = _lines()[allowed].split()[1:] if allowed.startswith("#") else allowed.split("|") if allowed else []
    return words, tuple(listed), default if equals else None


def _attr(words: str) -> Attr:
    both, _, rest = words.partition(": ")
    name, _, node_name = both.partition("@")
    kind, allowed, default = _limits(rest)
    kind, _, least = kind.partition(" >= ")
    value = None if default is None else _of_kind(kind, ast.literal_eval(default))
    return Attr(name, node_name or name, kind, default is None, value, allowed, int(least) if least else None)


def _types(words: str) -> tuple[str, Types]:
    name, allowed, default = _limits(words)
    return name, Types(allowed, None if default is None else ast.literal_eval(default))


def _of_kind(kind: str, value: Any) -> Any:
    """A default in the form of a call's argument: types as DTypes, shapes as TensorShapes."""
    if kind == "type":
        return as_dtype(value)
    return TensorShape(value) if kind == "shape" else value


# -- a call's attrs --------------------------------------------------------------------------------------------------
def _dtype(value: Any, name: str) -> DType:
    try:
        return as_dtype(value)
    except TypeError:
        raise TypeError(f"Expected DataType for argument '{name}' not {value!r}.") from None


def _shape(value: Any, name: str) -> TensorShape:
    try:
        return TensorShape(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"Error converting {name} to a TensorShape: {error}.") from None


def _function(value: Any, name: str) -> Any:
    if callable(value):
        return value
    raise TypeError(f"Expected a function for argument '{name}' not {value!r}.")


_CHECKS: dict[str, Callable[[Any, str], Any]] = {
    "bool": required_flag,
    "int": as_int,
    "float": number,
    "string": text,
    "type": _dtype,
    "shape": _shape,
    "func": _function,
    "tensor": lambda value, name: convert(value),
}


def attr_value(op: Definition, attr: Attr, value: Any) -> Any:
    """The value of an attr in a call, with TensorFlow's errors for wrong kinds and disallowed values."""
    if value is None and not attr.required:
        return attr.default
    if not attr.kind.startswith("list("):
        found = _CHECKS[attr.kind](value, attr.name)
        _check_limits(op, attr, found)
        return found
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"Expected list for '{attr.name}' argument to '{op.python_name}' Op, not {value!r}.")
    check = _CHECKS[attr.kind[5:-1]]
    return [check(each, attr.name) for each in value]


def _check_limits(op: Definition, attr: Attr, value: Any) -> None:
    if attr.minimum is not None and value < attr.minimum:
        raise errors.invalid_argument(
            f"Value for attr '{attr.name}' of {value} must be at least minimum {attr.minimum}", op.name
        )
    if attr.allowed and (value.name if attr.kind == "type" else value) not in attr.allowed:
        _refuse(op, attr.name, value, attr.allowed)


def _refuse(op: Definition, attr: str, value: Any, allowed: Iterable[str]) -> None:
    """Raise TensorFlow's error for a value that an op does not allow."""
    if isinstance(value, DType):
        received, listed = value.word, ", ".join(as_dtype(each).word for each in allowed if _is_type(each))
    else:
        received, listed = f'"{value}"', ", ".join(f'"{each}"' for each in allowed)
    raise errors.invalid_argument(
        f"Value for attr '{attr}' of {received} is not in the list of allowed values: {listed}", op.name
    )


def _is_type(name: str) -> bool:
    try:
        as_dtype(name)
    except TypeError:
        return False
    return True


# -- a call's inputs -------------------------------------------------------------------------------------------------
def input_values(op: Definition, values: Sequence[Any]) -> list[Any]:
    """The inputs of a call as tensors: plain values take the type of tensors with the same type attr."""
    found = _known_types(op, values)
    results: list[Any] = []
    position = 0
    for arg, value in zip(op.inputs, values, strict=True):
        if arg.type in HANDLES:
            results.append(value)
            position += 1
        elif arg.number or arg.is_list:
            items = _items(op, arg, value)
            results.append([_tensor(op, arg, each, found, position + i) for i, each in enumerate(items)])
            position += len(items)
        else:
            results.append(_tensor(op, arg, value, found, position))
            position += 1
    for name, limits in op.types.items():
        if limits.allowed and name in found and found[name].name not in limits.allowed:
            _refuse(op, name, found[name], limits.allowed)
    return results


def _items(op: Definition, arg: Input, value: Any) -> list[Any]:
    """The tensors of a list input; a tensor is split into its rows."""
    if not isinstance(value, (list, tuple)) and not (isinstance(value, Tensor) and value.shape.rank):
        raise TypeError(f"Expected list for '{arg.name}' argument to '{op.python_name}' Op, not {value!r}.")
    return list(value)


def _known_types(op: Definition, values: Sequence[Any]) -> dict[str, DType]:
    """Type attr -> the type of the first tensor (or array) that has it."""
    found: dict[str, DType] = {}
    for arg, value in zip(op.inputs, values, strict=True):
        if arg.is_list or arg.type in found or arg.type in HANDLES:
            continue
        for each in value if arg.number and isinstance(value, (list, tuple)) else (value,):
            if isinstance(each, Tensor) or is_library(each):
                found[arg.type] = each.dtype if isinstance(each, Tensor) else convert(each).dtype
                break
    return found


def _tensor(op: Definition, arg: Input, value: Any, found: dict[str, DType], position: int) -> Tensor:
    """An input as a tensor of the type found for its attr; the first input determines it."""
    if arg.is_list:
        return value if _is_handle(value) else convert(value)
    fixed = None if arg.type in op.types or not _is_type(arg.type) or _is_attr(op, arg.type) else as_dtype(arg.type)
    wanted = fixed or found.get(arg.type)
    if isinstance(value, TensorArray):
        return value  # type: ignore[return-value]  # a variant, where an op takes anything
    if not isinstance(value, Tensor) and not is_library(value):
        default = op.types[arg.type].default if wanted is None and arg.type in op.types else None
        value = _converted(op, arg, value, as_dtype(default) if default and not hasattr(value, "dtype") else wanted)
    elif not isinstance(value, Tensor):
        value = convert(value)
    if wanted is None:
        found[arg.type] = value.dtype
    elif value.dtype != wanted:
        raise _mismatch(op, arg, value.dtype, wanted, position)
    return value


def _is_handle(value: Any) -> bool:
    """Whether a value in a list of mixed types is an object that ops get unchanged."""
    return isinstance(value, (Variable, TensorArray, Reference))


def _is_attr(op: Definition, name: str) -> bool:
    return any(attr.node_name == name for attr in op.attrs)


def _converted(op: Definition, arg: Input, value: Any, dtype: DType | None) -> Tensor:
    try:
        return convert(value, dtype)
    except (TypeError, ValueError):
        if value is None or dtype is None:
            raise
        if inside_function():
            raise TypeError(
                f"Expected {dtype.name} passed to parameter '{arg.name}' of op '{op.name}', got {value!r} of type "
                f"'{type(value).__name__}' instead."
            ) from None
        raise TypeError(f"Cannot convert {value!r} to EagerTensor of dtype {dtype.word}") from None


def _mismatch(op: Definition, arg: Input, received: DType, wanted: DType, position: int) -> Exception:
    if inside_function():
        first = next((each.name for each in op.inputs if each.type == arg.type and each is not arg), None)
        expected = f"type {wanted.name} of argument '{first}'" if first else f"expected type of {wanted.name}"
        return TypeError(
            f"Input '{arg.name}' of '{op.name}' Op has type {received.name} that does not match {expected}."
        )
    return errors.invalid_argument(
        f"cannot compute {op.name} as input #{position}(zero-based) was expected to be a {wanted.word} tensor "
        f"but is a {received.word} tensor",
        op.name,
    )
