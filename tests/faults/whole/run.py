"""One run of the whole stack, hurt as a seed says, and what it has shown."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import psycopg

from tests.faults.whole import oracles
from tests.faults.whole.books import read_books
from tests.faults.whole.callers import Program, programs
from tests.faults.whole.cluster import CLUSTER_KINDS, CUT_KINDS, STORE_KINDS
from tests.faults.whole.faults import KINDS
from tests.faults.whole.fleet import LATE_DEVICES, Fleet
from tests.faults.whole.gateways import GATEWAY_KINDS
from tests.faults.whole.movers import move_devices, register
from tests.faults.whole.rig import NotWellError, Rig
from tests.faults.whole.run_log import say
from tests.faults.whole.sends import Sends
from tests.faults.whole.stuck import why_not_through
from tests.faults.whole.watcher import Watcher

_FAULTS_IN_A_ROW = 3  # then all has to be well again
_ALL_KINDS = KINDS | CLUSTER_KINDS | CUT_KINDS | STORE_KINDS | GATEWAY_KINDS
_DRAINED_WITHIN_S = 600.0  # a lost checkpoint may have brought the whole log again


class Load(NamedTuple):
    """What the fleet sends."""

    messages: int  # at least, until every fault is over
    per_s: float  # requests
    lines_per_s: float = 0.0  # payloads in batches, beside those
    times: int = 1  # what has a key is sent so often
    needs_programs: bool = False  # Java's and Go's clients must be there


class Report(NamedTuple):
    seed: int
    messages: int
    tries: int
    accepted: int
    planned: int
    fired: Counter[str]
    doubled: dict[str, int]
    violations: list[str]
    longest_until_well_s: float
    # from the load's end until all of it held, corrections of what fold counted twice included
    held_after_s: float
    seconds: float

    @property
    def is_good(self) -> bool:
        return not self.violations and self.fired.total() == self.planned

    def as_document(self) -> dict[str, Any]:
        return {**self._asdict(), "is_good": self.is_good}


async def run(rig: Rig, seed: int, load: Load, faults: Sequence[str]) -> Report:
    """On a stack that is up, of which only these runs know. The load goes on until so many messages
    were sent in all and every fault is over."""
    folder = rig.state_dir.parent / "clients"
    async with programs(folder, rig.launcher.gateway_url) as clients:
        for language in {"java", "go"} - clients.keys():
            assert not load.needs_programs, f"there is no client in {language}"
            say(f"no client in {language}: what makes one is not on this machine")
        return await _run(rig, seed, load, faults, clients)


async def _run(
    rig: Rig, seed: int, load: Load, faults: Sequence[str], clients: Mapping[str, Program]
) -> Report:
    began_s = time.monotonic()
    chance, fired, longest_s = random.Random(f"faults {seed}"), Counter[str](), 0.0
    sends = Sends(rig.state_dir.parent / "ledger.jsonl")
    fleet = Fleet(rig.gateway_port, sends, seed, *load[1:4], clients)
    watcher = Watcher(rig)
    violations: list[str] = []
    loading = asyncio.create_task(fleet.run())
    moving = asyncio.create_task(move_devices(rig, seed))
    watcher.start()
    try:
        await rig.well(fleet)
        for number, name in enumerate(faults, 1):
            await asyncio.sleep(chance.uniform(0.3, 2.5))
            fault_s = time.monotonic()
            await _ALL_KINDS[name](rig, chance)
            fired[name] += 1
            say(
                f"{fault_s - began_s:6.1f} s  {name} ({time.monotonic() - fault_s:.1f} s), "
                f"{len(sends.messages)} messages"
            )
            if number % _FAULTS_IN_A_ROW == 0 or number == len(faults):
                hurt_s = time.monotonic()
                await rig.well(fleet)
                longest_s = max(longest_s, time.monotonic() - hurt_s)
                say(f"{time.monotonic() - began_s:6.1f} s  all is well")
        while len(sends.messages) < load.messages:
            await asyncio.sleep(0.2)
    except Exception as error:  # the rest of the plan cannot be, what was sent is judged
        violations.append(f"{type(error).__name__}: {error}")
        say(f"the plan ends: {violations[-1]}")
        if rig.launcher.status()["kafka_bootstrap"] is None:
            raise  # nothing is up that could be judged
    finally:
        rig.heal()
        with suppress(psycopg.OperationalError):  # then the oracles show it
            await asyncio.to_thread(register, rig, LATE_DEVICES)
        moving.cancel()
        fleet.over = True
        await loading
    ended_s = time.monotonic()
    found = await judge(rig, sends)
    held_after_s = time.monotonic() - ended_s
    await asyncio.to_thread(watcher.stop)
    sends.close()
    run = found[0]
    violations += [*fleet.wrong, *watcher.violations, *rig.lies, *found[1]]
    return Report(
        seed=seed,
        messages=len(sends.messages),
        tries=sends.tries,
        accepted=sum(map(sends.is_accepted, sends.messages)),
        planned=len(faults),
        fired=fired,
        doubled=oracles.doubled(run),
        violations=violations,
        longest_until_well_s=round(longest_s, 1),
        held_after_s=round(held_after_s, 1),
        seconds=round(time.monotonic() - began_s, 1),
    )


async def judge(rig: Rig, sends: Sends) -> tuple[oracles.Run, list[str]]:
    """What is still on its way may arrive, and what fold has counted twice be corrected; what is
    wrong then is wrong."""
    began_s = time.monotonic()
    why_not: list[str] = []
    try:
        await rig.until(rig.is_drained, "all is through", _DRAINED_WITHIN_S)
    except NotWellError as error:  # the ledger's oracle shows it
        why_not = [str(error), *await why_not_through(rig)]
    say(f"         all is through after {time.monotonic() - began_s:.1f} s")
    deadline_s = time.monotonic() + rig.seen_within_s
    while True:
        status = rig.launcher.status()
        servers = status["kafka_bootstrap"], status["postgres_url"], rig.gateway_urls
        books = await asyncio.to_thread(read_books, rig.state_dir, *servers)
        run = oracles.Run(sends.messages, sends.answers, books, rig.spool_flips, rig.gateways)
        found = await asyncio.to_thread(oracles.violations, run)
        say(f"         judged after {time.monotonic() - began_s:.1f} s: {len(found)} do not hold")
        if not found:
            return run, []
        if time.monotonic() > deadline_s:
            return run, [*found, *(why_not or await why_not_through(rig))]
        say(f"         such as: {found[0][:150]}")
        await asyncio.sleep(3)
