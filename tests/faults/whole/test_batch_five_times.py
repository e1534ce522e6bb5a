"""A batch of 2,000 lines under one key, sent five times, once into the spool, with a kill of fold
and two of the gateway in between: it counts once, everywhere."""

import asyncio
import json
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from local_stack.run.take_down import hold, release
from tests.faults.client_answers import Told
from tests.faults.whole import posts
from tests.faults.whole.callers import Connection
from tests.faults.whole.clocks import said
from tests.faults.whole.faults import PARTS
from tests.faults.whole.fleet import Fleet
from tests.faults.whole.oracles import Run
from tests.faults.whole.rig import Rig, signal_all
from tests.faults.whole.run import judge
from tests.faults.whole.sends import EVENT, Answer, Message, Sends

pytestmark = pytest.mark.stack

DEVICE, LINES, TIMES = "device-0004", 2_000, 5
_BEGAN_MS = 1_795_264_963_000


def _batch() -> list[Message]:
    """Every second line says when it was; the machine goes through all its states."""
    bodies = [
        json.dumps({"value": n * 37 % 101, "n": n, **said(_BEGAN_MS + n if n % 2 else None)})
        for n in range(LINES)
    ]
    return [
        Message(n, "telemetry", DEVICE, body.encode(), "one-key", EVENT, is_line=True)
        for n, body in enumerate(bodies)
    ]


def test_a_batch_that_is_sent_five_times_counts_once_everywhere(tmp_path: Path) -> None:
    run, violations = asyncio.run(_run(tmp_path))
    assert violations == []
    entity = ("device", DEVICE)
    assert run.books.shown[entity]["count"] == LINES
    assert run.books.stored[entity][1]["count"] == LINES
    ledger = run.books.ledger
    assert (ledger["received"], ledger["stored"]) == (TIMES * LINES, LINES)
    assert ledger["duplicate"] + ledger["late_duplicate"] == (TIMES - 1) * LINES
    assert (ledger["in_flight"], ledger["difference"]) == (0, 0)


async def _run(folder: Path) -> tuple[Run, list[str]]:
    async with Rig(folder) as rig:
        await rig.start()
        sends = Sends(folder / "ledger.jsonl")
        client = _Client(rig, sends)
        assert await client.send() == {Told.WRITTEN}
        await asyncio.to_thread(hold, rig.state_dir, "kafka")
        assert await client.send() == {Told.SPOOLED}
        await _kill("gateway", rig)
        await asyncio.to_thread(release, rig.state_dir, "kafka")
        await client.send()
        await rig.until(lambda: rig.spool_records() == 0, "the spool is drained")
        signal_all([await rig.pid(PARTS["Spark's JVM"])], signal.SIGKILL)
        await client.send()
        await _kill("gateway", rig)
        await client.send()
        client.close()
        await rig.until(rig.launcher.is_ready, "the stack is ready")
        found = await judge(rig, sends)
        sends.close()
        return found


class _Client:
    """Each line of it gets its receipt each time."""

    def __init__(self, rig: Rig, sends: Sends) -> None:
        self._fleet = Fleet(rig.gateway_port, sends, seed=1, per_s=1)
        self._caller = Connection(rig.gateway_port)
        self._batch = _batch()
        sends.add(self._batch)

    def close(self) -> None:
        self._caller.close()

    async def send(self) -> set[Told]:
        answers: Sequence[Answer] = []
        for _ in range(100):
            answers = await self._fleet.send(self._caller, posts.lines(self._batch))
            assert not self._fleet.wrong, self._fleet.wrong
            if answers[0].told not in (Told.DEFINITE, Told.UNKNOWN):
                break
            await asyncio.sleep(0.3)
        return {answer.told for answer in answers}


async def _kill(part: str, rig: Rig) -> None:
    pid = await rig.pid(PARTS[part])
    signal_all([pid], signal.SIGKILL)
    await rig.until(lambda: PARTS[part](rig.launcher) not in (None, pid), f"{part} is back")
