"""A small file of a job's own, with a checksum: what a disk has changed is not believed."""

from zlib import crc32


def seal(said: bytes) -> bytes:
    return b"%s\n%08x\n" % (said, crc32(said))


def unseal(raw: bytes) -> bytes:
    """ValueError where it is not what was sealed."""
    said, _, checksum = raw.partition(b"\n")
    if checksum != b"%08x\n" % crc32(said):
        raise ValueError("it is not what was written")
    return said
