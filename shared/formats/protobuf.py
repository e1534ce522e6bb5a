"""Protocol Buffers, read by a descriptor."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

from shared.formats.format import UndecodableError

_NUMBER_BYTES_MAX = 10
_MESSAGES_MAX = 100_000
_VARINT, _EIGHT, _TEXT, _FOUR = 0, 1, 2, 5  # kinds of fields on the wire


@dataclass(frozen=True)
class Protobuf:
    """One message, as a dict with the fields' own names. An unset field has its default, as in the
    message's language bindings; one that can be absent, and is, is not there. An enum is its name,
    and Google's well-known types (Timestamp, Struct, ...) are what their JSON form is.

    `message` is a class that protoc made, or the full name of a message in `descriptors`: a file
    that `protoc --include_imports --descriptor_set_out` wrote."""

    message: Any
    descriptors: Path | None = None
    media_types: tuple[str, ...] = ("application/protobuf", "application/x-protobuf")
    foreign_kinds: ClassVar[frozenset[str]] = frozenset(("bytes",))
    is_text: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _ = self._class  # says now what is wrong with it

    @cached_property
    def _class(self) -> Any:
        if self.descriptors is None:
            if not hasattr(self.message, "DESCRIPTOR"):
                raise ValueError(f"{self.message!r} is no message class; or name its descriptors")
            return self.message
        from google.protobuf import descriptor_pb2, message_factory

        files = descriptor_pb2.FileDescriptorSet.FromString(self.descriptors.read_bytes())
        found = message_factory.GetMessages(files.file)
        if self.message not in found:
            raise ValueError(f"{self.descriptors.name} has no message {self.message!r}")
        return found[self.message]

    def decode(self, value: bytes) -> dict[str, Any]:
        from google.protobuf.message import DecodeError

        try:
            message = self._class.FromString(value)
        except DecodeError as error:
            raise UndecodableError("not_protobuf", f"{_place(value)}{error}") from error
        try:
            return _fields(message, count(1))
        except UndecodableError:
            raise
        except Exception as error:  # a well-known type may have a value that has no JSON form
            why = f"{type(error).__name__}: {error}"
            raise UndecodableError("not_protobuf", f"in a field inside: {why}") from error


def _fields(message: Any, messages: Iterator[int]) -> dict[str, Any]:
    if next(messages) > _MESSAGES_MAX:  # two bytes may be a message of many defaults
        raise UndecodableError("not_protobuf", f"it has more than {_MESSAGES_MAX} messages")
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if field.has_presence and not message.HasField(field.name):
            continue
        value = getattr(message, field.name)
        if field.message_type and field.message_type.GetOptions().map_entry:
            of = field.message_type.fields_by_name["value"]
            found[field.name] = {_key(key): _value(of, value[key], messages) for key in value}
        elif _is_repeated(field):
            found[field.name] = [_value(field, item, messages) for item in value]
        else:
            found[field.name] = _value(field, value, messages)
    return found


def _is_repeated(field: Any) -> bool:
    repeated = getattr(field, "is_repeated", None)  # before protobuf 6 it was a label
    return field.label == field.LABEL_REPEATED if repeated is None else bool(repeated)


def _key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _value(field: Any, value: Any, messages: Iterator[int]) -> Any:
    if field.enum_type:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known else value
    if not field.message_type:
        return value
    if field.message_type.full_name.startswith("google.protobuf."):
        from google.protobuf import json_format

        return json_format.MessageToDict(value, preserving_proto_field_name=True)
    return _fields(value, messages)


def _place(value: bytes) -> str:
    """The library does not say where. What can be seen without the descriptor is where the fields
    of the whole message end."""
    at = 0
    for end in _ends(value):
        if end is None:
            return f"byte {at}: no field, or none that ends: "
        at = end
    return "in a field inside: "


def _ends(value: bytes) -> Iterable[int | None]:
    """Where the fields end, one after another; None where one cannot be cut out."""
    at = 0
    while at < len(value):
        tag, at = _number(value, at)
        if tag is None or tag >> 3 == 0:
            yield None
            return
        kind = tag & 7
        if kind in (_VARINT, _TEXT):
            number, at = _number(value, at)
            at = len(value) + 1 if number is None else at + (number if kind == _TEXT else 0)
        elif kind in (_EIGHT, _FOUR):
            at += 8 if kind == _EIGHT else 4
        else:
            yield None
            return
        yield at if at <= len(value) else None


def _number(value: bytes, at: int) -> tuple[int | None, int]:
    number = 0
    for place, byte in enumerate(value[at : at + _NUMBER_BYTES_MAX]):
        number |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return number, at + place + 1
    return None, at
