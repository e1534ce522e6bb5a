"""The API as its own document describes it, and the wire, under whatever a seed makes up.

`HEADRACE_TEST_FUZZ=100000` sends so many mutated requests, and makes up more examples;
`HEADRACE_TEST_SEED` begins elsewhere."""

import json
import os
import random
import re
import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import strategies
from pydantic import SecretStr
from schemathesis.engine import events, from_schema

from clients.postgres.grants import GATEWAY
from gateway.ingest.split_batch import FRAMES
from gateway.server.openapi import FRAMES_FORMAT
from gateway.state_view.records import Changes, Row
from gateway.state_view.store import ViewStore, view_path
from local_stack.run.stack import Stack
from shared.ids import ENTITY_ID
from shared.settings import GatewaySettings
from shared.tables.indexed_fields import indexed_states
from shared.timestamps import now_ms
from tests.builders import event_record
from tests.gateway.history.world import FLOW, World
from tests.gateway.smuggling_corpus import BODY, CHUNKED, CORPUS, PATH
from tests.gateway.support import Gateway, Served, gateway_of, serving
from tests.servers import in_database_of

INDEXED = indexed_states(FLOW.with_state)
COUNT = int(os.environ.get("HEADRACE_TEST_FUZZ", "1000"))
SEED = int(os.environ.get("HEADRACE_TEST_SEED", "1"))

_CONFIG: dict[str, Any] = {
    "seed": SEED,
    "generation": {"mode": "all", "max-examples": max(5, COUNT // 500), "database": "none"},
    "checks": {
        # /health says so of a gateway that nobody looks after; of the others _failures says more
        "not_a_server_error": {"expected-statuses": ["2XX", "3XX", "4XX", "503"]},
        # a state that does not have yet what the request wants to see in it
        "positive_data_acceptance": {
            "expected-statuses": ["2xx", "3xx", "401", "403", "404", "409", "412", "429", "5xx"]
        },
    },
}


@pytest.fixture
def target(tmp_path: Path) -> Iterator[tuple[Gateway, Served]]:
    _fill_view(tmp_path)
    settings = GatewaySettings(state_dir=tmp_path, keep_alive_s=60, hosts="gateway")
    with gateway_of(settings) as gateway, serving(gateway, settings) as served:
        yield gateway, served


@pytest.fixture
def with_history(tmp_path: Path, parts: Stack, postgres_url: str) -> Iterator[Served]:
    """A real PostgreSQL has the versions of a device."""
    _fill_view(tmp_path)
    view = ViewStore(view_path(tmp_path), INDEXED)
    world = World(postgres_url, view)
    for offset in (2, 3):
        world.fold(event_record(offset, value=20 + offset))
    # nobody reads on here, and what is asked for may be of this very moment
    view.caught_up([row.topic for row in FLOW.with_state], now_ms() + 600_000)
    world.rows.close()
    view.close()
    url = in_database_of(postgres_url, parts.postgres_url_of(GATEWAY))
    settings = GatewaySettings(
        state_dir=tmp_path,
        keep_alive_s=60,
        hosts="gateway",
        postgres_url=SecretStr(url),
        kafka_bootstrap=parts.kafka_bootstrap,  # of whose log /events tells
        wait_max_s=0.2,
    )
    with gateway_of(settings, flow=FLOW) as gateway, serving(gateway, settings) as served:
        yield served


_FRAME = strategies.tuples(
    strategies.from_regex(ENTITY_ID, fullmatch=True), strategies.binary(min_size=1, max_size=50)
).map(lambda frame: b"%b %d\n%b\n" % (frame[0].encode(), len(frame[1]), frame[1]))


@pytest.mark.stack
def test_the_api_does_what_its_document_says(with_history: Served) -> None:
    """All checks in all phases, with data that is right and data that is wrong."""
    served = with_history
    schemathesis.serializer(FRAMES.decode())(_as_bytes)
    frames = strategies.lists(_FRAME, min_size=1, max_size=3).map(b"".join)
    schemathesis.openapi.format(FRAMES_FORMAT, frames)
    config = schemathesis.Config.from_dict(_CONFIG)
    schema = schemathesis.openapi.from_url(f"{served.url}/openapi.json", config=config)
    schema = schema.exclude(path="/v1/events")  # which has no end
    failures: list[str] = []
    cases = 0
    for event in from_schema(schema).execute():
        if isinstance(event, events.ScenarioFinished):
            cases += len(event.recorder.cases)
            failures += _failures(event)
        elif isinstance(event, events.NonFatalError):
            failures.append(f"{event.label}: {event.value!r}")
        assert not isinstance(event, events.FatalError), event.exception
    print(f"{cases} cases, seed {SEED}")
    assert failures == []
    assert cases > 100


def _failures(event: events.ScenarioFinished) -> Iterator[str]:
    for case_id, checks in event.recorder.checks.items():
        case = event.recorder.cases[case_id].value
        for check in checks:
            if check.failure_info is None:
                continue
            is_for_later = check.name == "negative_data_rejection" and _is_wrong_in_its_body(case)
            is_refused = check.name == "positive_data_acceptance" and (
                _asks_for_no_time(case) or _goes_on_from_nowhere(case)
            )
            if not is_for_later and not is_refused:
                yield f"{case.as_curl_command()}: {check.name}: {check.failure_info.failure}"
    for case_id, interaction in event.recorder.interactions.items():
        case = event.recorder.cases[case_id].value
        status = interaction.response.status_code if interaction.response else 0
        if status == 0 or (status >= 500 and case.path != "/health"):
            yield f"{case.as_curl_command()}: {status}"


def _is_wrong_in_its_body(case: Any) -> bool:
    """And in nothing else. The gateway reads no body: enrich parks what is no payload."""
    components = case.meta.components.items()
    return [where.value for where, one in components if one.mode.is_negative] == ["body"]


def _asks_for_no_time(case: Any) -> bool:
    """Of the future, or beside a version: both are refused, and no schema can say so."""
    asked = case.query or {}
    if "at" not in asked:
        return False
    return "version" in asked or datetime.fromisoformat(asked["at"]) > datetime.now(UTC)


def _goes_on_from_nowhere(case: Any) -> bool:
    """In a list: what is next only an answer can say."""
    return case.path in [f"/state/{states.entity}" for states in INDEXED] and bool(
        (case.query or {}).get("next")
    )


def _as_bytes(_: object, value: Any) -> bytes:
    data = getattr(value, "data", value)
    return data if isinstance(data, bytes) else str(data).encode()


@pytest.mark.slow
def test_of_mutated_requests_only_whole_bodies_are_written(target: tuple[Gateway, Served]) -> None:
    gateway, served = target
    chance = random.Random(SEED)
    taken = 0
    begun_s = time.monotonic()
    for number in range(COUNT):
        sent = _mutated(chance)
        gateway.log.records.clear()
        statuses = _statuses(served, sent)
        written = [record.value for record in gateway.log.records]
        fault = _fault(sent, statuses, written)
        assert fault is None, f"{fault}: request {number} of seed {SEED}: {sent!r}"
        taken += len(written)
    print(f"{COUNT} requests of seed {SEED}, {taken} taken, {time.monotonic() - begun_s:.0f} s")
    assert COUNT / 20 < taken < COUNT * 2  # neither all nor none


def _fault(sent: bytes, statuses: list[int], written: list[bytes]) -> str | None:
    if any(status >= 500 for status in statuses):
        return f"answers {statuses}"
    if statuses.count(202) != len(written):
        return f"{statuses} for {len(written)} payloads"
    bodies = reference(sent)
    if len(statuses) > len(bodies) + 1:
        return f"{len(statuses)} answers to {len(bodies)} requests and an end"
    due = [bodies[n] if n < len(bodies) else None for n, s in enumerate(statuses) if s == 202]
    return None if written == due else f"written {written} where {due} was sent"


_SEEDS = (
    b"POST %s HTTP/1.1\r\nHost: gateway\r\nContent-Length: 9\r\n\r\n%s" % (PATH, BODY),
    b"POST %s HTTP/1.1\r\nHost: gateway\r\nTransfer-Encoding: chunked\r\n\r\n%s" % (PATH, CHUNKED),
    b"POST %s HTTP/1.1\r\nHost: gateway\r\nTransfer-Encoding: chunked\r\n\r\n"
    b'4\r\n{"a"\r\n5;x="y"\r\n: 12}\r\n0\r\n\r\n' % PATH,
    b"POST %s HTTP/1.1\r\nhost:gateway:8080\r\nContent-Type: application/json\r\nIdempotency-Key: k"
    b"\r\nExpect: 100-continue\r\nConnection: keep-alive\r\nContent-Length:9\r\n\r\n%s"
    % (PATH, BODY),
    b"POST http://gateway%s?a=b HTTP/1.1\r\nHost: gateway\r\ncontent-length: 9\r\n\r\n%s"
    % (PATH, BODY),
    b"POST %s HTTP/1.0\r\nContent-Length: 9\r\n\r\n%s" % (PATH, BODY),
    b'GET /state/device-0001?meta=true HTTP/1.1\r\nHost: gateway\r\nIf-None-Match: W/"1"\r\n\r\n',
)
_HARD = [vector.sent[:2000] for vector in CORPUS if not vector.sent.startswith(b"HEAD")]
_PIECES = (
    *(b"\r\n", b"\n", b"\r", b"\0", b" ", b"\t", b":", b",", b";", b"0", b"-1", b"\xff", b"%00"),
    *(b"chunked", b"Content-Length: 4\r\n", b"Transfer-Encoding: chunked\r\n", b"0\r\n\r\n"),
    *(b"Host: other\r\n", b"Upgrade: h2c\r\n", b"Connection: close\r\n", b"HTTP/1.0", b"\r\n\r\n"),
)


def _mutated(chance: random.Random) -> bytes:
    chosen = [*chance.choices(_SEEDS, k=chance.choice((1, 1, 2, 3)))]
    if chance.random() < 0.1:
        chosen.append(chance.choice(_HARD))
    data = bytearray(b"".join(chosen))
    for _ in range(chance.choice((0, 1, 1, 1, 2, 4))):
        _mutate(data, chance)
    return bytes(data)


def _mutate(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data) + 1)
    end = min(len(data), at + chance.choice((1, 2, 8, 64)))
    match chance.randrange(6):
        case 0 if at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        case 1 if at < len(data):
            data[at] = chance.randrange(256)
        case 2:
            del data[at:end]
        case 3:
            data[at:at] = data[at:end]
        case 4:
            data[at:at] = chance.choice(_PIECES)
        case _:
            del data[at:]


def _statuses(served: Served, sent: bytes) -> list[int]:
    """Of the final answers, until the server ends the connection; it never takes long."""
    with served.connect() as connection:
        received = b""
        try:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            while data := connection.recv(65536):
                received += data
        except TimeoutError:
            raise AssertionError(f"no end after 10 s: {sent!r}") from None
        except OSError:
            pass
    statuses = []
    while received:
        head, _, received = received.partition(b"\r\n\r\n")
        status = int(head.split()[1])
        if status >= 200:
            statuses.append(status)
            length = re.search(rb"content-length: (\d+)", head.lower())
            received = received[int(length[1]) if length and status != 304 else 0 :]
    return statuses


_REQUEST_LINE = re.compile(rb"[A-Z-]+ +[!-~]+ +HTTP/1\.([01])")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t -~\x80-\xff]*)")
_CHUNK = re.compile(rb"([0-9A-Fa-f]+)(?:;[\t -~\x80-\xff]*)?\r\n")


def reference(data: bytes) -> list[bytes]:
    """The bodies of the requests that a strict reader finds, one after the other, up to the first
    that is not well-formed or not whole."""
    bodies = []
    while (found := _first(data.lstrip(b"\r\n"))) is not None:
        body, data, is_last = found
        bodies.append(body)
        if is_last:
            break
    return bodies


def _first(data: bytes) -> tuple[bytes, bytes, bool] | None:
    head, end, rest = data.partition(b"\r\n\r\n")
    line, *lines = head.split(b"\r\n")
    request = _REQUEST_LINE.fullmatch(line)
    headers = [_HEADER.fullmatch(line) for line in lines]
    if not end or request is None or None in headers:
        return None
    named = [(header[1].lower(), header[2].strip(b" \t")) for header in headers if header]
    lengths = [value for name, value in named if name == b"content-length"]
    codings = [value.lower() for name, value in named if name == b"transfer-encoding"]
    is_last = request[1] == b"0" or (b"connection", b"close") in named
    if codings:
        found = _unchunked(rest) if (codings, lengths) == ([b"chunked"], []) else None
        return found and (*found, is_last)
    length = lengths[0] if lengths else b"0"
    if len(lengths) > 1 or not length.isdigit() or len(rest) < int(length):
        return None
    return rest[: int(length)], rest[int(length) :], is_last


def _unchunked(rest: bytes) -> tuple[bytes, bytes] | None:
    body = b""
    while chunk := _CHUNK.match(rest):
        size, rest = int(chunk[1], 16), rest[chunk.end() :]
        if rest[size : size + 2] != b"\r\n":
            return None
        if size == 0:
            return body, rest[2:]
        body, rest = body + rest[:size], rest[size + 2 :]
    return None


def test_the_reference_reads_what_it_should_and_no_more() -> None:
    assert reference(b"".join(_SEEDS[:5])) == [BODY] * 5
    assert [reference(vector.sent) for vector in CORPUS if vector.name == "trailer"] == [[]]


def _fill_view(folder: Path) -> None:
    now_ms = time.time_ns() // 1_000_000
    value = json.dumps({"count": 1, "_meta": {"version": 1, "event_time_ms": None, "fold": "a"}})
    topics = [entity.topic for entity in (*FLOW.entities, *FLOW.aggregates)]
    store, changes = ViewStore(view_path(folder), INDEXED), Changes()
    while store.index_more():
        pass
    for topic in topics:
        store.begin_topic(topic, "an id")
        changes.put(Row(topic, b"device-0001", value.encode(), 1, now_ms, 0, 0))
    store.apply(changes)
    store.caught_up(topics, now_ms)
    store.close()
