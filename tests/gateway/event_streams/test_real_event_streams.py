"""`GET /v1/events` on a real broker: what is shown, and that nothing is lost or doubled."""

import ast
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from local_stack.run.stack import Stack
from shared.events.envelope import EventRecord
from tests.builders import event_record
from tests.gateway.auth.test_real_credentials import Cli
from tests.gateway.event_streams.support import Frame, Stream, Writer, frames_of, reading
from tests.gateway.support import GatewayProcess, until

pytestmark = pytest.mark.stack
_numbers = count(1)


@pytest.fixture
def writer(broker: Stack) -> Writer:
    return Writer(broker.kafka_bootstrap)


@pytest.fixture
def gateway(broker: Stack, tmp_path: Path) -> Iterator[GatewayProcess]:
    with GatewayProcess(broker.kafka_bootstrap, tmp_path, event_heartbeat_s=0.5) as gateway:
        yield gateway


def readings(entity_id: str, number: int, **changes: Any) -> list[EventRecord]:
    """With ids of their own in all of the session."""
    return [
        event_record(n, id=f"{entity_id}-{n}", entity_id=entity_id, **changes)
        for n in (next(_numbers) for _ in range(number))
    ]


def ids(frames: list[Frame]) -> list[str]:
    return [frame.data["id"] for frame in frames]


def a_device() -> str:
    return f"device-{next(_numbers)}"


def test_what_comes_is_shown_and_what_was_before_is_not(
    gateway: GatewayProcess, writer: Writer
) -> None:
    device, other = a_device(), a_device()
    writer.write(*readings(device, 3))
    with reading(gateway, entity=device) as stream, reading(gateway, type="retired") as retired:
        assert next(stream.frames).id
        assert next(retired.frames).id
        new = readings(device, 2)
        writer.write(*new, *readings(other, 2), *readings(device, 1, type="retired", data={}))
        begun_s = time.monotonic()
        shown = stream.take(3)
        assert time.monotonic() - begun_s < 5
        assert ids(shown)[:2] == [record.id for record in new] or "retired" in str(shown)
        assert {frame.data["entity_id"] for frame in shown} == {device}
        assert [frame.data["type"] for frame in retired.take(1)] == ["retired"]
    assert stream.answer.headers["content-type"] == "text/event-stream"


def test_the_whole_log_is_shown_or_what_came_since_a_time(
    gateway: GatewayProcess, writer: Writer
) -> None:
    device = a_device()
    first = readings(device, 50)
    writer.write(*first)
    time.sleep(0.05)
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 1))
    time.sleep(1.1)
    second = readings(device, 20)
    writer.write(*second)
    whole = {"from": "earliest"}
    with reading(gateway, entity=device, **whole) as stream:
        assert ids(stream.take(70)) == [record.id for record in (*first, *second)]
    with reading(gateway, entity=device, since=since) as stream:
        assert ids(stream.take(20)) == [record.id for record in second]


def test_two_nodes_and_a_kill_lose_nothing_and_double_nothing(
    broker: Stack, writer: Writer, tmp_path: Path
) -> None:
    devices = [a_device() for _ in range(5)]
    written: list[EventRecord] = []
    is_over = threading.Event()

    def write() -> None:
        chance = Random(27)
        while not is_over.is_set():
            kind = "reading" if chance.random() < 0.7 else "status_changed"
            some = readings(chance.choice(devices), chance.randrange(1, 8), type=kind)
            writer.write(*some)
            written.extend(some)
            time.sleep(0.01)

    shown: list[Frame] = []
    chance = Random(7)
    small = {"event_recent_bytes_max": 40_000, "event_heartbeat_s": 0.2}
    with (
        GatewayProcess(broker.kafka_bootstrap, tmp_path / "one", **small) as one,
        GatewayProcess(broker.kafka_bootstrap, tmp_path / "other") as other,
    ):
        last_id = ""
        with reading(one, entity=devices) as stream:
            last_id = next(stream.frames).id
        writing = threading.Thread(target=write)
        writing.start()
        try:
            for turn in range(12):
                time.sleep(chance.random() * 0.6)
                node = chance.choice((one, other))
                if turn in (4, 8):
                    one.kill()
                    one.start()
                with reading(node, last_id, entity=devices) as stream:
                    kill = turn in (3, 7) and node is one
                    try:
                        for _ in range(chance.randrange(1, 300)):
                            frame = next(stream.frames)
                            last_id = frame.id
                            if frame.data is not None:
                                shown.append(frame)
                            if kill and chance.random() < 0.05:
                                one.kill()
                    except (httpx.TransportError, StopIteration):
                        pass
                if one.process is not None and one.process.poll() is not None:
                    one.start()
        finally:
            is_over.set()
            writing.join()
        assert len(written) > 500
        with reading(other, last_id, entity=devices) as stream:
            shown += stream.take(len(written) - len(shown))
            assert next(stream.frames).data is None  # a heartbeat, and no event twice
    assert sorted(ids(shown)) == sorted(record.id for record in written)
    for device in devices:
        for kind in ("reading", "status_changed"):
            mine = [r.id for r in written if (r.entity_id, r.type) == (device, kind)]
            assert [i for i in ids(shown) if i in set(mine)] == mine


def test_a_slow_reader_gets_a_last_word_and_goes_on_from_there(
    broker: Stack, writer: Writer, tmp_path: Path
) -> None:
    device = a_device()
    settings = {"event_recent_bytes_max": 300_000, "body_pause_max_s": 4}
    with GatewayProcess(broker.kafka_bootstrap, tmp_path, **settings) as gateway:
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", gateway.port))
        slow.sendall(b"GET /v1/events?entity=%b HTTP/1.1\r\nHost: x\r\n\r\n" % device.encode())
        begun = slow.recv(1000)
        assert begun.startswith(b"HTTP/1.1 403"), begun  # a foreign name
        slow.close()
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", gateway.port))
        slow.sendall(
            b"GET /v1/events?entity=%b HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % device.encode()
        )
        until(lambda: b"id: " in slow.recv(4096, socket.MSG_PEEK), 5)
        large = readings(device, 1500, data={"note": "x" * 5000})
        writer.write(*large)
        with reading(gateway, entity=a_device()) as stream:
            assert next(stream.frames).id  # nobody else is held up
        time.sleep(3)
        raw = b""
        slow.settimeout(20)
        while some := slow.recv(1 << 20):
            raw += some
        slow.close()
        lines = iter(raw.decode().partition("\r\n\r\n")[2].splitlines())
        *shown, end = [frame for frame in frames_of(lines) if frame.data is not None]
        assert (end.event, end.data["reason"]) == ("end", "slow")
        assert end.data["last_event_id"] == end.id
        assert 0 < len(shown) < len(large)
        with reading(gateway, end.id, entity=device) as stream:
            shown += stream.take(len(large) - len(shown))
    assert ids(shown) == [record.id for record in large]


def test_tenants_devices_and_operators_see_what_they_may(
    broker: Stack, writer: Writer, tmp_path: Path
) -> None:
    credentials = Cli(broker.kafka_bootstrap, tmp_path)
    device = a_device()

    def as_(made: dict[str, Any]) -> dict[str, dict[str, str]]:
        return {"headers": {"authorization": f"Bearer {made['token']}"}}

    acme = credentials.add("--operator", "--tenant", "acme")
    own = credentials.add("--device", device, "--tenant", "acme")
    none = credentials.add("--operator")
    every = credentials.add("--operator", "--all-tenants")
    settings = {"auth": "token", "event_heartbeat_s": 0.3}
    with GatewayProcess(broker.kafka_bootstrap, tmp_path, **settings) as gateway:

        def asks(made: dict[str, Any], **asked: Any) -> Any:
            with reading(gateway, **asked, **as_(made)) as stream:
                return stream.answer.status_code, (
                    stream.answer.json()["code"] if stream.answer.status_code != 200 else ""
                )

        until(lambda: asks(every)[0] == 200, 20)
        assert asks({"token": "hr_no_no"}) == (401, "unauthenticated")
        assert asks(acme, tenant="beta") == (403, "not_your_tenant")
        assert asks(none, tenant="acme") == (403, "not_your_tenant")
        assert asks(own, entity="other") == (403, "not_your_id")
        with (
            reading(gateway, **as_(acme)) as of_acme,
            reading(gateway, **as_(own)) as of_own,
            reading(gateway, **as_(none)) as of_none,
            reading(gateway, tenant="beta", **as_(every)) as of_beta,
            reading(gateway, entity=device, **as_(acme)) as of_one,
        ):
            streams = (of_acme, of_own, of_none, of_beta, of_one)
            for stream in streams:
                assert next(stream.frames).id
            for tenant in ("acme/", "beta/", ""):
                writer.write(*readings(f"{tenant}{device}", 2))
                writer.write(*readings(f"{tenant}{device}-b", 2))

            def seen(stream: Stream, number: int) -> set[str]:
                found = {frame.data["id"].rpartition("-")[0] for frame in stream.take(number)}
                assert next(stream.frames).data is None
                return found

            assert seen(of_acme, 4) == {f"acme/{device}", f"acme/{device}-b"}
            assert seen(of_own, 2) == seen(of_one, 2) == {f"acme/{device}"}
            assert seen(of_none, 4) == {device, f"{device}-b"}
            assert seen(of_beta, 4) == {f"beta/{device}", f"beta/{device}-b"}

            credentials.ask("revoke", own["key_id"])
            (end,) = of_own.take(1)
            assert (end.event, end.data["reason"]) == ("end", "unauthenticated")
            assert next(of_acme.frames).data is None
        with reading(gateway, **{"from": "earliest"}, **as_(acme)) as stream:
            assert {i.partition("/")[0] for i in ids(stream.take(4))} == {"acme"}
            assert next(stream.frames).data is None  # there is nothing else for it


def test_what_retention_has_deleted_is_no_silent_gap(
    broker: Stack, gateway: GatewayProcess, writer: Writer
) -> None:
    topic, device = "event.retired.v1", a_device()
    with reading(gateway, type="retired") as stream:
        old_id = next(stream.frames).id
    writer.write(*readings(device, 5, type="retired", data={}))
    admin = AdminClient({"bootstrap.servers": broker.kafka_bootstrap})
    places = [TopicPartition(topic, partition, -1) for partition in range(4)]
    for deleted in admin.delete_records(places).values():
        deleted.result(60)
    with reading(gateway, old_id, type="retired") as stream:
        stream.take(5)  # it is in memory still
    gateway.stop()
    gateway.start()
    with reading(gateway, old_id, type="retired") as stream:
        assert stream.answer.status_code == 410
        told = stream.answer.json()
    assert told["code"] == "position_gone"
    assert topic in told["detail"]
    with reading(gateway, type="retired", **{"from": "earliest"}) as stream:
        assert stream.answer.status_code == 200


def test_a_gateway_that_ends_says_so_and_takes_no_new_stream(
    gateway: GatewayProcess, writer: Writer
) -> None:
    device = a_device()
    with reading(gateway, entity=device) as stream:
        next(stream.frames)
        new = readings(device, 1)
        writer.write(*new)
        assert ids(stream.take(1)) == [new[0].id]
        begun_s = time.monotonic()
        assert gateway.stop() == 0
        assert time.monotonic() - begun_s < 8
        (end,) = stream.take(1)
        assert (end.event, end.data["reason"]) == ("end", "ending")
        assert list(stream.frames) == []


def test_there_are_no_more_streams_than_there_may_be(broker: Stack, tmp_path: Path) -> None:
    settings = {"event_streams_max": 2, "connections_max": 2}
    with (
        GatewayProcess(broker.kafka_bootstrap, tmp_path, **settings) as gateway,
        reading(gateway) as one,
        reading(gateway) as two,
    ):
        assert next(one.frames).id
        assert next(two.frames).id
        with reading(gateway) as third:
            assert third.answer.status_code == 503
            assert third.answer.json()["code"] == "too_many_streams"
            assert int(third.answer.headers["retry-after"]) > 0
        assert gateway.post().status_code == 202  # they take no connection from those who post
        metrics = gateway.client.get("/metrics").text
        assert "headrace_gateway_event_streams 2.0" in metrics


def test_without_kafka_streams_live_on_and_miss_nothing(
    broker: Stack, gateway: GatewayProcess, writer: Writer
) -> None:
    device = a_device()
    with reading(gateway, entity=device) as stream:
        next(stream.frames)
        broker.hold("kafka")
        try:
            time.sleep(3)
            assert next(stream.frames).data is None
        finally:
            broker.release("kafka")
        new = readings(device, 3)
        writer.write(*new)
        assert ids(stream.take(3)) == [record.id for record in new]


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_curl_shows_events_as_they_come(gateway: GatewayProcess, writer: Writer) -> None:
    device = a_device()
    url = f"http://127.0.0.1:{gateway.port}/v1/events?entity={device}"
    command = ["curl", "-sN", url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as curl:
        assert curl.stdout
        frames = frames_of(line.rstrip("\n") for line in curl.stdout)
        assert next(frames).id
        new = readings(device, 1)
        writer.write(*new)
        (shown,) = Stream(httpx.Response(200), frames).take(1)
        assert shown.data["id"] == new[0].id
        curl.kill()


def test_the_reader_of_the_documents_goes_on_where_it_was(
    gateway: GatewayProcess, writer: Writer, tmp_path: Path
) -> None:
    page = (Path(__file__).parents[3] / "docs" / "consumers.md").read_text()
    (sample,) = (one for one in re.findall(r"```python\n(.+?)```", page, re.S) if "httpx" in one)
    device = a_device()
    url = f"127.0.0.1:{gateway.port}/v1/events?entity={device}"
    program = tmp_path / "reader.py"
    program.write_text(sample.replace("127.0.0.1:8080/v1/events", url))
    shown: list[str] = []

    def read(number: int, write: list[EventRecord]) -> None:
        command = [sys.executable, str(program)]
        with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as reader:
            until(lambda: (tmp_path / "place.txt").exists(), 10)
            writer.write(*write)
            assert reader.stdout
            shown.extend(ast.literal_eval(reader.stdout.readline())["id"] for _ in range(number))
            shown_s = time.time()
            # by the next sign of life, if not before, it has written the place of the last one
            until(lambda: place() and wrote_at_s() > shown_s, 5)
            assert place() != before
            reader.kill()

    def wrote_at_s() -> float:
        return (tmp_path / "place.txt").stat().st_mtime

    def place() -> str:
        path = tmp_path / "place.txt"
        return path.read_text() if path.exists() else ""

    records = readings(device, 6)
    before = place()
    read(2, records[:2])
    writer.write(*records[2:4])  # nobody reads
    before = place()
    read(4, records[4:])
    assert shown == [record.id for record in records]


@pytest.mark.parametrize(
    ("asked", "status", "code"),
    [
        ({"type": "nonsense"}, 400, "unknown_type"),
        ({"types": "reading"}, 400, "unknown_parameter"),
        ({"entity": "a/b"}, 400, "bad_entity_id"),
        ({"after": "nonsense"}, 400, "bad_event_id"),
        ({"since": "yesterday"}, 400, "bad_time"),
        ({"from": "there"}, 400, "bad_start"),
    ],
)
def test_what_cannot_be_asked_is_told(
    gateway: GatewayProcess, asked: dict[str, str], status: int, code: str
) -> None:
    with reading(gateway, **asked) as stream:
        assert (stream.answer.status_code, stream.answer.json()["code"]) == (status, code)
