"""Which part hands records to which, told from the flow's table. Pure."""

from typing import NamedTuple

from desk.parts import parts
from shared.flow_table import Flow


class Arrow(NamedTuple):
    """Topics that the same parts write, and the same read."""

    topics: tuple[str, ...]
    written_by: tuple[str, ...]
    read_by: tuple[str, ...]


def arrows(flow: Flow) -> list[Arrow]:
    """From the first part that writes on. What a part writes for itself alone is none."""
    known = parts(flow)
    names = [part.name for part in known]
    grouped: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for topic in (one.name for one in flow.topics()):
        written_by = tuple(part.name for part in known if topic in part.writes)
        read_by = tuple(part.name for part in known if topic in part.reads)
        if written_by and read_by and written_by != read_by:
            grouped.setdefault((written_by, read_by), []).append(topic)
    found = [Arrow(tuple(topics), *ends) for ends, topics in grouped.items()]
    return sorted(
        found, key=lambda one: (names.index(one.written_by[0]), names.index(one.read_by[0]))
    )
