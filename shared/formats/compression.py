"""Undoes content encodings, to a bound: a kilobyte may hold a gigabyte of zeros."""

import sys
import zlib
from collections.abc import Callable
from typing import Any

from shared.formats.format import UndecodableError

_ENCODINGS_MAX = 3  # nobody compresses more often; each one costs a pass
_MEMBERS_MAX = 100  # each one costs a copy of all that follow
_ZSTD_WINDOW_BITS_MAX = 23  # 8 MiB: what RFC 9659 allows in HTTP


def decompressed(value: bytes, encodings: str, bytes_max: int) -> bytes:
    """`encodings` as in the header Content-Encoding: the last one was applied last."""
    names = [name.strip().lower() for name in encodings.split(",")]
    names = [name.removeprefix("x-") for name in names if name not in ("", "identity")]
    if len(names) > _ENCODINGS_MAX:
        raise UndecodableError("unknown_encoding", f"it is compressed {len(names)} times")
    for name in reversed(names):
        if name not in _DECOMPRESSORS:
            known = ", ".join(_DECOMPRESSORS)
            raise UndecodableError("unknown_encoding", f"{name[:64]!r} is not one of {known}")
        value = _undo(name, value, bytes_max)
    return value


def _undo(name: str, value: bytes, bytes_max: int) -> bytes:
    """What was compressed; all of several members one after another, which gzip and zstd allow."""
    found, rest = b"", value
    for _ in range(_MEMBERS_MAX):
        if not rest:
            break
        at = len(value) - len(rest)
        decompressor = _DECOMPRESSORS[name](rest)
        try:
            found += decompressor.decompress(rest, bytes_max + 1 - len(found))
        except Exception as error:  # each library has its own; none can be told from the others
            raise UndecodableError(
                f"not_{name}", f"in what begins at byte {at}: {error}"
            ) from error
        if len(found) > bytes_max:
            raise UndecodableError("too_large", f"decompressed it has more than {bytes_max} bytes")
        if not decompressor.eof:
            raise UndecodableError(f"not_{name}", f"byte {len(value)}: it ends in the middle")
        rest = decompressor.unused_data
        if rest and name == "deflate":
            at = len(value) - len(rest)
            raise UndecodableError("not_deflate", f"byte {at}: it ends here, and more follows")
    if rest:
        raise UndecodableError(f"not_{name}", f"it has more than {_MEMBERS_MAX} members")
    return found


def _of_gzip(_value: bytes) -> Any:
    return zlib.decompressobj(zlib.MAX_WBITS | 16)


def _of_deflate(value: bytes) -> Any:
    """With zlib's header, as the standard says; or without, as some have always sent it."""
    has_header = value[0] & 15 == 8 and int.from_bytes(value[:2]) % 31 == 0
    return zlib.decompressobj(zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS)


def _of_zstd(_value: bytes) -> Any:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    limit: dict[int, int] = {zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_BITS_MAX}
    return zstd.ZstdDecompressor(options=limit)


_DECOMPRESSORS: dict[str, Callable[[bytes], Any]] = {
    "gzip": _of_gzip,
    "deflate": _of_deflate,
    "zstd": _of_zstd,
}
