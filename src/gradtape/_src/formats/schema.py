"""Messages with declared fields, which behave like TensorFlow's protocol buffers."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from gradtape._src.formats.example import Message, text_of
from gradtape._src.formats.protobuf import Fixed32, Fixed64, varint
from gradtape._src.formats.tensor_proto import varints

__all__ = ["Field", "Record", "mapping", "repeated"]

_DEFAULTS: dict[str, Any] = {"int": 0, "bool": False, "float": 0.0, "double": 0.0, "string": "", "bytes": b""}


@dataclass(frozen=True)
class Field:
    """A field of a message.

    number  its number on the wire
    kind    "int", "bool", "float", "double", "string", "bytes", or a class of messages
    many    "" for one value, "list", or "map" from strings
    oneof   the group of which a message has one field at most; such a field is written even if it is zero
    """

    number: int
    kind: Any
    many: str = ""
    oneof: str = ""

    def checked(self, value: Any) -> Any:
        """A value of this kind; TypeError for others."""
        if self.kind == "int":
            return operator.index(value)
        if self.kind == "bool":
            return bool(operator.index(value))
        if self.kind in ("float", "double"):
            if isinstance(value, (str, bytes)):
                raise TypeError(f"must be real number, not {type(value).__name__}")
            return struct.unpack("<f", struct.pack("<f", value))[0] if self.kind == "float" else float(value)
        if self.kind == "string":
            return value.decode() if isinstance(value, bytes) else _text(value)
        if self.kind == "bytes":
            return value.encode() if isinstance(value, str) else bytes(memoryview(value))
        if isinstance(value, dict):
            return self.kind(**value)
        if not isinstance(value, self.kind):
            raise TypeError(f"expected a {self.kind.__name__}, got {type(value).__name__}")
        return value

    def on_the_wire(self, value: Any) -> Any:
        """A value in the form that `protobuf.encode` takes."""
        if self.kind == "float":
            return Fixed32.from_bytes(struct.pack("<f", value), "little")
        if self.kind == "double":
            return Fixed64.from_bytes(struct.pack("<d", value), "little")
        if self.kind in ("int", "bool"):
            return int(value)
        if self.kind == "string":
            return value.encode()
        return value if self.kind == "bytes" else value.SerializeToString()

    def read(self, value: Any) -> list[Any]:
        """The values of a field on the wire: several if numbers are packed. ValueError if the kind is wrong."""
        if self.kind in ("int", "bool"):
            if isinstance(value, (Fixed32, Fixed64)):
                raise ValueError(f"Field {self.number} should be a varint.")
            return [bool(n) if self.kind == "bool" else n for n in varints([value])]
        if self.kind in ("float", "double"):
            size, code = (4, "f") if self.kind == "float" else (8, "d")
            if not isinstance(value, bytes):
                value = value.to_bytes(size, "little")
            if len(value) % size:
                raise ValueError(f"Field {self.number} should have numbers of {size} bytes.")
            return list(struct.unpack(f"<{len(value) // size}{code}", value))
        if not isinstance(value, bytes):
            raise ValueError(f"Field {self.number} should be bytes.")
        if self.kind == "string":
            return [value.decode("utf-8", "replace")]
        return [value if self.kind == "bytes" else self.kind.FromString(value)]

    def default(self) -> Any:
        if self.many == "list":
            return _Many(self)
        if self.many == "map":
            return _Map(self)
        return _DEFAULTS[self.kind] if isinstance(self.kind, str) else self.kind()


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"bad argument type for built-in operation: expected str, got {type(value).__name__}")
    return value


def repeated(number: int, kind: Any) -> Field:
    """A repeated field."""
    return Field(number, kind, "list")


def mapping(number: int, kind: Any) -> Field:
    """A field that maps strings to values."""
    return Field(number, kind, "map")


class _Many(list[Any]):
    """The values of a repeated field."""

    def __init__(self, field: Field, values: Any = ()) -> None:
        self._field = field
        super().__init__(map(field.checked, values))

    def append(self, value: Any) -> None:
        super().append(self._field.checked(value))

    def extend(self, values: Any) -> None:
        super().extend(map(self._field.checked, values))

    def add(self, **values: Any) -> Any:
        """Append a new message and return it."""
        made = self._field.kind(**values)
        super().append(made)
        return made


class _Map(dict[str, Any]):
    """The values of a map; reading a missing message adds it, as in protocol buffers."""

    def __init__(self, field: Field, values: Any = ()) -> None:
        self._field = field
        super().__init__({key: field.checked(value) for key, value in dict(values).items()})

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(_text(key), self._field.checked(value))

    def __missing__(self, key: str) -> Any:
        if isinstance(self._field.kind, str):
            raise KeyError(key)
        made = self._field.kind()
        super().__setitem__(_text(key), made)
        return made


class Record(Message):
    """A message with the fields of its class' table `schema`.

    >>> class Point(Record):
    ...     schema = {"x": Field(1, "int"), "name": Field(2, "string")}
    >>> point = Point(x=3, name="a")
    >>> Point.FromString(point.SerializeToString()).x
    3
    >>> point.SerializeToString().hex(" ")
    '08 03 12 01 61'
    """

    schema: ClassVar[dict[str, Field]] = {}
    _values: dict[str, Any]

    def __init_subclass__(cls) -> None:
        cls._names = frozenset(cls.schema)

    def __init__(self, **values: Any) -> None:
        object.__setattr__(self, "_values", {})
        for name, value in values.items():
            if value is not None:
                self._set(name, value)

    def _set(self, name: str, value: Any) -> None:
        field = self.schema[name]
        if field.many:
            self._values[name] = _Many(field, value) if field.many == "list" else _Map(field, value)
            return
        checked = field.checked(value)
        if field.oneof:
            for other, known in self.schema.items():
                if known.oneof == field.oneof:
                    self._values.pop(other, None)
        self._values[name] = checked

    def __getattr__(self, name: str) -> Any:
        field = self.schema.get(name)
        if field is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if name in self._values:
            return self._values[name]
        value = field.default()
        if field.many or isinstance(value, Message):
            self._values[name] = value
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        field = self.schema.get(name)
        if field is None:
            raise AttributeError(f'Protocol message {type(self).__name__} has no "{name}" field.')
        if field.many or not isinstance(field.kind, str):
            raise AttributeError(
                f'Assignment not allowed to message, map, or repeated field "{name}" in protocol message object. '
                "Modify it in place, or use CopyFrom, append or extend."
            )
        self._set(name, value)

    def _is_written(self, name: str, value: Any) -> bool:
        field = self.schema[name]
        if field.many:
            return bool(value)
        if isinstance(value, Record):
            return value.ByteSize() > 0 or bool(field.oneof)
        return bool(field.oneof) or value != field.default()

    def _written(self) -> Iterator[tuple[str, Field, Any]]:
        for name, field in self.schema.items():
            if name in self._values and self._is_written(name, self._values[name]):
                yield name, field, self._values[name]

    def _parts(self) -> list[tuple[int, Any]]:
        parts: list[tuple[int, Any]] = []
        for _, field, value in self._written():
            if field.many == "map":
                parts += [(field.number, [(1, key.encode()), (2, field.on_the_wire(v))]) for key, v in value.items()]
            elif field.many and field.kind in ("int", "bool", "float", "double"):
                parts.append((field.number, _packed(field, value)))
            else:
                parts += [(field.number, field.on_the_wire(v)) for v in (value if field.many else [value])]
        return parts

    def _read(self, number: int, value: Any, strict: bool) -> bool:
        for name, field in self.schema.items():
            if field.number != number:
                continue
            if field.many == "map":
                entry = _entry_of(field).FromString(value)
                self.__getattr__(name)[entry.key] = entry.value
            elif field.many:
                list.extend(self.__getattr__(name), field.read(value))
            else:
                self._set(name, field.read(value)[-1])
            return True
        return True  # unknown fields of a newer version are skipped

    def HasField(self, name: str) -> bool:
        """Return whether a message, or a field of a oneof, is set."""
        field = self.schema.get(name)
        if field is None or field.many:
            raise ValueError(f'Protocol message {type(self).__name__} has no singular "{name}" field.')
        return name in self._values and self._is_written(name, self._values[name])

    def WhichOneof(self, group: str) -> str | None:
        """Return the field of a oneof that is set."""
        return next((name for name in self._values if self.schema[name].oneof == group), None)

    def ClearField(self, name: str) -> None:
        """Remove a field."""
        if name not in self.schema:
            raise ValueError(f'Protocol message {type(self).__name__} has no "{name}" field.')
        self._values.pop(name, None)

    def Clear(self) -> None:
        """Remove all fields."""
        self._values.clear()

    def _lines(self, indent: str) -> list[str]:
        lines: list[str] = []
        for name, field, value in self._written():
            if field.many == "map":
                for key, item in value.items():
                    inside = [f'{indent}  key: "{key}"', *_shown("value", field, item, indent + "  ")]
                    lines += [f"{indent}{name} {{", *inside, f"{indent}}}"]
                continue
            for item in value if field.many else [value]:
                lines += _shown(name, field, item, indent)
        return lines


def _shown(name: str, field: Field, item: Any, indent: str) -> list[str]:
    if isinstance(item, Message):
        return [f"{indent}{name} {{", *item._lines(indent + "  "), f"{indent}}}"]
    if isinstance(item, bool):
        return [f"{indent}{name}: {str(item).lower()}"]
    return [f"{indent}{name}: {text_of(item.encode() if isinstance(item, str) else item)}"]


def _packed(field: Field, values: list[Any]) -> bytes:
    if field.kind in ("int", "bool"):
        return b"".join(varint(int(value)) for value in values)
    return struct.pack(f"<{len(values)}{'f' if field.kind == 'float' else 'd'}", *values)


_entries: dict[Field, Callable[..., Any]] = {}


def _entry_of(field: Field) -> Any:
    """The message for an entry of a map on the wire."""
    if field not in _entries:
        schema = {"key": Field(1, "string"), "value": Field(2, field.kind)}
        _entries[field] = type("Entry", (Record,), {"schema": schema})
    return _entries[field]
