import gzip
import sys
import zlib

import pytest

from shared.formats import UndecodableError
from shared.formats.compression import decompressed

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

TEXT = b'{"value": 21.5}' * 100
BARE = zlib.compressobj(wbits=-15)
BARE_DEFLATE = BARE.compress(TEXT) + BARE.flush()
MOST = 10_000


@pytest.mark.parametrize(
    ("encodings", "value"),
    [
        ("gzip", gzip.compress(TEXT)),
        ("x-gzip", gzip.compress(TEXT)),
        ("GZIP", gzip.compress(TEXT)),
        ("gzip", gzip.compress(TEXT[:700]) + gzip.compress(TEXT[700:])),
        ("deflate", zlib.compress(TEXT)),
        ("deflate", BARE_DEFLATE),
        ("zstd", zstd.compress(TEXT)),
        ("zstd", zstd.compress(TEXT[:700]) + zstd.compress(TEXT[700:])),
        ("identity", TEXT),
        ("", TEXT),
        ("gzip, zstd", zstd.compress(gzip.compress(TEXT))),
        ("deflate,identity , gzip", gzip.compress(zlib.compress(TEXT))),
    ],
)
def test_what_was_compressed_comes_out_as_it_was(encodings: str, value: bytes) -> None:
    assert decompressed(value, encodings, MOST) == TEXT


@pytest.mark.parametrize(
    ("encodings", "value", "reason"),
    [
        ("gzip", TEXT, "not_gzip: in what begins at byte 0: "),
        ("gzip", gzip.compress(TEXT)[:-1], "not_gzip: byte {}: it ends in the middle"),
        ("gzip", gzip.compress(TEXT) + b"and more", "not_gzip: in what begins at byte"),
        ("deflate", zlib.compress(TEXT)[:-1], "not_deflate: byte {}: it ends in the middle"),
        ("deflate", zlib.compress(TEXT) + b"more", "not_deflate: byte"),
        ("zstd", TEXT, "not_zstd: in what begins at byte 0: "),
        ("zstd", zstd.compress(TEXT)[:-1], "not_zstd: byte {}: it ends in the middle"),
        ("br", TEXT, "unknown_encoding: 'br' is not one of gzip, deflate, zstd"),
        ("gzip,gzip,gzip,gzip", TEXT, "unknown_encoding: it is compressed 4 times"),
    ],
)
def test_what_is_not_is_refused_with_the_place(encodings: str, value: bytes, reason: str) -> None:
    with pytest.raises(UndecodableError) as refused:
        decompressed(value, encodings, MOST)
    assert str(refused.value).startswith(reason.format(len(value)))


ZEROS = b"0" * 50_000_000


@pytest.mark.parametrize(
    ("encodings", "bomb"),
    [
        ("gzip", gzip.compress(ZEROS)),
        ("deflate", zlib.compress(ZEROS)),
        ("zstd", zstd.compress(ZEROS)),
        ("gzip, gzip", gzip.compress(gzip.compress(ZEROS))),
        ("gzip", gzip.compress(b"0" * 9_000) * 2),
    ],
)
def test_a_bomb_is_no_larger_than_its_bound(encodings: str, bomb: bytes) -> None:
    with pytest.raises(UndecodableError, match=f"too_large.*more than {MOST * 10}|too_large"):
        decompressed(bomb, encodings, MOST)


def test_exactly_the_bound_is_taken() -> None:
    assert len(decompressed(gzip.compress(b"0" * MOST), "gzip", MOST)) == MOST
    with pytest.raises(UndecodableError, match="too_large"):
        decompressed(gzip.compress(b"0" * (MOST + 1)), "gzip", MOST)


def test_a_window_that_takes_all_memory_is_refused() -> None:
    options = {zstd.CompressionParameter.window_log: 27}
    value = zstd.ZstdCompressor(options=options)
    wide = value.compress(b"a" * 100) + value.flush()
    with pytest.raises(UndecodableError, match="not_zstd"):
        decompressed(wide, "zstd", MOST)


@pytest.mark.parametrize("name", ["gzip", "zstd"])
def test_members_without_end_are_refused(name: str) -> None:
    """Each one costs a copy of what follows, and an empty one costs nothing to send."""
    empty = gzip.compress(b"") if name == "gzip" else zstd.compress(b"")
    with pytest.raises(UndecodableError, match="more than 100 members"):
        decompressed(empty * 50_000, name, MOST)
    assert decompressed(empty * 100, name, MOST) == b""
