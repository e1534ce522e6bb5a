"""Compact formats that need no schema: CBOR and MessagePack."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from typing import Any, ClassVar

from shared.formats.format import UndecodableError

# CBOR's tags for values that stand at several places: a few bytes could become gigabytes, or a
# circle; and for regular expressions, which can be made to run for hours
_REFUSED_TAGS = {25: "string reference", 28: "shared value", 29: "shared value", 35: "regex",
                 256: "string references"}  # fmt: skip
_BIG_BYTES_MAX = 64
_NESTED_MAX = 250  # orjson writes no deeper


@dataclass(frozen=True)
class Cbor:
    """One CBOR data item (RFC 8949)."""

    media_types: tuple[str, ...] = ("application/cbor",)
    foreign_kinds: ClassVar[frozenset[str]] = frozenset(
        ("bytes", "date", "datetime", "decimal", "frozenset", "set", "uuid")
    )
    is_text: ClassVar[bool] = False

    def decode(self, value: bytes) -> Any:
        import cbor2

        stream = BytesIO(value)
        decoder = cbor2.CBORDecoder(
            stream,
            tag_hook=_unknown_tag,
            semantic_decoders=_tags(),
            max_depth=_NESTED_MAX,
            allow_duplicate_keys=False,
            strict_hashable_types=True,
        )
        try:
            found = decoder.decode()
        except Exception as error:  # a tag's content may fail in any way
            cause = error.__cause__
            why = f"{error} ({cause})" if cause else str(error)
            raise UndecodableError("not_cbor", f"byte {stream.tell()}: {why}") from error
        _refuse_rest("not_cbor", stream.tell(), value)
        return found


@cache
def _tags() -> Mapping[int, Callable[..., Any]]:
    def refuse(tag: int, what: str) -> Callable[..., Any]:
        def refusing(*_: object) -> Any:
            raise ValueError(f"tag {tag}, a {what}, is not taken here")

        return refusing

    refused = {tag: refuse(tag, what) for tag, what in _REFUSED_TAGS.items()}
    return {**refused, 2: lambda own, _: _big(own), 3: lambda own, _: -1 - _big(own)}


def _big(own: Any) -> int:
    """What is made of a number of a million digits, a fraction for one, takes minutes."""
    if not isinstance(own, bytes) or len(own) > _BIG_BYTES_MAX:
        raise ValueError(f"a big number has at most {_BIG_BYTES_MAX} bytes")
    return int.from_bytes(own)


def _unknown_tag(tag: Any, _is_in_a_key: bool) -> Any:
    raise ValueError(f"tag {tag.tag} is not known here")


@dataclass(frozen=True)
class MessagePack:
    """One MessagePack object. Its timestamps become datetimes; other extensions are refused."""

    media_types: tuple[str, ...] = ("application/msgpack", "application/vnd.msgpack")
    foreign_kinds: ClassVar[frozenset[str]] = frozenset(("bytes", "datetime"))
    is_text: ClassVar[bool] = False

    def decode(self, value: bytes) -> Any:
        import msgpack

        unpacker = msgpack.Unpacker(
            max_buffer_size=len(value), timestamp=3, ext_hook=_unknown_extension
        )
        unpacker.feed(value)
        try:
            found = unpacker.unpack()
        except UndecodableError:
            raise
        except Exception as error:  # what a key or a text may be fails in several ways
            why = str(error) or type(error).__name__
            raise UndecodableError("not_msgpack", f"byte {unpacker.tell()}: {why}") from error
        _refuse_rest("not_msgpack", unpacker.tell(), value)
        return found


def _unknown_extension(code: int, _data: bytes) -> Any:
    raise UndecodableError("not_msgpack", f"extension type {code} is not known here")


def _refuse_rest(code: str, read_bytes: int, value: bytes) -> None:
    if read_bytes < len(value):
        raise UndecodableError(
            code, f"byte {read_bytes}: the value ends here, {len(value) - read_bytes} bytes follow"
        )
