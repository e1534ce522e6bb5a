"""The ledger: what became of each payload, by its place in the ingest log. Pure.

A place has one verdict, and of several that are told of it the highest stands. So whatever is told
again, in whatever order and cut into whatever batches, counts nothing twice.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple

import orjson

from shared.events.envelope import Position
from shared.flow_table import Flow
from shared.topic_names import dropped_topic

PAGE_PLACES = 8192
_GAP_MAX = 64  # places of which nothing is told within one entry


class Verdict(IntEnum):
    IN_FLIGHT = 0
    MISSING = 1  # all that could tell of it has been heard, and nobody did
    WAITING = 2
    PARKED = 3
    REPEAT = 4  # its event has a row already, which came from another place
    LATE_REPEAT = 5  # and fold took it for new
    KNOWN_REPEAT = 6  # fold knew its id
    REUSED_KEY = 7  # as a repeat, but of other bytes: it is parked
    DISCARDED = 8
    STORED = 9
    KNOWN_REUSED_KEY = 10  # of other bytes, and fold knew its id; below DISCARDED
    DROPPED = 11  # on purpose, by its domain; below all that tell of events
    ROW_GONE = 255  # told, never kept: its row was removed, so nothing is known of it


Counts = dict[str, int]
# minute -> the first place of that minute or a later one; None: nothing has come since
FirstAt = Callable[[int], int | None]

TERM_OF = {
    Verdict.MISSING: "difference",
    Verdict.WAITING: "waiting",
    Verdict.PARKED: "parked",
    Verdict.REPEAT: "duplicate",
    Verdict.LATE_REPEAT: "late_duplicate",
    Verdict.KNOWN_REPEAT: "duplicate",
    Verdict.REUSED_KEY: "parked",
    Verdict.KNOWN_REUSED_KEY: "parked",
    Verdict.DISCARDED: "discarded",
    Verdict.STORED: "stored",
    Verdict.DROPPED: "dropped",
}
ENDS = ("stored", "duplicate", "late_duplicate", "dropped", "waiting", "parked", "discarded")
COUNTED = (*ENDS, "difference")
TERMS = ("received", *ENDS, "in_flight", "difference")

_ROW_GONE = int(Verdict.ROW_GONE)  # looked up for each payload
_IS_MISSING = bytes([Verdict.MISSING, *range(1, 256)])
_IS_LATE = bytes(Verdict.LATE_REPEAT if n == Verdict.REPEAT else n for n in range(256))


class Entry(NamedTuple):
    """What is told of places next to each other: a byte for each, 0 where nothing is."""

    topic: str
    partition: int
    first: int
    verdicts: bytes


class Reached(NamedTuple):
    """Where a partition's ledger begins, and up to where all that could tell has been heard."""

    begins: int = 0
    by_all: int = 0
    by_fold: int = 0


class Mark(NamedTuple):
    """The first place of a minute (since 1970) in a partition."""

    minute: int
    first: int


def entries(told: Iterable[tuple[Position, int]]) -> Iterator[Entry]:
    """Each within one page."""
    by_partition: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)
    for (topic, partition, offset), verdict in told:
        verdicts = by_partition[topic, partition]
        known = verdicts.get(offset)
        if known is None or verdict == _ROW_GONE:
            verdicts[offset] = verdict
        elif known != _ROW_GONE:
            verdicts[offset] = _higher(known, verdict)
    for (topic, partition), verdicts in by_partition.items():
        for places in _runs(sorted(verdicts)):
            run = bytearray(places[-1] - places[0] + 1)
            for place in places:
                run[place - places[0]] = verdicts[place]
            yield Entry(topic, partition, places[0], bytes(run))


def _runs(places: Sequence[int]) -> Iterator[Sequence[int]]:
    begin = 0
    for at in range(1, len(places)):
        here, before = places[at], places[at - 1]
        if here - before > _GAP_MAX or here // PAGE_PLACES != before // PAGE_PLACES:
            yield places[begin:at]
            begin = at
    if places:
        yield places[begin:]


def post(page: bytes, number: int, told: Iterable[Entry], reached: Reached) -> bytes:
    """The page with what is told of its places, and with what follows from nothing being told."""
    now, start = bytearray(page), number * PAGE_PLACES
    for entry in told:
        begin = entry.first - start
        end = begin + len(entry.verdicts)
        now[begin:end] = bytes(map(_higher, now[begin:end], entry.verdicts))
    begins, by_all, by_fold = (min(max(0, place - start), PAGE_PLACES) for place in reached)
    now[:begins] = bytes(begins)
    now[begins:by_all] = now[begins:by_all].translate(_IS_MISSING)
    now[begins:by_fold] = now[begins:by_fold].translate(_IS_LATE)
    return bytes(now)


def _higher(known: int, told: int) -> int:
    """The verdict that counts, of two: about a key that was used for other bytes persist tells the
    one thing and fold the other, in any order."""
    if told == _ROW_GONE:
        return Verdict.IN_FLIGHT
    if not known:  # as good as always
        return told
    low, high = sorted((known, told))
    if high == Verdict.DROPPED:
        return low if low > Verdict.PARKED else high
    if (low, high) == (Verdict.KNOWN_REPEAT, Verdict.REUSED_KEY):
        return Verdict.KNOWN_REUSED_KEY
    return low if high == Verdict.KNOWN_REUSED_KEY and low >= Verdict.DISCARDED else high


def changed_places(before: bytes, after: bytes, number: int) -> range:
    """From the first to the last of them."""
    if before == after:
        return range(0)
    changed = [at for at, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    start = number * PAGE_PLACES
    return range(start + changed[0], start + changed[-1] + 1)


def changes(
    before: bytes, after: bytes, number: int, marks: Sequence[Mark]
) -> Iterator[tuple[Mark, Counts]]:
    """By how much the counts of each minute grow."""
    changed, start = changed_places(before, after, number), number * PAGE_PLACES
    for mark, begin, end in spans(marks, changed.start, changed.stop):
        old, new = (count(page[begin - start : end - start]) for page in (before, after))
        yield mark, {term: new[term] - old[term] for term in COUNTED}


def count(verdicts: bytes) -> Counts:
    counts: Counts = dict.fromkeys(COUNTED, 0)
    for verdict, term in TERM_OF.items():
        counts[term] += verdicts.count(verdict)
    return counts


def spans(marks: Sequence[Mark], first: int, end: int) -> Iterator[tuple[Mark, int, int]]:
    """The places from `first` to `end` by their minute; `marks` in order, the first not behind
    `first`."""
    for mark, following in pairwise([*marks, Mark(0, end)]):
        begin, stop = max(first, mark.first), min(end, following.first)
        if begin < stop:
            yield mark, begin, stop


def marks_after(last: Mark, first_at: FirstAt) -> Iterator[Mark]:
    """The minutes after this one in which anything has come."""
    while (place := first_at(last.minute + 1)) is not None:
        last = mark_of(place, last.minute + 1, first_at)
        yield last


def mark_of(place: int, not_before: int, first_at: FirstAt) -> Mark:
    """The minute that this place belongs to: the last one whose first place is not behind it."""
    minute, step = not_before, 1
    while _has_begun_by(place, minute + step, first_at):
        minute, step = minute + step, step * 2
    while step > 1:
        step //= 2
        if _has_begun_by(place, minute + step, first_at):
            minute += step
    return Mark(minute, place)


def _has_begun_by(place: int, minute: int, first_at: FirstAt) -> bool:
    first = first_at(minute)
    return first is not None and first <= place


def repeats_value(repeats: Iterable[tuple[Position, str | None]]) -> bytes:
    """What fold says of payloads that it knew: offsets by ingest topic/partition; of one that
    became several events, which of them."""
    offsets: dict[str, list[int]] = defaultdict(list)
    several = []
    for place, event_id in repeats:
        if event_id is None:
            offsets[f"{place.topic}/{place.partition}"].append(place.offset)
        else:
            several.append((str(place), event_id))
    return orjson.dumps({**offsets, **({"several": several} if several else {})})


def known_repeats(value: bytes) -> Iterator[tuple[Position, str | None]]:
    """Reads it; ValueError where it is none."""
    try:
        known = orjson.loads(value)
        for place, event_id in known.pop("several", ()):
            yield Position.parse(place), event_id
        for log, offsets in known.items():
            topic, partition = log.rsplit("/", 1)
            yield from ((Position(topic, int(partition), int(offset)), None) for offset in offsets)
    except (AttributeError, TypeError) as error:
        raise ValueError(f"these are no repeats: {error}") from error


def balance(received: int, counts: Mapping[str, int]) -> Counts:
    """All terms. What is in flight is what nothing is known of; more ends than payloads are a
    difference, too."""
    ends = {term: counts[term] for term in ENDS}
    in_flight = max(0, received - sum(ends.values()) - counts["difference"])
    difference = received - sum(ends.values()) - in_flight
    return {"received": received, **ends, "in_flight": in_flight, "difference": difference}


def lanes_of_payloads(flow: Flow) -> dict[str, Verdict]:
    """The lanes that tell of payloads, and what they tell of them."""
    jobs = [job for job in flow.jobs() if {*flow.ingest_topics}.intersection(job.ignited_by)]
    return {
        **{lane: Verdict.WAITING for job in jobs for lane in job.waits_in},
        **{lane: Verdict.PARKED for job in jobs for lane in job.parks_in},
        **({dropped_topic("enrich"): Verdict.DROPPED} if flow.drops else {}),
    }


def lanes_of_events(flow: Flow) -> dict[str, str]:
    """Where events are parked that payloads have become, and by which job."""
    jobs = [flow.job("fold"), flow.job("persist")] if flow.entities else [flow.job("persist")]
    return {lane: job.name for job in jobs for lane in job.parks_in}
