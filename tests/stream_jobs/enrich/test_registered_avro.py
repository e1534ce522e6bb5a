"""Payloads in Avro whose schemas a registry has: what becomes of them, whatever that answers."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from clients.kafka.records import Outgoing, Payload
from local_stack.machine.settings_check import check_settings
from local_stack.terminal.errors import StackError
from local_stack.verbs.flow import picture
from shared.events import envelope
from shared.events.envelope import Position, read_event
from shared.formats import RegisteredAvro
from shared.lookups import HttpLookup
from shared.lookups.registry import registry_lookup
from shared.model import Endpoint
from shared.settings import JobSettings
from stream_jobs.enrich.answers import Answers
from stream_jobs.enrich.enrich_payload import enricher
from tests.builders import Master
from tests.played_registry import PlayedRegistry, framed, played_registry
from tests.played_service import answering
from tests.stream_jobs.registry_flow import FLOW, METER, NEWER


class World:
    """enrich in a process that knows no schema yet."""

    def __init__(self, lookup: HttpLookup | None) -> None:
        def anew(row: Endpoint) -> Endpoint:
            (form,) = row.formats
            is_registered = isinstance(form, RegisteredAvro)
            return replace(row, formats=(RegisteredAvro(form.reader),)) if is_registered else row

        self.flow = replace(FLOW, endpoints=tuple(map(anew, FLOW.endpoints)))
        self.now_s = 100.0
        self.answers = Answers(self.flow, lookup, clock_s=lambda: self.now_s)
        self.enrich = enricher(self.flow, ask=self.answers.find)

    def batch(self, *values: bytes, to: str = "meter") -> Sequence[Outgoing]:
        headers = [(envelope.TYPE, f"ingest.{to}".encode())]
        payloads = [
            Payload(Position(f"ingest.{to}.v1", 0, n), b"m-1", value, headers, 1_700_000_000_000)
            for n, value in enumerate(values)
        ]
        self.answers.look_ahead(self.enrich, payloads, Master())
        return [made for one in payloads for made in self.enrich(one, Master())]

    def of(self, value: bytes, to: str = "meter") -> Outgoing:
        (made,) = self.batch(value, to=to)
        return made


@pytest.fixture
def registry() -> Iterator[PlayedRegistry]:
    with played_registry() as registry:
        yield registry


@pytest.fixture
def world(registry: PlayedRegistry) -> Iterator[World]:
    world = World(registry_lookup(registry.url, "reader", "secret"))
    yield world
    world.answers.close()


def data_of(made: Outgoing) -> Any:
    return read_event(Position(made.topic, 0, 0), made.value or b"").data


def why(made: Outgoing) -> tuple[str, str, str]:
    reason = envelope.text(made.headers, envelope.REASON) or ""
    return made.topic, reason, envelope.text(made.headers, envelope.DETAIL) or ""


def test_a_batch_asks_once_for_each_schema_and_nobody_asks_for_it_again(
    world: World, registry: PlayedRegistry
) -> None:
    numbers = [registry.register(METER) for _ in range(3)]
    values = [framed(numbers[n % 3], METER, {"kwh": n / 2}) for n in range(1000)]
    made = world.batch(*values)
    assert [data_of(one)["kwh"] for one in made] == [n / 2 for n in range(1000)]
    assert sorted(registry.asked) == [f"/schemas/ids/{number}" for number in numbers]
    registry.away = answering(503)
    world.now_s += 1_000_000
    assert data_of(world.of(values[1])) == {"kwh": 0.5}
    assert len(registry.asked) == 3


def test_a_schema_that_the_registry_does_not_know_is_a_dead_letter(world: World) -> None:
    made = world.of(framed(7, METER, {"kwh": 1.0}))
    assert why(made) == ("dlq.enrich.v1", "unknown_schema", "the registry has no schema 7")


def test_while_the_registry_is_away_a_payload_waits_and_is_read_afterwards(
    world: World, registry: PlayedRegistry
) -> None:
    value = framed(registry.register(METER), METER, {"kwh": 1.0})
    registry.away = answering(503)
    made = world.of(value)
    assert why(made) == (
        "retry.enrich.v1",
        "not_yet",
        "schema_registry is away: it answers 503",
    )
    assert envelope.find(made.headers, envelope.AWAY) is not None
    registry.away = answering(200, b"<html>")
    assert "its answer is no JSON" in why(world.of(value))[2]
    registry.away = None
    assert data_of(world.of(value)) == {"kwh": 1.0}


def test_a_wrong_password_parks_nothing(registry: PlayedRegistry) -> None:
    world = World(registry_lookup(registry.url, "reader", "wrong"))
    made = world.of(framed(registry.register(METER), METER, {"kwh": 1.0}))
    assert why(made)[::2] == ("retry.enrich.v1", "schema_registry gives no answer: it answers 401")
    world.answers.close()


def test_where_no_registry_is_set_the_payload_waits_and_says_so() -> None:
    made = World(None).of(framed(7, METER, {"kwh": 1.0}))
    assert made.topic == "retry.enrich.v1"
    assert why(made)[2].startswith("HEADRACE_SCHEMA_REGISTRY_URL is not set")


def test_the_row_may_name_the_schema_that_its_enrichment_is_given(
    world: World, registry: PlayedRegistry
) -> None:
    made = world.of(framed(registry.register(METER), METER, {"kwh": 1.0}), to="lifted")
    assert data_of(made) == {"kwh": 1.0, "phase": 1}
    other = {"type": "record", "name": "Meter", "fields": [{"name": "litres", "type": "int"}]}
    made = world.of(framed(registry.register(other), other, {"litres": 1}), to="lifted")
    topic, reason, detail = why(made)
    assert (topic, reason) == ("dlq.enrich.v1", "not_avro")
    assert "kwh" in detail


@pytest.mark.parametrize("value", [b"\0\0\0", b"\1\0\0\0\7abc", b'{"kwh": 1}'])
def test_what_names_no_schema_is_a_dead_letter(
    world: World, registry: PlayedRegistry, value: bytes
) -> None:
    topic, reason, detail = why(world.of(value))
    assert (topic, reason) == ("dlq.enrich.v1", "not_avro")
    assert detail.startswith("byte 0: a zero and the four bytes of its schema's number")
    assert registry.asked == []


def test_a_datum_that_is_cut_off_or_too_long_is_a_dead_letter_that_says_where(
    world: World, registry: PlayedRegistry
) -> None:
    value = framed(registry.register(METER), METER, {"kwh": 1.0})
    for sent, says in ((value[:-1], "byte 12: "), (value + b"x", "byte 13: the datum ends here")):
        topic, reason, detail = why(world.of(sent))
        assert (topic, reason) == ("dlq.enrich.v1", "not_avro")
        assert detail.startswith(says)


ENDLESS = {"type": "record", "name": "A", "fields": [{"name": "a", "type": ["null", "A"]}]}


@pytest.mark.parametrize(
    ("schema", "more", "says"),
    [
        ("{}", {"schemaType": "JSON"}, "is JSON, and not AVRO"),
        (METER, {"references": [{"name": "x", "subject": "x", "version": 1}]}, "refers to others"),
        (ENDLESS, {}, "holds itself: that has no end"),
        ("no schema", {}, "cannot be used"),
    ],
)
def test_a_schema_by_which_nothing_can_be_read_makes_dead_letters_that_say_why(
    world: World, registry: PlayedRegistry, schema: Any, more: Any, says: str
) -> None:
    number = registry.register(schema, **more)
    topic, reason, detail = why(world.of(framed(number, METER, {"kwh": 1.0})))
    assert (topic, reason) == ("dlq.enrich.v1", "bad_schema")
    assert detail.startswith(f"schema {number} ")
    assert says in detail


def test_a_reader_that_cannot_be_is_refused_with_the_flow() -> None:
    with pytest.raises(ValueError, match="holds itself"):
        RegisteredAvro(str(ENDLESS).replace("'", '"'))


def test_who_reads_by_a_registry_may_have_to_wait_and_says_how() -> None:
    with pytest.raises(ValueError, match="meter asks 'schema_registry', which may be away"):
        replace(FLOW, endpoints=(replace(FLOW.endpoints[0], retry=None),))
    assert "asks        GET {schema registry}/schemas/ids/{key}" in picture(FLOW)


def test_a_look_up_cannot_have_its_name() -> None:
    other = HttpLookup("schema_registry", "http://h/{key}")
    with pytest.raises(ValueError, match="has the name of the schema registry"):
        replace(FLOW, endpoints=(replace(FLOW.endpoints[0], lookups=(other,)),))


def test_the_registry_and_its_password_come_from_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("HEADRACE_SCHEMA_REGISTRY_URL", "https://registry.example/api/")
    monkeypatch.setenv("HEADRACE_SCHEMA_REGISTRY_USERNAME", "reader")
    file = tmp_path / "password"
    file.write_text("secret\n")
    monkeypatch.setenv("HEADRACE_SCHEMA_REGISTRY_PASSWORD_FILE", str(file))
    found = JobSettings().registry
    assert found == registry_lookup("https://registry.example/api", "reader", "secret")
    assert found.url_of("7") == "https://registry.example/api/schemas/ids/7"
    assert "secret" not in repr(found)
    monkeypatch.setenv("HEADRACE_SCHEMA_REGISTRY_PASSWORD_FILE", str(tmp_path / "none"))
    with pytest.raises(ValueError, match=r"REGISTRY_PASSWORD_FILE=.*cannot be read"):
        JobSettings()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"USERNAME": "reader"}, "of which registry are user and password"),
        ({"URL": "registry:8081"}, "write http://host/path/"),
        ({"URL": "http://a:b@h"}, "url has a password in it"),
        ({"URL": "http://h", "PASSWORD": "p"}, "whose password"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], says: str
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(f"HEADRACE_SCHEMA_REGISTRY_{name}", value)
    with pytest.raises(ValueError, match=says):
        JobSettings()


def test_a_flow_that_needs_a_registry_does_not_come_up_without_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADRACE_FLOW", "tests.stream_jobs.registry_flow:FLOW")
    with pytest.raises(StackError, match="the flow reads Avro with a schema registry"):
        check_settings()
    monkeypatch.setenv("HEADRACE_SCHEMA_REGISTRY_URL", "http://127.0.0.1:8081")
    check_settings()


def test_newer_and_older_schemas_are_read_side_by_side(
    world: World, registry: PlayedRegistry
) -> None:
    values = [
        framed(registry.register(METER), METER, {"kwh": 1.0}),
        framed(registry.register(NEWER), NEWER, {"kwh": 2.0, "phase": 3}),
    ]
    found = [data_of(one) for one in world.batch(*values, to="lifted")]
    assert found == [{"kwh": 1.0, "phase": 1}, {"kwh": 2.0, "phase": 3}]
