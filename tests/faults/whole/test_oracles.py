"""The oracles go red for each kind of lie; else a green run would mean nothing."""

import ast
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.client_answers import Told
from tests.faults.whole import oracles
from tests.faults.whole.books import Books, EventRow, Record, State, entity_of, state_of
from tests.faults.whole.fleet import LATE_DEVICES
from tests.faults.whole.oracles import ORACLES, Run, doubled, overtaken, violations, without_end
from tests.faults.whole.sample import TERMS
from tests.faults.whole.sends import EVENT, WAITING, Answer, Message
from tests.oracle import Clocks, expected_areas, expected_states

Lie = Callable[[Run, random.Random], Run]
LATE = LATE_DEVICES[0].encode()
BATCHED = "device-0004"
TESTS = Path(__file__).parents[2]
_NOW_MS = 1_795_264_963_000
_SHA = "ce_payloadsha256"
_LINES = range(124, 194)  # more than fold remembers
_FALLEN = 160  # its clock says 1970
_ASIDE = 194
_ENDS = {
    **{"received": 276, "stored": 155, "duplicate": 54, "late_duplicate": 40},
    **{"waiting": 12, "parked": 15},
}
_LEDGER = {**dict.fromkeys(TERMS, 0), **_ENDS}


def _run() -> Run:
    """Forty payloads of each of three devices, among them letters, waiting ones, repeats, refused
    ones, and one under a key that another has used; four of a device that was registered later; a
    batch that was sent twice, and counted twice in part until a correction; and a payload that a
    flipped byte of the spool has set aside. All of it gone its way."""
    run = Run([], {}, Books([], [], [], [], [], [], [], {}, {}, 0, {}))
    for number in range(120):
        device, kind = f"device-000{number % 3 + 1}", number // 3
        key = f"k{number}" if kind != 37 else f"k{number - 6}"
        body, fate = {"value": number % 97, "n": number}, EVENT
        if kind % 10 == 4:
            body["value"], fate = "warm", "wrong_type"
        if kind % 10 == 6:
            device, fate = "nobody-1", WAITING
        raw = json.dumps(body).encode()
        message = Message(number, "telemetry", device, raw, key, fate)
        run.messages.append(message)
        answers = run.answers.setdefault(number, [])
        if kind % 10 == 8:
            answers.append(Answer(Told.DEFINITE))
            continue
        if kind % 10 == 2:
            answers.append(Answer(Told.UNKNOWN))
            _put(run.books, message)
        for _ in range(2 if kind % 10 == 5 else 1):
            record = _put(run.books, message)
            spooled = Answer(Told.SPOOLED, record.id)
            answers.append(spooled if kind % 3 == 0 else Answer(Told.WRITTEN, *_of(record)))
    for number in range(120, 124):
        raw = json.dumps({"value": number, "n": number}).encode()
        message = Message(number, "telemetry", LATE.decode(), raw, f"k{number}", EVENT)
        run.messages.append(message)
        run.answers[number] = [Answer(Told.WRITTEN, *_of(_put(run.books, message, waits=True)))]
    _gate(run.books, LATE.decode(), b"")
    for number in _LINES:
        said = {"value": number % 97, "n": number}
        if number == _FALLEN:
            said["at"] = "1970-01-01T00:01:00.000Z"
        body = json.dumps(said).encode()
        run.messages.append(Message(number, "telemetry", BATCHED, body, "b", EVENT, is_line=True))
    for sent_at in (1, 3):
        for message in run.messages[-len(_LINES) :]:
            told = Answer(Told.WRITTEN, *_of(_put(run.books, message)), sent_at, sent_at + 1)
            run.answers.setdefault(message.number, []).append(told)
    _finish(run.books)
    _correct(run.books, next(e for e in run.books.events if e.key == BATCHED.encode()))
    aside = Message(_ASIDE, "telemetry", "device-0001", b'{"value": 7, "n": 194}', "k194", EVENT)
    run.messages.append(aside)
    run.answers[_ASIDE] = [Answer(Told.SPOOLED, "id of k194")]
    run.books.ledger.update(_LEDGER)
    books = run.books._replace(set_aside=[b"x" + aside.body + b"y"], tells_of_set_aside=True)
    return run._replace(books=books, spool_flips=1)


def _of(record: Record) -> tuple[str, tuple[str, int, int]]:
    return record.id, record.place


def _add(records: list[Record], topic: str, key: bytes, value: bytes, **headers: str) -> Record:
    partition = key[-1] % 3
    offset = sum(r.place[:2] == (topic, partition) for r in records)
    record = Record((topic, partition, offset), _NOW_MS + len(records), key, value, headers)
    records.append(record)
    return record


def _put(books: Books, message: Message, waits: bool = False) -> Record:
    """Into the ingest topic, and on through enrich, or the lane and retry."""
    key, event_id = message.device.encode(), f"id of {'/'.join(message.known_as or ())}"
    came = _add(books.ingest, message.topic, key, message.body, ce_id=event_id)
    headers = {"ce_id": event_id, _SHA: message.digest}
    if waits or message.fate == WAITING:
        is_first = all(record.key != key for record in books.gates)
        why = {"ce_stage": "enrich", "ce_reason": "missing_device" if is_first else "behind"}
        _add(books.lanes, "retry.enrich.v1", key, message.body, **headers, **why)
        if is_first:
            _gate(books, message.device, b"{}")
    elif message.fate != EVENT:
        why = {"ce_stage": "enrich", "ce_reason": message.fate}
        _add(books.lanes, "dlq.enrich.v1", key, message.body, **headers, **why)
    if message.fate != EVENT:
        return came
    said = json.loads(message.body)
    data = {"value": said["value"], "area": "area-01", "rest": {"n": said["n"]}}
    event = {
        "id": event_id,
        "type": "reading",
        "entity_id": message.device,
        "time_ms": 60_000 if "at" in said else came.at_ms,
        "arrived_ms": came.at_ms,
        "origin": came.place,
        "data": data,
    }
    _add(books.events, "event.reading.v1", key, json.dumps(event).encode(), **headers)
    return came


def _gate(books: Books, device: str, value: bytes) -> None:
    _add(books.gates, "gate.enrich.v1", device.encode(), value)


def _correct(books: Books, event: Record) -> None:
    headers = {**event.headers, "ce_revision": "1"}
    _add(books.events, event.place[0], event.key, event.value, **headers)
    row = next(row for row in books.rows if row.event_id == event.id)
    said = {"row_key": row.row_key, "event_id": event.id, "entity_id": row.entity_id, "revision": 1}
    value = json.dumps(said).encode()
    _add(books.completions, "completion.reading.v1", event.key, value, ce_id=f"again of {event.id}")


def _finish(books: Books) -> None:
    """What fold, aggregate, persist and the relay make of the events, and the view."""
    firsts: dict[str, Record] = {}
    for record in sorted(books.events):
        first = firsts.setdefault(record.id, record)
        if first.headers[_SHA] != record.headers[_SHA]:
            parked = {**record.headers, "ce_stage": "persist", "ce_reason": "key_reuse"}
            _add(books.lanes, "dlq.persist.v1", record.key, record.value, **parked)
    events = [json.loads(record.value) for record in firsts.values()]
    alarms: set[tuple[str, str]] = set()
    clocks: Clocks = {}
    devices = expected_states(events, alarms, clocks)
    by_id = {event["id"]: event for event in events}
    for cause, what in sorted(alarms):
        events.append({**by_id[cause], "id": f"{what} by {cause}", "type": what, "cause": cause})
        key, value = events[-1]["entity_id"].encode(), json.dumps(events[-1]).encode()
        _add(books.events, f"event.{what}.v1", key, value, ce_id=events[-1]["id"])
    for row_key, e in enumerate(events, 1):
        told = e["type"], e["entity_id"], e["time_ms"], e["arrived_ms"], e["data"]
        books.rows.append(EventRow(e["id"], row_key, *told))
        said = {"row_key": row_key, "event_id": e["id"], "entity_id": e["entity_id"]}
        name = f"completion of {e['id']}"
        key, value = e["entity_id"].encode(), json.dumps(said).encode()
        _add(books.completions, "completion.reading.v1", key, value, ce_id=name)
    for topic, states in (
        ("state.device.v1", devices),
        ("state.area.v1", expected_areas(devices)),
    ):
        for name, state in states.items():
            for version in (1, 2):
                _add_snapshot(books, topic, name, state, version, clocks.get(name, (0, 0)))
    for record in books.snapshots:
        books.stored[entity_of(record)] = state_of(record)
        books.shown[entity_of(record)] = state_of(record)[1]


def _add_snapshot(
    books: Books,
    topic: str,
    name: str,
    state: State,
    version: int,
    clocks: tuple[int, int] = (0, 0),
) -> None:
    meta = {"version": version, "late": clocks[0], "clock_off": clocks[1]}
    value = json.dumps({**state, "_meta": meta}).encode()
    _add(books.snapshots, topic, name.encode(), value)


def _some(records: list[Any], chance: random.Random) -> int:
    return chance.randrange(len(records))


def drop(part: str) -> Lie:
    def lie(run: Run, chance: random.Random) -> Run:
        records = getattr(run.books, part)
        if part == "snapshots":
            records.pop()
        elif part in ("ingest", "events", "lanes"):  # of those that have no second copy
            ids = [record.id for record in records]
            # nor is it the past of one that went on
            once = [r for r in records if ids.count(r.id) == 1]
            records.remove(chance.choice([r for r in once if part != "lanes" or r.key != LATE]))
        else:
            del records[_some(records, chance)]
        return run

    return _named(lie, f"drop one of {part}")


def change(part: str) -> Lie:
    """A byte of its value is another."""

    def lie(run: Run, chance: random.Random) -> Run:
        records = getattr(run.books, part)
        number = _some(records, chance)
        value = records[number].value
        at = value.rindex(b'"n"') + 1 if b'"n"' in value else value.rindex(b'"') - 1
        changed = value[:at] + b"x" + value[at + 1 :]
        records[number] = records[number]._replace(value=changed)
        return run

    return _named(lie, f"change one of {part}")


def cut_a_payload(run: Run, chance: random.Random) -> Run:
    number = _some(run.books.ingest, chance)
    record = run.books.ingest[number]
    run.books.ingest[number] = record._replace(value=record.value[:-1])
    return run


def reorder_payloads(run: Run, _chance: random.Random) -> Run:
    """Of two that were spooled, whose places nobody was told."""
    books = run.books
    told = {a.place for answers in run.answers.values() for a in answers}
    one, other = [r for r in books.ingest if r.place not in told and r.key == b"device-0001"][:2]
    books.ingest.remove(one)
    books.ingest.remove(other)
    books.ingest[:0] = [other._replace(place=one.place), one._replace(place=other.place)]
    return run


def reorder_events(run: Run, _chance: random.Random) -> Run:
    """Fold has taken them in another order than the log's."""
    firsts = {record.id: record for record in sorted(run.books.events, reverse=True)}
    events = [e for e in map(json.loads, (r.value for r in firsts.values())) if "cause" not in e]
    state = expected_states(events)["device-0001"]
    _add_snapshot(run.books, "state.device.v1", "device-0001", state, 2)
    run.books.stored["device", "device-0001"] = 2, state
    run.books.shown["device", "device-0001"] = state
    return run


def send_one_after_a_later_one(run: Run, chance: random.Random) -> Run:
    """What has waited goes on behind what came after it."""
    number = chance.choice([n for n, r in enumerate(run.books.events) if r.key == LATE][:3])
    one, later = run.books.events[number], run.books.events[number + 1]
    run.books.events[number : number + 2] = [
        later._replace(place=one.place),
        one._replace(place=later.place),
    ]
    return run


def hold_one_that_is_known(run: Run, chance: random.Random) -> Run:
    came = chance.choice([r for r in run.books.ingest if r.key == b"device-0001"])
    why = {**came.headers, "ce_stage": "enrich", "ce_reason": "missing_device"}
    _add(run.books.lanes, "retry.enrich.v1", came.key, came.value, **why)
    return run


def wait_behind_nobody(run: Run, _chance: random.Random) -> Run:
    lanes = run.books.lanes
    number = next(n for n, r in enumerate(lanes) if r.headers["ce_reason"] == "missing_device")
    lanes[number] = lanes[number]._replace(headers={**lanes[number].headers, "ce_reason": "behind"})
    return run


def leave_one_in_the_lane(run: Run, _chance: random.Random) -> Run:
    """The device is known, its last payload waits all the same."""
    last = [r for r in run.books.events if r.key == LATE][-1]
    run.books.events.remove(last)
    return run


def leave_a_gate(state: str, key: bytes, value: bytes) -> Lie:
    def lie(run: Run, _chance: random.Random) -> Run:
        _gate(run.books, key.decode(), value)
        return run

    return _named(lie, f"leave a gate {state}")


def double_a_row(run: Run, chance: random.Random) -> Run:
    run.books.rows.append(run.books.rows[_some(run.books.rows, chance)]._replace(row_key=999))
    return run


def change_a_row(run: Run, chance: random.Random) -> Run:
    number = _some(run.books.rows, chance)
    run.books.rows[number] = run.books.rows[number]._replace(data={})
    return run


def complete_twice(run: Run, chance: random.Random) -> Run:
    record = run.books.completions[_some(run.books.completions, chance)]
    run.books.completions.append(record._replace(headers={"ce_id": "another"}))
    return run


def write_what_was_refused(run: Run, _chance: random.Random) -> Run:
    refused = next(m for m in run.messages if run.answers[m.number] == [Answer(Told.DEFINITE)])
    _put(run.books, refused)
    return run


def park_for_another_reason(run: Run, chance: random.Random) -> Run:
    number = _some(run.books.lanes, chance)
    record = run.books.lanes[number]
    run.books.lanes[number] = record._replace(headers={**record.headers, "ce_reason": "none"})
    return run


def park_an_event_too(run: Run, chance: random.Random) -> Run:
    event = chance.choice(run.books.events)
    headers = {"ce_id": event.id, "ce_stage": "enrich", "ce_reason": "wrong_type"}
    _add(run.books.lanes, "dlq.enrich.v1", event.key, event.value, **headers)
    return run


def tell_another_id(run: Run, chance: random.Random) -> Run:
    number = chance.choice([n for n, answers in run.answers.items() if answers[0].place])
    run.answers[number][0] = run.answers[number][0]._replace(id="another")
    return run


def fold_twice(where: str) -> Lie:
    def lie(run: Run, chance: random.Random) -> Run:
        books = run.books
        entity = chance.choice(sorted(books.shown))
        version, state = books.stored[entity]
        counter = "count" if entity[0] == "device" else "readings"
        state = {**state, counter: state[counter] + 1}
        if where == "PostgreSQL":
            books.stored[entity] = version, state
        elif where == "/state":
            books.shown[entity] = state
        else:
            _add_snapshot(books, f"state.{entity[0]}.v1", entity[1], state, version)
        return run

    return _named(lie, f"fold one twice, as {where} shows it")


def derive_twice(run: Run, chance: random.Random) -> Run:
    derived = chance.choice([r for r in run.books.events if "alarm" in r.place[0]])
    value = json.dumps({**json.loads(derived.value), "id": "another"}).encode()
    _add(run.books.events, derived.place[0], derived.key, value, ce_id="another")
    return run


def derive_nothing(run: Run, _chance: random.Random) -> Run:
    run.books.events[:] = [r for r in run.books.events if "alarm" not in r.place[0]]
    return run


def go_back_a_version(run: Run, chance: random.Random) -> Run:
    entity = chance.choice(sorted(run.books.shown))
    state = run.books.stored[entity][1]
    _add_snapshot(run.books, f"state.{entity[0]}.v1", entity[1], state, 1)
    run.books.stored[entity] = 1, state
    return run


def tell_one_payload_twice_in_the_ledger(run: Run, _chance: random.Random) -> Run:
    run.books.ledger["stored"] += 1
    return run


def leave_one_in_the_outbox(run: Run, _chance: random.Random) -> Run:
    return run._replace(books=run.books._replace(outbox=1))


def know_a_line_by_another_id(run: Run, chance: random.Random) -> Run:
    """As if a key stood for a try and not for what was sent."""
    number = chance.choice(_LINES)
    at = run.answers[number][1].place
    records = run.books.ingest
    where = next(n for n, record in enumerate(records) if record.place == at)
    records[where] = records[where]._replace(headers={"ce_id": "another"})
    run.answers[number][1] = run.answers[number][1]._replace(id="another")
    return run


def swap_receipts_of_lines(run: Run, chance: random.Random) -> Run:
    one, other = chance.sample(_LINES, 2)
    answers = run.answers
    answers[one], answers[other] = answers[other], answers[one]
    return run


def write_lines_in_another_order(run: Run, chance: random.Random) -> Run:
    """And tell the truth about it."""
    number = chance.choice(_LINES[:-1])
    ones, others = run.answers[number], run.answers[number + 1]
    records = run.books.ingest
    at = [next(n for n, r in enumerate(records) if r.place == a[0].place) for a in (ones, others)]
    one, other = (records[n] for n in at)
    records[at[0]] = other._replace(place=one.place)
    records[at[1]] = one._replace(place=other.place)
    ones[0], others[0] = (
        ones[0]._replace(place=other.place),
        others[0]._replace(place=one.place),
    )
    return run


def call_a_close_repeat_late(run: Run, _chance: random.Random) -> Run:
    """More were counted twice than can have been."""
    run.books.ledger["late_duplicate"] += 31
    run.books.ledger["duplicate"] -= 31
    return run


def _restate(run: Run, device: str, state: State, clocks: tuple[int, int]) -> Run:
    books, entity = run.books, ("device", device)
    _add_snapshot(books, "state.device.v1", device, state, 3, clocks)
    books.stored[entity] = 3, state
    books.shown[entity] = state
    return run


def freeze_a_device_whose_clock_fell_back(run: Run, _chance: random.Random) -> Run:
    """Its payload of 1970 counts as late, though arrival should."""
    firsts: dict[str, Record] = {}
    for record in sorted(run.books.events):
        firsts.setdefault(record.id, record)
    events = [e for e in map(json.loads, (r.value for r in firsts.values())) if "cause" not in e]
    own = [e for e in events if e["entity_id"] == BATCHED]
    clocks: Clocks = {}
    first = expected_states(own, clocks=clocks)[BATCHED]
    return _restate(run, BATCHED, {**first, "status_changes": first["status_changes"] - 1}, (1, 0))


def count_clocks_wrongly(run: Run, _chance: random.Random) -> Run:
    state = run.books.shown["device", BATCHED]
    return _restate(run, BATCHED, state, (0, 0))


def keep_it_quiet(run: Run, _chance: random.Random) -> Run:
    return run._replace(books=run.books._replace(tells_of_set_aside=False))


def set_nothing_aside(run: Run, _chance: random.Random) -> Run:
    return run._replace(books=run.books._replace(set_aside=[]))


def lose_one_without_a_flip(run: Run, _chance: random.Random) -> Run:
    return run._replace(spool_flips=0)


def lose_what_was_written(run: Run, _chance: random.Random) -> Run:
    """A flip in the spool is no reason for that."""
    place = "ingest.telemetry.v1", 9, 9
    run.answers[_ASIDE].append(Answer(Told.WRITTEN, "id of k194", place))
    return run


def complete_a_correction_of_nothing(run: Run, _chance: random.Random) -> Run:
    events = run.books.events
    events[:] = [event for event in events if "ce_revision" not in event.headers]
    return run


def complete_a_correction_twice(run: Run, _chance: random.Random) -> Run:
    record = next(r for r in run.books.completions if b"revision" in r.value)
    run.books.completions.append(record._replace(headers={"ce_id": "another"}))
    return run


def _named(lie: Lie, name: str) -> Lie:
    lie.__name__ = name
    return lie


LIES: list[Lie] = [
    *(drop(part) for part in ("ingest", "events", "rows", "completions", "snapshots", "lanes")),
    *(change(part) for part in ("ingest", "events", "lanes")),
    cut_a_payload,
    reorder_payloads,
    reorder_events,
    send_one_after_a_later_one,
    hold_one_that_is_known,
    wait_behind_nobody,
    leave_one_in_the_lane,
    leave_a_gate("open", LATE, b"{}"),
    leave_a_gate("closed", b"nobody-1", b""),
    double_a_row,
    change_a_row,
    complete_twice,
    write_what_was_refused,
    park_for_another_reason,
    park_an_event_too,
    tell_another_id,
    *(fold_twice(where) for where in ("PostgreSQL", "/state", "the topic")),
    derive_twice,
    derive_nothing,
    go_back_a_version,
    leave_one_in_the_outbox,
    tell_one_payload_twice_in_the_ledger,
    know_a_line_by_another_id,
    swap_receipts_of_lines,
    write_lines_in_another_order,
    call_a_close_repeat_late,
    freeze_a_device_whose_clock_fell_back,
    count_clocks_wrongly,
    keep_it_quiet,
    set_nothing_aside,
    lose_one_without_a_flip,
    lose_what_was_written,
    complete_a_correction_of_nothing,
    complete_a_correction_twice,
]


def test_a_run_without_a_lie_is_well() -> None:
    run = _run()
    assert violations(run) == []
    assert doubled(run) == {"payloads": 94, "events": 95, "completions": 0, "late": 40}


def test_what_was_set_aside_and_sent_again_may_stand_behind_what_came_meanwhile() -> None:
    run = _run()
    own = [r for r in run.books.ingest if r.key == b"device-0001"]
    message = run.messages[0]
    first = next(r for r in own if r.digest == message.digest)
    again = _put(run.books, message)
    run.books.ingest.remove(first)
    run.answers[message.number] = [Answer(Told.SPOOLED, again.id)]
    assert [*overtaken(run)]
    aside = run._replace(books=run.books._replace(set_aside=[message.body]))
    assert not [*overtaken(aside)]


def test_of_several_gateways_what_one_has_spooled_may_stand_behind_what_another_one_took() -> None:
    run = _run()
    message = run.messages[0]
    first = next(r for r in run.books.ingest if r.digest == message.digest)
    again = _put(run.books, message)
    run.books.ingest.remove(first)
    # in a request of its own, before all others
    spooled = Answer(Told.SPOOLED, again.id, sent_at=-2, answered_at=-1)
    run.answers[message.number] = [spooled]
    assert [*overtaken(run)]
    assert not [*overtaken(run._replace(gateways=2))]
    run.answers[message.number] = [spooled._replace(told=Told.WRITTEN, place=again.place)]
    assert [*overtaken(run._replace(gateways=2))]


@pytest.mark.parametrize(("line_max", "is_well"), [(3, True), (4, False)])
def test_a_device_may_be_registered_too_late_for_what_a_full_line_has_no_room_for(
    line_max: int, is_well: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oracles, "_LINE_MAX", line_max)
    run = _run()
    fourth = [r for r in run.books.ingest if r.key == LATE][3]
    for part in (run.books.events, run.books.lanes):
        part[:] = [record for record in part if record.id != fourth.id]
    why = {"ce_stage": "enrich", "ce_reason": "line_full"}
    of = {"ce_id": fourth.id, "ce_origin": "/".join(map(str, fourth.place))}
    _add(run.books.lanes, "dlq.enrich.v1", LATE, fourth.value, **why, **of)
    assert (not [*without_end(run)]) is is_well


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
def test_one_lie_in_a_run_is_found(lie: Lie, seed: int) -> None:
    assert violations(lie(_run(), random.Random(seed)))


def test_the_oracles_share_no_code_with_the_product() -> None:
    product = ("shared", "clients", "gateway", "stream_jobs", "desk")
    for name in ("oracle.py", "faults/whole/oracles.py", "faults/whole/sample.py"):
        source = ast.parse((TESTS / name).read_text())
        for node in ast.walk(source):
            found = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found += [a.name for a in node.names] if isinstance(node, ast.Import) else []
            assert not any(one.partition(".")[0] in product for one in found), (name, found)


@pytest.mark.slow
def test_each_oracle_finds_something_that_no_other_does() -> None:
    found = set()
    for lie in LIES:
        run = lie(_run(), random.Random(1))
        found |= {oracle.__name__ for oracle in ORACLES if list(oracle(run))}
    assert found == {oracle.__name__ for oracle in ORACLES}
