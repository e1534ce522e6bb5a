"""The ledger: what became of each payload, by its place in the ingest log. Pure.

A place has one verdict, and of several that are told of it the highest stands. So whatever is told
again, in whatever order and cut into whatever batches, counts nothing twice.
"""

from collections import defaultdict
from collections.abc import Iterable

import orjson

from shared.envelope import Position


def repeats_value(origins: Iterable[Position]) -> bytes:
    """What fold says of payloads that it knew: offsets by ingest topic/partition."""
    offsets = defaultdict(list)
    for topic, partition, offset in origins:
        offsets[f"{topic}/{partition}"].append(offset)
    return orjson.dumps(offsets)
