"""What must hold between what devices were told and what has come out. Pure, and written from the
documents: no rule of it is the product's own code.

Each oracle gives the violations that it finds; none is well.
"""

import json
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from math import isclose
from typing import Any, NamedTuple

from tests.faults.client_answers import Told
from tests.faults.whole.books import Books, Place, Record, State, clocks_of, entity_of, state_of
from tests.faults.whole.fleet import LATE_DEVICES
from tests.faults.whole.sample import SENT_TYPES, TERMS, WAITS
from tests.faults.whole.sends import EVENT, WAITING, Answer, Message
from tests.oracle import Clocks, expected_areas, expected_states

_SHA = "ce_payloadsha256"
_NOBODY: State = {
    **dict.fromkeys(("devices", "alarms_now", "readings"), 0),
    **dict.fromkeys(("value", "value_at_ms", "value_of", "highest")),
}
_FAHRENHEIT_EVERY = 10  # so many of the sample's devices are of the other model
_UNKNOWN, _BEHIND, _FULL = "missing_device", "behind", "line_full"
_LINE_MAX = 1000  # HEADRACE_WAITING_PER_ENTITY_MAX, as docs/configuration.md has it
# docs/operations.md: fold remembers the last 64 ids of each event type of an entity
_REMEMBERED = 64


class Run(NamedTuple):
    messages: Sequence[Message]
    answers: Mapping[int, Sequence[Answer]]
    books: Books
    spool_flips: int = 0  # bytes of the gateway's spool that were flipped while it had payloads
    gateways: int = 1


class Copy(NamedTuple):
    """A message that stands in its ingest topic."""

    message: Message
    record: Record


def violations(run: Run) -> list[str]:
    return [violation for oracle in ORACLES for violation in oracle(run)]


def lost(run: Run) -> Iterator[str]:
    """What was accepted stands in its topic, byte for byte, under its device. Of a spool whose disk
    flipped a byte one payload may be missing, which then lies set aside, and /health says so."""
    there = {copy.message.number for copy in _copies(run)}
    books, flips = run.books, run.spool_flips
    for message in run.messages:
        accepting = [a for a in run.answers[message.number] if a.accepts]
        if message.number in there or not accepting:
            continue
        only_spooled = all(answer.told == Told.SPOOLED for answer in accepting)
        excused = flips > 0 and only_spooled and books.tells_of_set_aside
        if not (excused and _is_aside(run, message)):
            yield f"lost: {message}"
        flips -= 1


def _is_aside(run: Run, message: Message) -> bool:
    """Set aside out of the spool: where a device has sent it again, it stands later than it should.
    One flipped byte leaves the id or the body whole."""
    ids = {a.id for a in run.answers[message.number] if a.told == Told.SPOOLED and a.id}
    return any(
        message.body in raw or any(each.encode() in raw for each in ids)
        for raw in run.books.set_aside
    )


def phantoms(run: Run) -> Iterator[str]:
    """Nothing stands there that nobody sent, or that was refused for certain at each try."""
    by_body = _by_body(run)
    for record in run.books.ingest:
        message = by_body.get(_body_of(record))
        if message is None:
            yield f"never sent: {record}"
        elif {answer.told for answer in run.answers[message.number]} == {Told.DEFINITE}:
            yield f"refused as definite, and written: {message} at {record.place}"


def misplaced(run: Run) -> Iterator[str]:
    """At the place of a receipt stands its payload under its id, and no two receipts name one."""
    at = {record.place: record for record in run.books.ingest}
    told: dict[Place, Message] = {}
    for message in run.messages:
        for answer in run.answers[message.number]:
            if answer.place is None:
                continue
            if answer.place in told:
                yield f"one place, two receipts: {message} and {told[answer.place]}"
            told[answer.place] = message
            found = at.get(answer.place)
            if found is None or (found.digest, found.id) != (message.digest, answer.id):
                yield f"not at its place: {message}, {answer}"


def misnamed(run: Run) -> Iterator[str]:
    """A key is one id, for ever and for nobody else; without one, each try has its own."""
    of_id: dict[str, object] = {}
    of_key: dict[object, str] = {}
    told = [
        (answer.id, message, message.known_as or (message.number, number))
        for message in run.messages
        for number, answer in enumerate(run.answers[message.number])
        if answer.id is not None
    ]
    written = [(c.record.id, c.message, c.message.known_as) for c in _copies(run)]
    written = [one for one in written if one[2] is not None]
    for event_id, message, key in [*told, *written]:
        known = message.endpoint, message.device, key
        if of_id.setdefault(event_id, known) != known:
            yield f"one id for two: {event_id} of {message} and {of_id[event_id]}"
        if of_key.setdefault(known, event_id) != event_id:
            yield f"two ids for one: {event_id} and {of_key[known]} of {message}"


def overtaken(run: Run) -> Iterator[str]:
    """The first copy of what a device was told is accepted stands before those of all that it sent
    after that. What it sent in one request stands in the order of its lines. Of several gateways
    each has its own spool: what lay in one may be overtaken by what another one took later."""
    by_device: defaultdict[tuple[str, str], list[_Accepted]] = defaultdict(list)
    firsts: dict[int, Record] = {}
    for copy in _copies(run):
        firsts.setdefault(copy.message.number, copy.record)
    for message in run.messages:
        answers = run.answers[message.number]
        accepting = next((answer for answer in answers if answer.accepts), None)
        if message.number in firsts and accepting is not None and not _is_aside(run, message):
            times = answers[0].sent_at, accepting.sent_at, accepting.answered_at
            may_be_late = run.gateways > 1 and any(a.told == Told.SPOOLED for a in answers)
            one = _Accepted(*times, firsts[message.number].place, message, may_be_late)
            by_device[message.endpoint, message.device].append(one)
    for own in by_device.values():
        for one, next_one in _overtakings(own):
            yield f"overtaken: {one.message} by {next_one.message}"


class _Accepted(NamedTuple):
    first_sent_at: int
    sent_at: int  # when it was accepted
    answered_at: int
    place: Place
    message: Message
    may_be_late: bool


def _overtakings(own: Sequence[_Accepted]) -> Iterator[tuple[_Accepted, _Accepted]]:
    for one, next_one in pairwise(own):
        together = one.first_sent_at == next_one.first_sent_at
        at_once = one.sent_at == one.first_sent_at and next_one.sent_at == next_one.first_sent_at
        if together and at_once and one.place > next_one.place:
            yield one, next_one
    told = sorted((one for one in own if not one.may_be_late), key=lambda one: one.answered_at)
    if not told:
        return
    times = [one.answered_at for one in told]
    furthest = [told[0]]  # of all that were accepted until then, the one that stands last
    for one in told[1:]:
        furthest.append(max(furthest[-1], one, key=lambda each: each.place))
    for one in own:
        before = bisect_left(times, one.first_sent_at)
        if before and furthest[before - 1].place > one.place:
            yield furthest[before - 1], one


def disordered(run: Run) -> Iterator[str]:
    """The first events of an entity's payloads come in the order in which these arrived, whatever
    has waited and whatever was done twice."""
    newest: dict[tuple[str, bytes, str, int], int] = {}
    seen: set[Place] = set()
    for event in run.books.events:
        value = json.loads(event.value)
        topic, partition, offset = origin = tuple(value["origin"])
        if value["type"] not in SENT_TYPES or origin in seen:
            continue
        seen.add(origin)
        log = event.place[0], event.key, topic, partition
        if newest.setdefault(log, offset) > offset:
            yield f"behind a later one: {event} of {origin}"
        newest[log] = max(newest[log], offset)


def out_of_turn(run: Run) -> Iterator[str]:
    """Whoever waits, waits for a device that is not known, or behind a payload of the same one."""
    may_wait = {*_nobodies(run), *(device.encode() for device in LATE_DEVICES)}
    waits: set[bytes] = set()
    for record in run.books.lanes:
        if record.place[0] != WAITS:
            continue
        reason = record.headers["ce_reason"]
        if record.key not in may_wait:
            yield f"it waits, though its device is known: {record}"
        elif reason != _UNKNOWN and (reason != _BEHIND or record.key not in waits):
            yield f"it waits for {reason}, and nothing is before it: {record}"
        waits.add(record.key)


def ajar(run: Run) -> Iterator[str]:
    """In the end the gates are open of those alone whose payloads wait."""
    latest = {record.key: record.value for record in run.books.gates}
    is_open = {key for key, value in latest.items() if value}
    for key in is_open ^ _nobodies(run):
        yield f"its gate is {'open' if key in is_open else 'closed'}: {key!r}"


def without_end(run: Run) -> Iterator[str]:
    """All that is in an ingest topic is an event, waits, or is parked for the right reason."""
    events, letters, waited = _events(run), _letters(run), _waited(run)
    no_room = _without_room(run)
    for event_id, copies in _copies_by_id(run).items():
        digests = {copy.message.digest: copy.message for copy in copies}
        first = events[event_id][0].headers.get(_SHA) if event_id in events else None
        found = letters.pop(event_id, set())
        with_room = [copy.message for copy in copies if copy.record.place not in no_room]
        without_room = {c.message.digest for c in copies if c.record.place in no_room}
        found -= {("dlq.enrich.v1", _FULL, digest) for digest in without_room}
        expected = {_letter_of(message, first) for message in with_room} - {None}
        if found != expected:
            yield f"parked: {found}, not {expected}: {event_id} {copies[0].message}"
        has_waited = waited.pop(event_id, set())
        if has_waited - digests.keys() or any(
            message.fate == WAITING and digest not in has_waited | without_room
            for digest, message in digests.items()
        ):
            yield f"waiting: {has_waited}: {event_id} {copies[0].message}"
        is_event = any(message.fate == EVENT for message in with_room)
        if is_event != (event_id in events):
            is_one = "is no event" if is_event else "is an event"
            yield f"{is_one}: {event_id} {copies[0].message}"
    for event_id, found in [*letters.items(), *waited.items()]:
        yield f"parked or waiting, and nobody sent it: {event_id} {found}"


def changed(run: Run) -> Iterator[str]:
    """Each event says what its payload said, and where and when that arrived."""
    copies = _copies_by_id(run)
    for event_id, written in _events(run).items():
        for event in written:
            value = json.loads(event.value)
            if value["type"] not in SENT_TYPES:
                continue  # a fold's own
            origin = {copy.record.place: copy for copy in copies.get(event_id, ())}
            copy = origin.get(tuple(value["origin"]))
            if copy is None:
                yield f"an event of nothing: {event}"
            elif (wrong := _differences(value, copy, event)) is not None:
                yield f"changed: {wrong}: {event} of {copy.message}"


def unstored(run: Run) -> Iterator[str]:
    """Each event is one row, with what the event says, and no row is of anything else."""
    events = {event_id: json.loads(es[0].value) for event_id, es in _events(run).items()}
    seen: set[str] = set()
    for row in run.books.rows:
        if row.event_id in seen:
            yield f"two rows: {row}"
        seen.add(row.event_id)
        event = events.get(row.event_id)
        if event is None:
            yield f"a row of no event: {row}"
            continue
        names = ("type", "entity_id", "time_ms", "arrived_ms", "data")
        if any(getattr(row, name) != event[name] for name in names):
            yield f"a row that says something else: {row}, {event}"
    for event_id in events.keys() - seen:
        yield f"no row: {events[event_id]}"


def untold(run: Run) -> Iterator[str]:
    """Each row has one completion, by id, that names it, and none is of anything else. A correction
    of an event has one more, with its revision."""
    rows = {row.event_id: row for row in run.books.rows}
    revisions = {(event.id, _revision(event)) for event in run.books.events}
    by_event: dict[tuple[str, int], str] = {}
    by_id: dict[str, tuple[str, int]] = {}
    for record in run.books.completions:
        said = json.loads(record.value)
        row = rows.get(said["event_id"])
        of = said["event_id"], said.get("revision", 0)
        if by_event.setdefault(of, record.id) != record.id:
            yield f"two completions: {record}"
        if by_id.setdefault(record.id, of) != of:
            yield f"a completion of two events: {record}"
        if of[1] and of not in revisions:
            yield f"a completion of no correction: {record}"
        if row is None or (row.row_key, row.entity_id) != (said["row_key"], said["entity_id"]):
            yield f"a completion that names no such row: {record}, {row}"
    for event_id in rows.keys() - {event_id for event_id, _ in by_event}:
        yield f"no completion: {rows[event_id]}"
    if run.books.outbox:
        yield f"{run.books.outbox} messages are still in the outbox"


def _revision(event: Record) -> int:
    return int(event.headers.get("ce_revision", "0"))


def underived(run: Run) -> Iterator[str]:
    """Each change of state that is an event of its own is one, by one id, and nothing else is. But
    of a device that fold has counted a repeat of, until that was corrected, more or less may have
    followed: that is not taken back (docs/operations.md, `late_duplicate`)."""
    expected: set[tuple[str, str]] = set()
    events = _in_log_order(run)
    expected_states([event for event in events if event["type"] in SENT_TYPES], expected)
    derived = Counter((e["cause"], e["type"]) for e in events if e["type"] not in SENT_TYPES)
    by_id = {event["id"]: event["entity_id"] for event in events}
    for one, count in derived.items():
        if count > 1:
            yield f"derived under {count} ids: {one}"
    miscounted = {*_far_repeats(run).values()} if run.books.ledger["late_duplicate"] else {}
    for one in derived.keys() ^ expected:
        device = by_id.get(one[0])
        if device not in miscounted:
            what = "derived, and should not be" if one in derived else "not derived"
            yield f"{what}: {one} of {device}"


def unbalanced(run: Run) -> Iterator[str]:
    """The product's own ledger says of all payloads what they have become."""
    expected = dict.fromkeys(TERMS, 0)
    events, no_room = _events(run), _without_room(run)
    stored: set[str] = set()
    for copy in _copies(run):
        event_id, message = copy.record.id, copy.message
        first = events[event_id][0].headers.get(_SHA) if event_id in events else None
        if copy.record.place in no_room:
            end = "parked"
        elif message.fate == WAITING:
            end = "waiting"
        elif _letter_of(message, first) is not None:
            end = "parked"
        else:
            end = "duplicate" if event_id in stored else "stored"
            stored.add(event_id)
        expected["received"] += 1
        expected[end] += 1
    found = run.books.ledger
    late = found["late_duplicate"]
    if {**found, "duplicate": found["duplicate"] + late, "late_duplicate": 0} != expected:
        yield f"the ledger says {found}, not {expected}"
    if late > (most := len(_far_repeats(run))):
        yield f"{late} repeats are told to have been counted, only {most} came late enough"


def _far_repeats(run: Run) -> dict[Place, str]:
    """The repeats that came after as many others as fold remembers or more: which of these it knew
    is its own affair, all others it had to know. And whose they are."""
    at: dict[tuple[str, bytes], int] = defaultdict(int)
    first: dict[tuple[str, str], int] = {}
    seen: set[Place] = set()
    far: dict[Place, str] = {}
    for event in run.books.events:
        value = json.loads(event.value)
        if value["type"] not in SENT_TYPES:
            continue
        topic = event.place[0]
        at[topic, event.key] += 1
        now, began = at[topic, event.key], first.setdefault((topic, event.id), 0)
        if not began:
            first[topic, event.id] = began = now
        origin = tuple(value["origin"])
        if origin not in seen and now - began > _REMEMBERED:
            far[origin] = value["entity_id"]
        seen.add(origin)
    return far


def unfolded(run: Run) -> Iterator[str]:
    """Each of the three copies of each state is the pure fold of the events, and an area's is what
    its devices add up to."""
    clocks: Clocks = {}
    sent = [e for e in _in_log_order(run) if e["type"] in SENT_TYPES]
    devices = expected_states(sent, clocks=clocks)
    expected: dict[tuple[str, str], State] = {("device", d): s for d, s in devices.items()}
    expected |= {("area", area): s for area, s in expected_areas(devices).items()}
    newest: dict[tuple[str, str], tuple[int, State]] = {}
    latest: dict[tuple[str, str], Record] = {}
    highest: defaultdict[tuple[str, str], int] = defaultdict(int)
    for record in run.books.snapshots:
        newest[entity_of(record)] = state_of(record)
        latest[entity_of(record)] = record
        highest[entity_of(record)] = max(highest[entity_of(record)], state_of(record)[0])
    for kind, name in newest:
        if kind == "area":  # one that every device has left
            expected.setdefault((kind, name), {**_NOBODY, "area": name})
    for entity in expected.keys() | newest.keys() | run.books.stored.keys():
        version, state = newest.get(entity, (0, None))
        if version != highest[entity]:
            yield f"its last version is {version}, not {highest[entity]}: {entity}"
        if state != expected.get(entity):
            yield f"on the topic: {entity} {state}, not {expected.get(entity)}"
        if entity[0] == "device" and state is not None:
            counts = clocks_of(latest[entity])
            if counts != (wanted := clocks.get(entity[1], (0, 0))):
                yield f"late, and of a clock that is off: {entity} {counts}, not {wanted}"
        if run.books.stored.get(entity) != newest.get(entity):
            yield f"in PostgreSQL: {entity} {run.books.stored.get(entity)}, not {version} {state}"
        if run.books.shown.get(entity) != state:
            yield f"at /state: {entity} {run.books.shown.get(entity)}, not {state}"


ORACLES = (
    *(lost, phantoms, misplaced, misnamed, overtaken, disordered, out_of_turn, ajar, without_end),
    *(changed, unstored, untold, underived, unfolded, unbalanced),
)


def doubled(run: Run) -> dict[str, int]:
    """Copies beyond the first: allowed in the log, and counted."""
    books = run.books
    return {
        "payloads": len(books.ingest) - len({(r.id, r.digest) for r in books.ingest}),
        "events": len(books.events) - len({(r.id, r.headers.get(_SHA)) for r in books.events}),
        "completions": len(books.completions) - len({r.id for r in books.completions}),
        "late": books.ledger["late_duplicate"],
    }


def _by_body(run: Run) -> dict[tuple[str, bytes, str], Message]:
    return {(m.topic, m.device.encode(), m.digest): m for m in run.messages}


def _body_of(record: Record) -> tuple[str, bytes, str]:
    return record.place[0], record.key, record.digest


def _copies(run: Run) -> list[Copy]:
    by_body = _by_body(run)
    known = ((by_body.get(_body_of(record)), record) for record in run.books.ingest)
    return [Copy(message, record) for message, record in known if message is not None]


def _copies_by_id(run: Run) -> dict[str, list[Copy]]:
    found: defaultdict[str, list[Copy]] = defaultdict(list)
    for copy in _copies(run):
        found[copy.record.id].append(copy)
    return found


def _events(run: Run) -> dict[str, list[Record]]:
    found: defaultdict[str, list[Record]] = defaultdict(list)
    for record in run.books.events:
        found[record.id].append(record)
    return dict(found)


def _in_log_order(run: Run) -> list[dict[str, Any]]:
    """The first copy of each event."""
    firsts = sorted((es[0] for es in _events(run).values()), key=lambda record: record.place)
    return [json.loads(record.value) for record in firsts]


Letter = tuple[str, str, str]  # topic, reason, and sha256 of the payload


def _letters(run: Run) -> dict[str, set[Letter]]:
    found: defaultdict[str, set[Letter]] = defaultdict(set)
    events = _events(run)
    for record in run.books.lanes:
        if record.place[0] == WAITS:
            continue
        digest = record.digest
        if any(record.value == event.value for event in events.get(record.id, ())):
            digest = record.headers.get(_SHA, "")  # of the payload that persist's event came of
        found[record.id].add((record.place[0], record.headers["ce_reason"], digest))
    return dict(found)


def _waited(run: Run) -> dict[str, set[str]]:
    """The payloads that are or were in the lane."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for record in run.books.lanes:
        if record.place[0] == WAITS:
            found[record.id].add(record.digest)
    return dict(found)


def _without_room(run: Run) -> set[Place]:
    """Of a device that nobody knows, or not yet, only so many payloads wait; what comes beyond is
    parked. No place is excused before which so many have not come."""
    late = {device.encode() for device in LATE_DEVICES}
    came: defaultdict[bytes, list[int]] = defaultdict(list)
    at: dict[Place, int] = {}
    for copy in _copies(run):
        if copy.message.fate == WAITING or copy.record.key in late:
            came[copy.record.key].append(copy.record.at_ms)
            at[copy.record.place] = copy.record.at_ms
    for times in came.values():
        times.sort()
    found = set()
    for record in run.books.lanes:
        if record.headers.get("ce_reason") != _FULL:
            continue
        topic, partition, offset = record.headers["ce_origin"].split("/")
        place = topic, int(partition), int(offset)
        if place in at and bisect_right(came[record.key], at[place]) > _LINE_MAX:
            found.add(place)
    return found


def _nobodies(run: Run) -> set[bytes]:
    """Those of whom payloads wait for ever."""
    return {copy.record.key for copy in _copies(run) if copy.message.fate == WAITING}


def _letter_of(message: Message, first_digest: str | None) -> Letter | None:
    if message.fate == WAITING:
        return None
    if message.fate != EVENT:
        return "dlq.enrich.v1", message.fate, message.digest
    if first_digest in (None, message.digest):
        return None
    return "dlq.persist.v1", "key_reuse", message.digest


def _ms(time: str) -> int:
    return round(datetime.fromisoformat(time).timestamp() * 1000)


def _differences(event: dict[str, Any], copy: Copy, record: Record) -> str | None:
    message, said = copy.message, json.loads(copy.message.body)
    at_ms = copy.record.at_ms
    if "at" in said:
        at_ms = _ms(said["at"])
    elif "ce_receivedms" in copy.record.headers:  # a spool brought it: its receipt counts
        at_ms = min(at_ms, _ms(copy.record.headers["ce_time"]))
    expected = {
        "id": copy.record.id,
        "entity_id": message.device,
        "arrived_ms": copy.record.at_ms,
        "time_ms": at_ms,
    }
    wrong = [name for name, value in expected.items() if event[name] != value]
    data = event["data"]
    if message.endpoint == "status":
        wrong += ["status"] * (data["status"] != said["status"])
    else:
        value = said["value"]
        if int(message.device[-4:]) % _FAHRENHEIT_EVERY == 0:
            value = (value - 32) * 5 / 9
        wrong += ["value"] * (not isclose(data["value"], value, abs_tol=1e-9))
        wrong += ["rest"] * (data["rest"].get("n") != said["n"])
    wrong += ["sha256"] * (record.headers.get(_SHA) != message.digest)
    wrong += ["key"] * (record.key != message.device.encode())
    return ", ".join(wrong) or None
