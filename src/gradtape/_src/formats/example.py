"""`tf.train.Example` and its parts: named lists of bytes, floats or integers, as in TFRecord files.

The classes have the interface of protocol buffers that programs use to write and read examples.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeVar

import numpy as np

from gradtape._src.formats.protobuf import Fixed32, encode, fields, varint
from gradtape._src.formats.tensor_proto import varints

M = TypeVar("M", bound="Message")


class DecodeError(ValueError):
    """Bytes that are not a valid message of this kind."""


class Message:
    """A message: named fields, serialized to bytes and parsed from them."""

    _fields: ClassVar[dict[str, int]] = {}
    _names: ClassVar[frozenset[str]] = frozenset()  # the fields: the keywords of the class

    def __init_subclass__(cls) -> None:
        code = cls.__init__.__code__ if "__init__" in cls.__dict__ else None
        if code is not None:
            cls._names = frozenset(code.co_varnames[1 : code.co_argcount])

    def __new__(cls: type[M], *args: Any, **values: Any) -> M:
        if args:
            raise TypeError("No positional arguments allowed")
        for name in values:
            if name not in cls._names:
                raise ValueError(f'Protocol message {cls.__name__} has no "{name}" field.')
        return super().__new__(cls)

    def _parts(self) -> list[tuple[int, Any]]:
        raise NotImplementedError

    def _read(self, number: int, value: Any, strict: bool) -> bool:
        """Read a field. False if the message has no field of this number and kind."""
        raise NotImplementedError

    def _merge(self, data: bytes, strict: bool = False) -> None:
        """Merge serialized fields. Unknown ones are skipped or, if `strict`, a ValueError."""
        for number, value in fields(data):
            if not self._read(number, value, strict) and strict:
                raise ValueError(f"A {type(self).__name__} has no field {number} of this kind.")

    def SerializeToString(self, deterministic: bool | None = None) -> bytes:
        """Return the serialized message."""
        return encode(self._parts())

    @classmethod
    def FromString(cls: type[M], data: bytes) -> M:
        """Return the parsed message."""
        made = cls()
        made.ParseFromString(data)
        return made

    def ParseFromString(self, data: bytes) -> int:
        """Replace the content by the parsed message; return the number of bytes."""
        self.__init__()  # type: ignore[misc]
        return self.MergeFromString(data)

    def MergeFromString(self, data: bytes) -> int:
        """Merge a serialized message into this one."""
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"Messages are read from bytes, got {type(data).__name__}.")
        try:
            self._merge(bytes(data))
        except ValueError as error:
            raise DecodeError(f"Error parsing message with type 'tensorflow.{type(self).__name__}': {error}") from None
        return len(data)

    def CopyFrom(self, other: Any) -> None:
        """Replace the content by that of another message of this kind."""
        if type(other) is not type(self):
            raise TypeError(f"CopyFrom() takes a {type(self).__name__}, got {type(other).__name__}.")
        self.ParseFromString(other.SerializeToString())

    def ByteSize(self) -> int:
        """Return the size of the serialized message in bytes."""
        return len(self.SerializeToString())

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._lines("") == other._lines("")

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "".join(f"{line}\n" for line in self._lines(""))

    def _lines(self, indent: str) -> list[str]:
        raise NotImplementedError


def _given(value: Any, kind: type[M]) -> M:
    if isinstance(value, dict):
        return kind(**value)
    if not isinstance(value, kind):
        raise TypeError(
            f"Parameter to initialize message field must be dict or instance of same class: expected {kind} got "
            f"{type(value)}."
        )
    return value


# -- lists of values -------------------------------------------------------------------------------------------------
class _Values(list[Any]):
    """A list that checks its elements."""

    def __init__(self, check: Callable[[Any], Any], values: Any = ()) -> None:
        self._check = check
        super().__init__(map(check, values))

    def append(self, value: Any) -> None:
        super().append(self._check(value))

    def extend(self, values: Any) -> None:
        super().extend(map(self._check, values))

    def insert(self, index: Any, value: Any) -> None:
        super().insert(index, self._check(value))


class _List(Message):
    @staticmethod
    def _checked(value: Any) -> Any:
        raise NotImplementedError

    def __init__(self, value: Any = ()) -> None:
        self.value = _Values(self._checked, () if value is None else value)

    def _lines(self, indent: str) -> list[str]:
        return [f"{indent}value: {text_of(value)}" for value in self.value]


def text_of(value: Any) -> str:
    """A value in the text format."""
    if not isinstance(value, bytes):
        return f"{value:.8g}" if isinstance(value, float) else str(value)
    return '"' + "".join(chr(c) if 32 <= c < 127 and c not in b'"\\' else f"\\{c:03o}" for c in value) + '"'


class BytesList(_List):
    """A list of bytes.

    >>> tf.train.BytesList(value=[b"a"]).value
    [b'a']
    """

    @staticmethod
    def _checked(value: Any) -> bytes:
        if not isinstance(value, bytes):
            raise TypeError(f"expected bytes, {type(value).__name__} found")
        return value

    def _parts(self) -> list[tuple[int, Any]]:
        return [(1, value) for value in self.value]

    def _read(self, number: int, value: Any, strict: bool) -> bool:
        known = number == 1 and isinstance(value, bytes)
        if known:
            list.append(self.value, value)
        return known


class FloatList(_List):
    """A list of 32-bit floats.

    >>> list(tf.train.FloatList(value=[0.5, 1.0]).value)
    [0.5, 1.0]
    """

    @staticmethod
    def _checked(value: Any) -> float:
        if isinstance(value, (str, bytes)):
            raise TypeError(f"must be real number, not {type(value).__name__}")
        return float(np.float32(value))

    def _parts(self) -> list[tuple[int, Any]]:
        return [(1, np.array(self.value, "<f4").tobytes())] if self.value else []

    def _read(self, number: int, value: Any, strict: bool) -> bool:
        known = number == 1 and isinstance(value, (bytes, Fixed32))
        if known:
            raw = value if isinstance(value, bytes) else value.to_bytes(4, "little")
            list.extend(self.value, np.frombuffer(raw, "<f4").tolist())
        return known


class Int64List(_List):
    """A list of 64-bit integers.

    >>> list(tf.train.Int64List(value=[1, 2]).value)
    [1, 2]
    """

    @staticmethod
    def _checked(value: Any) -> int:
        number = operator.index(value)
        if not -(2**63) <= number < 2**63:
            raise ValueError(f"Value out of range: {number}")
        return number

    def _parts(self) -> list[tuple[int, Any]]:
        return [(1, b"".join(map(varint, self.value)))] if self.value else []

    def _read(self, number: int, value: Any, strict: bool) -> bool:
        known = number == 1 and type(value) in (bytes, int)
        if known:
            list.extend(self.value, varints([value]))
        return known


# -- one of several lists --------------------------------------------------------------------------------------------
_KINDS: dict[str, tuple[int, type[_List]]] = {
    "bytes_list": (1, BytesList),
    "float_list": (2, FloatList),
    "int64_list": (3, Int64List),
}


class Feature(Message):
    """A list of bytes, of floats or of integers.

    >>> tf.train.Feature(int64_list=tf.train.Int64List(value=[1, 2])).WhichOneof("kind")
    'int64_list'

    >>> feature = tf.train.Feature(int64_list=tf.train.Int64List(value=[1]))
    >>> feature.HasField("int64_list"), feature.HasField("float_list")
    (True, False)
    """

    def __init__(self, bytes_list: Any = None, float_list: Any = None, int64_list: Any = None) -> None:
        self._lists: dict[str, _List] = {}
        for name, given in {"bytes_list": bytes_list, "float_list": float_list, "int64_list": int64_list}.items():
            if given is not None:
                self._lists = {name: _given(given, _KINDS[name][1])}

    def WhichOneof(self, oneof_group: str) -> str | None:
        """Return the name of the list that is set."""
        return next((name for name, values in self._lists.items() if values.value or self._lists), None)

    def HasField(self, field_name: str) -> bool:
        """Return whether this list is set."""
        return field_name in self._lists

    def _list(self, name: str) -> Any:
        """A list by its name. A list that is not set replaces the others when it gets its first value."""
        if name not in self._lists:
            made = _KINDS[name][1]()
            made.value = _Joining(made.value._check, lambda: self._join(name, made))
            return made
        return self._lists[name]

    def _join(self, name: str, values: _List) -> None:
        self._lists = {name: values}

    @property
    def bytes_list(self) -> Any:
        return self._list("bytes_list")

    @property
    def float_list(self) -> Any:
        return self._list("float_list")

    @property
    def int64_list(self) -> Any:
        return self._list("int64_list")

    def _parts(self) -> list[tuple[int, Any]]:
        return [(_KINDS[name][0], values.SerializeToString()) for name, values in self._lists.items()]

    def _read(self, number: int, value: Any, strict: bool) -> bool:
        for name, (own, kind) in _KINDS.items():
            if number == own and isinstance(value, bytes):
                if name not in self._lists:
                    self._lists = {name: kind()}
                self._lists[name]._merge(value, strict)
                return True
        return False

    def _lines(self, indent: str) -> list[str]:
        return _block(self._lists.items(), indent)


class _Joining(_Values):
    """Values of a list that is added to its feature with the first value."""

    def __init__(self, check: Callable[[Any], Any], join: Callable[[], None]) -> None:
        super().__init__(check)
        self._join = join

    def append(self, value: Any) -> None:
        super().append(value)
        self._join()

    def extend(self, values: Any) -> None:
        super().extend(values)
        self._join()


def _block(parts: Any, indent: str) -> list[str]:
    lines: list[str] = []
    for name, message in parts:
        lines += [f"{indent}{name} {{", *message._lines(indent + "  "), f"{indent}}}"]
    return lines


# -- names -----------------------------------------------------------------------------------------------------------
class _Map(dict[str, Any]):
    """Messages by name; a missing one is created on access."""

    def __init__(self, kind: type[Message], items: Any = ()) -> None:
        self._kind = kind
        super().__init__({_name(key): _given(value, kind) for key, value in dict(items or ()).items()})

    def __missing__(self, key: str) -> Any:
        made = self[_name(key)] = self._kind()
        return made

    def get_or_create(self, key: str) -> Any:
        return self[key]


def _name(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"bad argument type for built-in operation: names are strings, got {type(key).__name__}")
    return key


class _Named(Message):
    """Messages by name, in field 1."""

    _items: _Map
    _title = ""

    def _parts(self) -> list[tuple[int, Any]]:
        return [(1, [(1, key.encode()), (2, value.SerializeToString())]) for key, value in self._items.items()]

    def _read(self, number: int, value: Any, strict: bool) -> bool:
        if number != 1 or not isinstance(value, bytes):
            return False
        key, made, known = "", self._items._kind(), True
        for place, (field, content) in enumerate(fields(value)):
            if field == 1 and isinstance(content, bytes):
                key = content.decode()
            elif field == 2 and isinstance(content, bytes):
                made._merge(content, strict)
            else:
                known = False
            known = known and (place < 2 or not strict)  # a key and a value
        if known:  # with other fields it is not an entry
            self._items[key] = made
        return known

    def _lines(self, indent: str) -> list[str]:
        lines: list[str] = []
        for key, value in sorted(self._items.items()):
            lines += [f"{indent}{self._title} {{", f'{indent}  key: "{key}"']
            lines += [*_block([("value", value)], indent + "  "), f"{indent}}}"]
        return lines


class Features(_Named):
    """Features by name.

    >>> one = tf.train.Feature(int64_list=tf.train.Int64List(value=[1]))
    >>> tf.train.Features(feature={"x": one}).feature["x"].int64_list.value
    [1]
    """

    _title = "feature"

    def __init__(self, feature: Any = None) -> None:
        self._items = _Map(Feature, feature)

    @property
    def feature(self) -> Any:
        return self._items


class FeatureList(Message):
    """A sequence of features.

    >>> step = tf.train.Feature(int64_list=tf.train.Int64List(value=[7]))
    >>> len(tf.train.FeatureList(feature=[step, step]).feature)
    2
    """

    def __init__(self, feature: Any = ()) -> None:
        self.feature = _Features([_given(value, Feature) for value in feature or ()])

    def _parts(self) -> list[tuple[int, Any]]:
        return [(1, value.SerializeToString()) for value in self.feature]

    def _read(self, number: int, value: Any, strict: bool) -> bool:
        known = number == 1 and isinstance(value, bytes)
        if known:
            self.feature.add()._merge(value, strict)
        return known

    def _lines(self, indent: str) -> list[str]:
        return _block((("feature", value) for value in self.feature), indent)


class _Features(list[Feature]):
    def add(self, **values: Any) -> Feature:
        made = Feature(**values)
        self.append(made)
        return made


class FeatureLists(_Named):
    """Lists of features by name.

    >>> steps = tf.train.FeatureList(feature=[tf.train.Feature(int64_list=tf.train.Int64List(value=[7]))])
    >>> list(tf.train.FeatureLists(feature_list={"x": steps}).feature_list)
    ['x']
    """

    _title = "feature_list"

    def __init__(self, feature_list: Any = None) -> None:
        self._items = _Map(FeatureList, feature_list)

    @property
    def feature_list(self) -> Any:
        return self._items


class _Record(Message):
    """Messages in numbered fields."""

    def _members(self) -> Iterator[tuple[int, str, Message]]:
        for name, number in self._fields.items():
            yield number, name, getattr(self, name)

    def _parts(self) -> list[tuple[int, Any]]:
        parts = [(number, message.SerializeToString()) for number, _, message in self._members()]
        return [(number, data) for number, data in parts if data]

    def _read(self, number: int, value: Any, strict: bool) -> bool:
        for own, _, message in self._members():
            if number == own and isinstance(value, bytes):
                message._merge(value, strict)
        return True  # unknown fields are skipped, as in TensorFlow's parser

    def _lines(self, indent: str) -> list[str]:
        return _block(((name, message) for _, name, message in self._members() if message._parts()), indent)


class Example(_Record):
    """A record: features by name.

    >>> example = tf.train.Example(
    ...     features=tf.train.Features(feature={"x": tf.train.Feature(int64_list=tf.train.Int64List(value=[1, 2]))})
    ... )
    >>> tf.train.Example.FromString(example.SerializeToString()).features.feature["x"].int64_list.value
    [1, 2]
    """

    _fields: ClassVar[dict[str, int]] = {"features": 1}

    def __init__(self, features: Any = None) -> None:
        self.features = Features() if features is None else _given(features, Features)


class SequenceExample(_Record):
    """A record with sequences: features, and lists of features, by name.

    >>> steps = tf.train.FeatureList(feature=[tf.train.Feature(int64_list=tf.train.Int64List(value=[7]))])
    >>> record = tf.train.SequenceExample(feature_lists=tf.train.FeatureLists(feature_list={"x": steps}))
    >>> tf.train.SequenceExample.FromString(record.SerializeToString()) == record
    True
    """

    _fields: ClassVar[dict[str, int]] = {"context": 1, "feature_lists": 2}

    def __init__(self, context: Any = None, feature_lists: Any = None) -> None:
        self.context = Features() if context is None else _given(context, Features)
        self.feature_lists = FeatureLists() if feature_lists is None else _given(feature_lists, FeatureLists)
