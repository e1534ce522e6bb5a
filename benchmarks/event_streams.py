"""Many readers of `GET /v1/events` beside those who POST: what the gateway takes for them, how late
an event comes, and what the POSTs feel of it.

    PYTHONPATH=. python -m benchmarks.event_streams [--streams 10000] [--events 500] [--posts 200]
        [--seconds 20] [--rounds 2] [--whole]

Each stream has one of a thousand devices, or with `--whole` all events. A gateway of one process
and a broker of its own; readers, POSTs and the writer of events are processes of their own, all on
this machine; where both want the processor, readers wait, for theirs is another machine's. In turn
without and with the streams, events being written all the time.
"""

import argparse
import asyncio
import multiprocessing
import os
import resource
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import quantiles

import uvloop
from confluent_kafka import Producer

from benchmarks.slow_clients import be_honest
from clients.kafka.create_topics import ensure_topics
from local_stack.run.stack import Stack
from shared.events.envelope import event_value
from shared.flow import FLOW
from shared.settings import JobSettings
from tests.builders import event_record
from tests.gateway.support import GatewayProcess

_DEVICES = [f"device-{number:04}" for number in range(1000)]
_READERS = 4  # processes
_OPENED_PER_S = 500
_SETTLES_S = 5.0
_TIME = b'"time_ms":'
_SPAWN = multiprocessing.get_context("spawn")


class Reader(asyncio.Protocol):
    """Counts what comes, and how late it comes."""

    latencies_ms: list[float]

    def __init__(self, target: str, latencies_ms: list[float]) -> None:
        self.latencies_ms = latencies_ms
        self.has_begun = self.is_lost = False
        self._target = target

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        transport.write(f"GET {self._target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

    def data_received(self, data: bytes) -> None:
        self.has_begun = self.has_begun or data.startswith(b"HTTP/1.1 200")
        now_ms, at = time.time() * 1000, data.find(_TIME)
        while at >= 0:
            self.latencies_ms.append(now_ms - int(data[at + len(_TIME) :].partition(b",")[0]))
            at = data.find(_TIME, at + 1)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.is_lost = True


def _read(port: int, streams: int, first: int, whole: bool, pipe: Connection) -> None:
    """Opens them, says so, and when it hears a word, how late events came since the word before."""

    os.nice(19)  # readers have machines of their own

    async def run() -> None:
        loop = asyncio.get_running_loop()
        latencies_ms: list[float] = []
        readers: list[Reader] = []
        begun_s = time.monotonic()
        for number in range(streams):
            device = _DEVICES[(first + number) % len(_DEVICES)]
            target = "/v1/events" + ("" if whole else f"?entity={device}")
            await asyncio.sleep(begun_s + number * _READERS / _OPENED_PER_S - time.monotonic())
            _, reader = await loop.create_connection(
                lambda target=target: Reader(target, latencies_ms), "127.0.0.1", port
            )
            readers.append(reader)
        while not all(reader.has_begun for reader in readers):
            await asyncio.sleep(0.05)
        pipe.send(time.monotonic() - begun_s)
        for _ in range(2):
            await asyncio.to_thread(pipe.recv)
            pipe.send((sum(reader.is_lost for reader in readers), [*latencies_ms]))
            latencies_ms.clear()

    uvloop.run(run())


def _write(bootstrap: str, per_s: int, pipe: Connection) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "partitioner": "murmur2_random", "linger.ms": 1}
    )
    begun_s, number = time.time(), 0
    while not pipe.poll():
        time.sleep(max(0.0, begun_s + number / per_s - time.time()))
        device = _DEVICES[number % len(_DEVICES)]
        event = event_record(
            number, id=f"e-{number}", entity_id=device, time_ms=time.time_ns() // 1_000_000
        )
        producer.produce("event.reading.v1", event_value(event), device)
        producer.poll(0)
        number += 1
    producer.flush(10)


def _posts(port: int, rate: float, seconds: float) -> list[float]:
    """How long each took, in milliseconds."""
    pipe, other = _SPAWN.Pipe()
    posting = _SPAWN.Process(target=be_honest, args=("127.0.0.1", port, rate, other))
    posting.start()
    time.sleep(seconds)
    pipe.send("over")
    latencies, failed = pipe.recv()
    posting.join()
    assert not failed, f"{failed} POSTs failed"
    return [took_s * 1000 for _, took_s in latencies]


def _told(latencies_ms: list[float]) -> str:
    cut = quantiles(latencies_ms, n=100)
    return f"p50 {cut[49]:.1f} ms, p99 {cut[98]:.1f} ms"


def _p99(latencies_ms: list[float]) -> float:
    return quantiles(latencies_ms, n=100)[98]


def _with_streams(gateway: GatewayProcess, options: argparse.Namespace) -> list[float]:
    before_mib = gateway.resident_mib()
    pipes, readers = [], []
    for number in range(_READERS):
        pipe, other = _SPAWN.Pipe()
        share = options.streams // _READERS
        arguments = gateway.port, share, number * share, options.whole, other
        readers.append(_SPAWN.Process(target=_read, args=arguments))
        readers[-1].start()
        pipes.append(pipe)
    opened_s = max(pipe.recv() for pipe in pipes)
    time.sleep(_SETTLES_S)
    for pipe in pipes:
        pipe.send("from now")
        pipe.recv()
    posts_ms = _posts(gateway.port, options.posts, options.seconds)
    for pipe in pipes:
        pipe.send("to now")
    heard = [pipe.recv() for pipe in pipes]
    lost, events_ms = sum(its for its, _ in heard), [ms for _, its in heard for ms in its]
    mib = gateway.resident_mib()
    streams = options.streams // _READERS * _READERS
    print(
        f"{streams} streams, open after {opened_s:.0f} s, {lost} lost: "
        f"{mib:.0f} MiB, {before_mib:.0f} before; {len(events_ms) / options.seconds:.0f} events "
        f"shown a second, {_told(events_ms)} after they were written"
    )
    for reader in readers:
        reader.join()
    return posts_ms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=10_000)
    parser.add_argument("--events", type=int, default=500, help="a second")
    parser.add_argument("--posts", type=float, default=200, help="a second")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--whole", action="store_true", help="each stream has all events")
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with (
        tempfile.TemporaryDirectory() as folder,
        Stack(Path(folder) / "kafka", random_ports=True, services=("kafka",)) as stack,
    ):
        settings = JobSettings(kafka_bootstrap=stack.kafka_bootstrap, state_dir=Path(folder))
        ensure_topics(FLOW, settings)
        pipe, other = _SPAWN.Pipe()
        writing = _SPAWN.Process(target=_write, args=(stack.kafka_bootstrap, options.events, other))
        writing.start()
        with GatewayProcess(
            stack.kafka_bootstrap,
            Path(folder) / "gateway",
            event_streams_max=options.streams,
            event_streams_share_max=1,  # all readers have one address
        ) as gateway:
            _posts(gateway.port, options.posts, 5)  # warm
            all_without: list[float] = []
            all_with: list[float] = []
            for _ in range(options.rounds):
                without = _posts(gateway.port, options.posts, options.seconds)
                with_them = _with_streams(gateway, options)
                all_without += without
                all_with += with_them
                print(f"POST without: {_told(without)}; with: {_told(with_them)}")
                time.sleep(_SETTLES_S)
            ratio = _p99(all_with) / _p99(all_without)
            print(f"all POSTs without: {_told(all_without)}; with: {_told(all_with)}: {ratio:.2f}")
        pipe.send("over")
        writing.join()


if __name__ == "__main__":
    main()
