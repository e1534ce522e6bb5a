"""Webhooks: how many requests the job makes beside a plain loop of asyncio and httpx that signs the
same, how late they come, and what one server that is well feels of many that are not there.

    PYTHONPATH=. python -m benchmarks.webhooks [--events 10000] [--hooks 100] [--per-s 500]
        [--seconds 20] [--dead 1000] [--waiting 5] [--settles-s 70] [--rounds 2]

A broker, the job and the server that is asked are processes of their own, all on this machine.
"""

import argparse
import asyncio
import multiprocessing
import tempfile
import time
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import quantiles

import httpx
from confluent_kafka import Producer

from clients.kafka.create_topics import ensure_topics
from local_stack.machine.job_environment import job_environment
from local_stack.run.stack import Stack
from shared.events.envelope import event_headers, event_value
from shared.flow import FLOW
from shared.forwarding.cloud_event import CloudEvent, request
from shared.forwarding.hook import new_hook, record
from shared.forwarding.signature import key_of, new_secret, signed
from shared.settings import JobSettings
from shared.settings.secret_box import box_of_hooks
from shared.topic_names import HOOK_TOPIC
from tests.builders import event_record
from tests.job_process import JobProcess
from tests.kafka_log import eventually

_ENTITIES = 10  # of a hook
_AT_ONCE = 64  # requests of the loop
_LONGER = 3  # is what is measured among dead servers
_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
_SPAWN = multiprocessing.get_context("spawn")


class _Receiver(asyncio.Protocol):
    def __init__(self, arrivals: dict[str, float]) -> None:
        self._arrivals, self._unread = arrivals, b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._unread += data
        while True:
            head, found, rest = self._unread.partition(b"\r\n\r\n")
            if not found:
                return
            fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
            length = int(fields[b"content-length"])
            if len(rest) < length:
                return
            self._arrivals.setdefault(fields[b"webhook-id"].decode(), time.time())
            self._unread = rest[length:]
            self._transport.write(_ANSWER)


def _receive(pipe: Connection) -> None:
    """Tells its port, and when it hears a prefix, when each of these came."""

    async def run() -> None:
        loop, arrivals = asyncio.get_running_loop(), dict[str, float]()
        server = await loop.create_server(lambda: _Receiver(arrivals), "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        while (prefix := await loop.run_in_executor(None, pipe.recv)) is not None:
            pipe.send({name: at for name, at in arrivals.items() if name.startswith(prefix)})

    asyncio.run(run())


class Receiver:
    """The server of all hooks that are well."""

    def __init__(self) -> None:
        self._pipe, its = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_receive, args=(its,), daemon=True)
        self._process.start()
        self.url = f"http://127.0.0.1:{self._pipe.recv()}/in"

    def arrivals(self, prefix: str) -> dict[str, float]:
        self._pipe.send(prefix)
        return dict(self._pipe.recv())

    def close(self) -> None:
        self._pipe.send(None)
        self._process.join(5)


class Bench:
    def __init__(self, folder: Path, bootstrap: str, receiver: Receiver) -> None:
        self.settings = JobSettings(kafka_bootstrap=bootstrap, state_dir=folder / "job")
        self.settings.make_folders()
        ensure_topics(FLOW, self.settings)
        self._folder, self._receiver = folder, receiver
        self._box = box_of_hooks(self.settings.hooks_key_path, may_make=True)
        options = {"bootstrap.servers": bootstrap, "partitioner": "murmur2_random", "linger.ms": 5}
        self._producer = Producer(options)

    def add(self, name: str, entities: Sequence[str], url: str | None = None) -> None:
        """As `./headrace hooks add` does, which looks at all others first."""
        now_ms = int(time.time() * 1000)
        fields = {"name": name, "entities": entities, "made_ms": now_ms, "revision": now_ms}
        sealed = b64encode(self._box.seal(name.encode(), new_secret().encode())).decode()
        hook = new_hook(url=url or self._receiver.url, **fields).with_secret(sealed, now_ms)
        self._producer.produce(HOOK_TOPIC, record(hook), name)

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            self._producer.produce(HOOK_TOPIC, None, name)
        self._producer.flush(60)

    @contextmanager
    def job(self) -> Iterator[None]:
        variables = {**job_environment(), "HEADRACE_HOOKS_HOSTS_ALLOWED": "127.0.0.1"}
        with JobProcess("forward", self.settings, self._folder / "forward.log", variables):
            yield

    def write(self, prefix: str, entities: Sequence[str], count: int, per_s: float = 0) -> None:
        began_s = time.monotonic()
        for number in range(count):
            value, headers = _event(prefix, number, entities)
            key = entities[number % len(entities)]
            self._producer.produce("event.reading.v1", value, key, headers=headers)
            if number % 100 == 0:
                self._producer.poll(0)
            if per_s and number % 10 == 9:
                time.sleep(max(0.0, began_s + number / per_s - time.monotonic()))
        self._producer.flush(60)

    def came(self, prefix: str, count: int, within_s: float = 600) -> dict[str, float]:
        found: dict[str, float] = {}

        def have_all() -> bool:
            nonlocal found
            found = self._receiver.arrivals(prefix)
            return len(found) >= count

        eventually(have_all, within_s, 0.2)
        return found

    def rate(self, prefix: str, entities: Sequence[str], count: int) -> float:
        """From when all are there to the last request; the job is awake."""
        began_s = time.time()
        self.write(prefix, entities, count)
        return count / (max(self.came(prefix, count).values()) - began_s)


def _event(
    prefix: str, number: int, entities: Sequence[str]
) -> tuple[bytes, list[tuple[str, bytes]]]:
    entity = entities[number % len(entities)]
    name = f"{prefix}-{number}-{time.time():.4f}"
    one = event_record(number, entity_id=entity, id=name, value=float(number))
    return event_value(one), list(event_headers(one))


def _written_at(name: str) -> float:
    return float(name.rpartition("-")[2])


async def _loop_rate(url: str, entities: Sequence[str], count: int) -> float:
    """The same requests, from memory, each entity's in order; nothing is kept or tried again."""
    hook = new_hook(name="loop", url=url, made_ms=1)
    key, began_s, slots = key_of(new_secret()), time.monotonic(), asyncio.Semaphore(_AT_ONCE)
    by_entity: dict[str, list[CloudEvent]] = {}
    for number in range(count):
        value, headers = _event("loop", number, entities)
        entity = entities[number % len(entities)]
        event = CloudEvent(entity.encode(), value, headers)
        by_entity.setdefault(entity, []).append(event)
    async with httpx.AsyncClient(limits=httpx.Limits(max_connections=_AT_ONCE)) as client:

        async def send(events: list[CloudEvent]) -> None:
            for event in events:
                async with slots:
                    headers, body = request(hook, [event])
                    own = signed(event.id, int(time.time()), body, [key])
                    answer = await client.post(url, content=body, headers={**headers, **own})
                    answer.raise_for_status()

        await asyncio.gather(*map(send, by_entity.values()))
    return count / (time.monotonic() - began_s)


def _beside_the_loop(bench: Bench, receiver: Receiver, options: argparse.Namespace) -> None:
    names = [f"hook-{number:03}" for number in range(options.hooks)]
    entities = [f"device-{number:05}" for number in range(options.hooks * _ENTITIES)]
    for number, name in enumerate(names):
        bench.add(name, entities[number * _ENTITIES : (number + 1) * _ENTITIES])
    with bench.job():
        bench.rate("warm", entities, 500)
        for number in range(options.rounds):
            loop = asyncio.run(_loop_rate(receiver.url, entities, options.events))
            ours = bench.rate(f"rate{number}", entities, options.events)
            print(
                f"{options.hooks} hooks, {options.events} events: {ours:.0f}/s, the loop "
                f"{loop:.0f}/s: {ours / loop:.2f} of it",
                flush=True,
            )
            count = int(options.per_s * options.seconds)
            bench.write(f"late{number}", entities, count, options.per_s)
            came = bench.came(f"late{number}", count)
            late_ms = sorted(1000 * (at - _written_at(name)) for name, at in came.items())
            cuts = quantiles(late_ms, n=100)
            print(
                f"{options.per_s:.0f}/s for {options.seconds:.0f} s, from write to request: "
                f"p50 {cuts[49]:.0f}, p99 {cuts[98]:.0f}, at most {late_ms[-1]:.0f} ms",
                flush=True,
            )
    bench.delete(names)


def _among_the_dead(bench: Bench, options: argparse.Namespace) -> None:
    """Each round has hooks of its own, so that nothing waits for any when it is measured alone.
    A batch takes longer than a second, so what lasts few of them tells nothing."""
    count = _LONGER * options.events
    its = [f"well-{number}" for number in range(_ENTITIES)]
    bench.add("well", its)
    took_s = {"alone": 0.0, "among": 0.0}
    with bench.job():
        bench.rate("warm-well", its, 500)
        for number in range(options.rounds):
            dead = [f"dead-{number}-{one:04}" for one in range(options.dead)]
            for name in dead:
                bench.add(name, [name], "http://127.0.0.1:9/in")
            bench.rate(f"known{number}", its, 500)
            alone = bench.rate(f"alone{number}", its, count)
            bench.write(f"for-the-dead{number}", dead, options.waiting * len(dead))
            time.sleep(options.settles_s)
            among = bench.rate(f"among{number}", its, count)
            bench.delete(dead)
            took_s["alone"] += count / alone
            took_s["among"] += count / among
            print(
                f"a hook beside {len(dead)} for which nothing comes: {alone:.0f}/s; beside "
                f"{len(dead)} whose servers are not there: {among:.0f}/s: {among / alone:.2f}",
                flush=True,
            )
    bench.delete(["well"])
    print(f"of all rounds: {took_s['alone'] / took_s['among']:.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--hooks", type=int, default=100)
    parser.add_argument("--per-s", type=float, default=500)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--dead", type=int, default=1_000)
    parser.add_argument("--waiting", type=int, default=5, help="events for each of the dead")
    parser.add_argument("--settles-s", type=float, default=70, help="until each is asked rarely")
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    receiver = Receiver()
    with (
        tempfile.TemporaryDirectory() as name,
        Stack(Path(name) / "kafka", random_ports=True, services=("kafka",)) as stack,
    ):
        bench = Bench(Path(name), stack.kafka_bootstrap, receiver)
        _beside_the_loop(bench, receiver, options)
        _among_the_dead(bench, options)
    receiver.close()


if __name__ == "__main__":
    main()
