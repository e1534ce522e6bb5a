"""What the other devices feel while one in a hundred is poisoned, and what becomes of that one.

    python -m benchmarks.poisoned_entities --devices 1000 --per-s 200 --seconds 40 --rounds 3

For each policy of the lane (or for one: `--policy wait`) a stack of its own, warmed up, and so many
rounds without and with poison. In each round one device in a hundred is new; with poison, the first
payload of each of these can be no event. Of each payload of the others: from when its POST was due
until a snapshot that covers it stands on the state topic, by the broker's clock. After a round the
broken payloads are mended and sent on again through the desk. Then the state of every device must
be the pure fold of what it has sent, in that order, with nothing waiting and the ledger closed.
"""

import argparse
import asyncio
import itertools
import json
import sys
import tempfile
import time
from base64 import b64encode
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, get_args

import httpx
import psycopg
from confluent_kafka import KafkaException

from clients.postgres.grants import OWNER
from local_stack.servers.postgres_address import as_role
from local_stack.terminal.errors import StackError
from local_stack.verbs.ledger import from_database
from shared.folding.snapshot import META
from shared.published.ledger import TERMS
from shared.retry_policy import WhenParked
from tests.end_to_end.launcher import Launcher
from tests.kafka_log import last_values, read_topic
from tests.oracle import expected_states

NEW_ONE_IN = 100
# each changes the status, so two of them in the wrong order end in another state
VALUES = (85, 18, 10, 25, 90, 10, 30, 5)
_AREA, _INGEST, _STATES = "area-01", "ingest.telemetry.v1", "state.device.v1"
_REGISTER = """INSERT INTO headrace.device (id, area, model)
               SELECT id, %s, 'thermo-c' FROM unnest(%s::text[]) AS one (id)"""
_STORED = "SELECT id, state FROM headrace.entity_state WHERE entity = 'device' AND NOT deleted"
_NEW = "new-"
_CONNECTIONS = 32
_WITHIN_S = 180.0
_TOLD_MAX = 20


Devices = Sequence[str]


class Sent(NamedTuple):
    device: str
    number: int  # of its payloads, from 1
    value: int  # that its event has to say, where it is broken once it is mended
    due_ms: float
    place: tuple[int, int]  # partition and offset in the ingest log

    def event(self, arrived_ms: int) -> dict[str, Any]:
        return {
            "type": "reading",
            "entity_id": self.device,
            "time_ms": arrived_ms,
            "arrived_ms": arrived_ms,
            "origin": [_INGEST, *self.place],
            "data": {"value": self.value, "area": _AREA},
        }


class Bench:
    def __init__(self, launcher: Launcher, policy: WhenParked, per_s: float) -> None:
        self._state_dir, self._policy, self._per_s = launcher.state_dir, policy, per_s
        status = launcher.status()
        self._kafka = status["kafka_bootstrap"]
        self._postgres = as_role(status["postgres_url"], OWNER)
        self._port = int(launcher.gateway_url.rpartition(":")[2])
        self._desk = httpx.Client(base_url=status["desk_url"], timeout=60, trust_env=False)
        self._sent: list[Sent] = []
        self._numbers: Counter[str] = Counter()

    def register(self, devices: Devices) -> None:
        with psycopg.connect(self._postgres) as connection:
            connection.execute(_REGISTER, [_AREA, [*devices]])
        wanted = {device.encode() for device in devices}

        def are_known() -> bool:
            return wanted <= {record.key for record in read_topic(self._kafka, "master.device.v1")}

        self._until(are_known, "all devices are known")

    def round(self, devices: Devices, seconds: float, poisoned: Devices = ()) -> list[float]:
        """How long the payloads of those that are not new took, in milliseconds, sorted."""
        known = len(self._sent)
        asyncio.run(self._load(devices, seconds, poisoned))
        others = [one for one in self._sent[known:] if not one.device.startswith(_NEW)]
        self._until(lambda: len(self._took_ms(others)) == len(others), "snapshots cover all")
        self._until(self._is_drained, "no payload is in flight")
        return sorted(self._took_ms(others))

    async def _load(self, devices: Devices, seconds: float, poisoned: Devices) -> None:
        """At a steady rate, however long each POST takes; those of a device one after the other."""
        began_s = time.time()

        async def send(connection: int) -> None:
            stream = await asyncio.open_connection("127.0.0.1", self._port)
            for number in range(int(self._per_s * seconds)):
                which = number % len(devices)
                if which % _CONNECTIONS != connection:
                    continue
                device, due_s = devices[which], began_s + number / self._per_s
                await asyncio.sleep(due_s - time.time())
                at = self._numbers[device]
                self._numbers[device] += 1
                value = VALUES[at % len(VALUES)]
                body = b'{"value": "%d"}' if device in poisoned and not at else b'{"value": %d}'
                place = await _post(*stream, device, body % value)
                self._sent.append(Sent(device, at + 1, value, due_s * 1000, place))
            stream[1].close()

        await asyncio.gather(*map(send, range(_CONNECTIONS)))

    def _took_ms(self, sent: Sequence[Sent]) -> list[float]:
        """Of those that a snapshot covers."""
        steps: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for record in read_topic(self._kafka, _STATES):
            count = json.loads(record.value or b"")["count"]
            steps[(record.key or b"").decode()].append((count, record.timestamp_ms))
        known = ((steps[one.device], one) for one in sent)
        found = ((own[bisect_left(own, (one.number,)) :], one) for own, one in known)
        return [after[0][1] - one.due_ms for after, one in found if after]

    def mend(self, poisoned: Devices) -> list[str]:
        """As an operator does. Tells what was not as the policy says, and what the desk refuses."""
        self._until(lambda: self._letters().keys() == {*poisoned}, "the poisoned have letters")
        wrong = self.stays(lambda: self._against_the_policy(poisoned))
        mended = b64encode(b'{"value": %d}' % VALUES[0]).decode()
        for device, letter in self._letters().items():
            trial = self._ask_desk(f"letters/{letter}/try", base64=mended)
            sent_on = self._ask_desk("redrives", ids=[letter], base64=mended)
            if trial["outcome"] != "event" or sent_on != {"ids": [letter], "refusals": {}}:
                wrong.append(f"{device}, mended: {trial}, sent on again: {sent_on}")
        return wrong

    def _against_the_policy(self, poisoned: Devices) -> Iterator[str]:
        follow = sum(self._numbers[device] - 1 for device in poisoned)
        waiting = follow if self._policy == "wait" else 0
        ends = self._ends()
        if (ends.get("parked", 0), ends.get("waiting", 0)) != (len(poisoned), waiting):
            yield f"{len(poisoned)} have to be parked, {waiting} to wait, but {ends}"

    def stays(self, look: Callable[[], Iterator[str]]) -> list[str]:
        with suppress(TimeoutError):
            self._until(lambda: not [*look()], "all is as it should be")
        return [*look()]

    def wrong(self) -> Iterator[str]:
        ends, all_sent = self._ends(), len(self._sent)
        if ends != {"received": all_sent, "stored": all_sent}:
            yield f"the ledger of {all_sent} payloads says {ends}"
        groups = self._desk.get("/api/groups", params={"by": "status"}).json()["groups"]
        if any(group["status"] != "done" for group in groups):
            yield f"the desk still has {groups}"
        gates = {record.key: record.value for record in read_topic(self._kafka, "gate.enrich.v1")}
        yield from (f"{key!r} waits: {value!r}" for key, value in gates.items() if value)
        states = last_values(self._kafka, _STATES)
        for state in states.values():
            del state[META]
        with psycopg.connect(self._postgres) as connection:
            stored: dict[str, Any] = dict(connection.execute(_STORED).fetchall())
        for device, state in self._expected().items():
            if (found := [states.get(device), stored.get(device)]) != [state, state]:
                yield f"{device} is {found} on the topic and in PostgreSQL, not {state}"

    def _expected(self) -> dict[str, dict[str, Any]]:
        arrived_ms = {
            (r.partition, r.offset): r.timestamp_ms for r in read_topic(self._kafka, _INGEST)
        }
        return expected_states([one.event(arrived_ms[one.place]) for one in self._sent])

    def _letters(self) -> dict[str, str]:
        """Of each device that has one parked, its id."""
        asked: dict[str, str | int] = {"status": "parked", "limit": 1_000}
        found = self._desk.get("/api/letters", params=asked).raise_for_status().json()["letters"]
        return {letter["entity_id"]: letter["id"] for letter in found}

    def _ask_desk(self, what: str, **asked: Any) -> Any:
        return self._desk.post(f"/api/{what}", json=asked).raise_for_status().json()

    def _is_drained(self) -> bool:
        ends = self._ends()
        return "in_flight" not in ends and ends.get("received") == len(self._sent)

    def _ends(self) -> dict[str, int]:
        """What has become of all payloads, by the product's own ledger."""
        found = from_database(None, None, time.time_ns() // 1_000_000, self._state_dir)
        return {term: found[term] for term in TERMS if found[term]}

    def _until(self, holds: Callable[[], bool], what: str) -> None:
        deadline_s = time.monotonic() + _WITHIN_S
        while not holds():
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"not within {_WITHIN_S:.0f} s: {what}")
            time.sleep(2)  # to look costs time of the same cores


async def _post(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, device: str, body: bytes
) -> tuple[int, int]:
    head = f"POST /v1/telemetry/{device} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}"
    writer.write(head.encode() + b"\r\n\r\n" + body)
    answer = await reader.readuntil(b"\r\n\r\n")
    length = int(answer.lower().partition(b"content-length:")[2].split()[0])
    receipt = json.loads(await reader.readexactly(length))
    if not answer.startswith(b"HTTP/1.1 202") or "offset" not in receipt:
        raise ConnectionError(f"a payload was not taken by Kafka at once: {receipt}")
    return receipt["partition"], receipt["offset"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", choices=get_args(WhenParked), help="default: each")
    parser.add_argument("--devices", type=int, default=1_000)
    parser.add_argument("--per-s", type=float, default=200, help="payloads of all together")
    parser.add_argument("--seconds", type=float, default=40, help="of load in each round")
    parser.add_argument("--rounds", type=int, default=3, help="of each kind")
    parser.add_argument("--warm-up", type=float, default=60, help="seconds of load before")
    options = parser.parse_args()
    if min(options.devices, options.rounds) < 1:
        parser.error("at least one device and one round")
    if options.per_s * options.seconds < 2 * options.devices:
        parser.error("so few payloads that none follows a device's first: give more --seconds")
    wrong = 0
    for policy in [options.policy] if options.policy else get_args(WhenParked):
        with tempfile.TemporaryDirectory(prefix="headrace-poisoned-") as folder:
            more = {"HEADRACE_WHEN_PARKED": policy, "HEADRACE_KEEP_ALIVE_S": "60"}
            launcher = Launcher(Path(folder) / "state", more)
            try:
                print(f"{policy}: ready in {launcher.start():.0f} s", flush=True)
                wrong += _measure(Bench(launcher, policy, options.per_s), options)
            except _WHAT_BREAKS_IT_OFF as error:
                print(f"{policy}: broken off: {str(error) or repr(error)}", file=sys.stderr)
                return 1
            finally:
                launcher.end()
    return 1 if wrong else 0


_WHAT_BREAKS_IT_OFF = (
    *(StackError, AssertionError, OSError, EOFError, KeyboardInterrupt),
    *(httpx.HTTPError, psycopg.Error, KafkaException),
)


def _measure(bench: Bench, options: argparse.Namespace) -> int:
    """How much is wrong."""
    names = [f"steady-{number:05}" for number in range(options.devices)]
    # the other one first in every second round: a stack gets faster with time
    turns = [poison for n in range(options.rounds) for poison in (n % 2 == 1, n % 2 == 0)]
    fleets = [
        [name if at % NEW_ONE_IN else f"{_NEW}{turn}-{at:05}" for at, name in enumerate(names)]
        for turn in range(len(turns))
    ]
    bench.register([*{*names, *itertools.chain(*fleets)}])
    bench.round(names, options.warm_up)
    seen: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    wrong: list[str] = []
    for poison, fleet in zip(turns, fleets, strict=True):
        poisoned = [device for device in fleet if poison and device.startswith(_NEW)]
        took_ms = bench.round(fleet, options.seconds, poisoned)
        p50, p99 = (took_ms[int(len(took_ms) * part)] for part in (0.5, 0.99))
        seen[poison].append((p50, p99))
        what = f"{len(poisoned)} poisoned: p50 {p50:,.0f} ms, p99 {p99:,.0f} ms"
        print(f"{what} of {len(took_ms):,} payloads of the others", flush=True)
        wrong += [*bench.mend(poisoned), *bench.stays(bench.wrong)]
    for at, name in enumerate(("p50", "p99")):
        clean, with_ms = (median(told[at] for told in seen[poison]) for poison in (False, True))
        ratio = with_ms / clean
        print(f"{name}, median: {clean:,.0f} ms, with poison {with_ms:,.0f} ms, {ratio:.2f} x")
    for one in wrong[:_TOLD_MAX]:
        print(f"WRONG {one}")
    print(f"{len(wrong)} wrong", flush=True)
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main())
