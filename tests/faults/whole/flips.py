"""A bit in a file of the product's own is another than was written, as disks do. The part must mend
it by itself, or stop by name; then the rig does what docs/operations.md says. It never may lie."""

import asyncio
import functools
import random
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx

from local_stack.run.take_down import hold, release
from tests.faults.whole.books import set_aside_folder, shown_and_published
from tests.faults.whole.rig import Rig
from tests.faults.whole.run_log import say

Fault = Callable[[Rig, random.Random], Awaitable[None]]
JOBS = ("enrich", "retry", "fold", "aggregate", "persist")
# of each job the files that a flip may hit
_FILES = {
    "offsets of enrich": ("enrich", "enrich/offsets/[0-9]*"),
    "commits of fold": ("fold", "fold/commits/[0-9]*"),
    "offsets of persist": ("persist", "persist/offsets/[0-9]*"),
    "metadata of aggregate": ("aggregate", "aggregate/metadata"),
    "a state of retry": ("retry", "retry/state/0/[01]/*.changelog"),
    "ahead.json": ("enrich", "enrich/ahead.json"),
    "begins_at.json": ("fold", "*/begins_at.json"),
    "topic_ids.json": ("persist", "*/topic_ids.json"),
    "a lease": ("enrich", "*.lease"),
    "made-for.json": ("fold", "*.made-for.json"),
}
OF_JOBS = tuple(f"a bit flipped: {name}" for name in _FILES)
_WORKERS_LIVE_ON_S = 2.0
_SPOOLED_AFTER_S = (6.0, 8.0)  # the gateway gives Kafka 5 s


def flip_a_bit(path: Path, chance: random.Random, begin: int = 0) -> None:
    """In place: whoever has it open or mapped sees it."""
    with path.open("r+b") as file:
        file.seek(0, 2)
        at = chance.randrange(begin, file.tell())
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 1 << chance.randrange(8)]))
    say(f"           flipped a bit of byte {at} of {path.name}")


async def _in_a_job(job: str, pattern: str, rig: Rig, chance: random.Random) -> None:
    await rig.until(lambda: _newest(rig, pattern), f"there is {pattern}")
    await rig.hold_spark()
    await asyncio.sleep(_WORKERS_LIVE_ON_S)  # and would write over it
    path = _newest(rig, pattern)
    assert path is not None
    job = path.parent.name if path.parent.name in JOBS else job
    flip_a_bit(path, chance)
    rig.has_flipped = True
    released_s = time.time()
    await rig.release_spark()
    folder = rig.state_dir / "checkpoints" / job

    def has_gone_on() -> bool:
        marks = [*folder.glob("offsets/[0-9]*"), folder / "ahead.json"]
        return any(mark.exists() and mark.stat().st_mtime > released_s for mark in marks)

    await rig.until(lambda: has_gone_on() or rig.stopped_jobs(), f"{job} goes on, or says why not")
    await rig.mend_what_stopped()


def _newest(rig: Rig, pattern: str) -> Path | None:
    files = [f for f in (rig.state_dir / "checkpoints").glob(pattern) if f.is_file()]
    return max(files, key=lambda f: f.stat().st_mtime_ns, default=None)


async def _filled_spool(rig: Rig, chance: random.Random) -> Path:
    """Its newest segment, which has payloads that Kafka has not."""
    rig.proxies["gateway"].way = "stall"
    await asyncio.sleep(chance.uniform(*_SPOOLED_AFTER_S))
    segments = rig.state_dir / "spool"

    def newest() -> list[Path]:
        found = [f for f in segments.glob("topics/*/*.frames") if f.stat().st_size]
        return sorted(found, key=lambda f: f.stat().st_mtime_ns)[-1:]

    await rig.until(newest, "something is in the spool")
    await asyncio.sleep(chance.uniform(0, 2))
    return newest()[0]


async def _in_the_spool(is_restarted: bool, rig: Rig, chance: random.Random) -> None:
    segment = await _filled_spool(rig, chance)
    if is_restarted:
        await asyncio.to_thread(hold, rig.state_dir, "gateway")
    rig.spool_flips += 1
    flip_a_bit(segment, chance)
    await _drained(is_restarted, rig)
    await rig.until(lambda: [*set_aside_folder(rig.state_dir).iterdir()], "it is set aside")


async def _drained(is_held: bool, rig: Rig) -> None:
    rig.proxies["gateway"].way = "pass"
    if is_held:
        await asyncio.to_thread(release, rig.state_dir, "gateway")
    await rig.until(lambda: rig.spool_records() == 0, "the spool is drained")


async def _in_the_positions(rig: Rig, chance: random.Random) -> None:
    segment = await _filled_spool(rig, chance)
    await asyncio.to_thread(hold, rig.state_dir, "gateway")
    flip_a_bit(segment.with_name("positions"), chance)
    await _drained(True, rig)


async def _in_what_is_set_aside(rig: Rig, chance: random.Random) -> None:
    folder = set_aside_folder(rig.state_dir)
    if not [*folder.iterdir()]:
        await _in_the_spool(True, rig, chance)
    copy = folder / "damaged-copy"  # the oracle needs the others
    copy.write_bytes(chance.choice([*folder.iterdir()]).read_bytes() or b"-")
    flip_a_bit(copy, chance)
    await asyncio.to_thread(hold, rig.state_dir, "gateway")
    await asyncio.to_thread(release, rig.state_dir, "gateway")


async def _in_the_view(rig: Rig, chance: random.Random) -> None:
    """In what it says of a state, or anywhere."""
    view = rig.state_dir / "view" / "state.sqlite"
    await rig.until(view.exists, "there is a view")
    await asyncio.to_thread(hold, rig.state_dir, "gateway")
    raw = view.read_bytes()
    begins = [at for at in range(len(raw)) if raw.startswith(b'"count":', at)]
    flip_a_bit(view, chance, chance.choice(begins) if begins and chance.random() < 0.7 else 0)
    await asyncio.to_thread(release, rig.state_dir, "gateway")
    await rig.until(rig.view_is_warm, "the view is there")
    await rig.until(lambda: _no_lies(rig), "the view can be asked")


def _no_lies(rig: Rig) -> bool:
    try:
        status = rig.launcher.status()
        pairs = shown_and_published(status["kafka_bootstrap"], rig.gateway_urls)
    except (httpx.HTTPError, ConnectionError, TypeError):
        return False
    rig.lies += [f"/state shows {a}, published was {b}" for a, b in pairs if a != b]
    return True


def kinds() -> dict[str, Fault]:
    of_jobs = {
        name: functools.partial(_in_a_job, *where)
        for name, where in zip(OF_JOBS, _FILES.values(), strict=True)
    }
    return {
        **of_jobs,
        "a bit flipped: the spool": functools.partial(_in_the_spool, False),
        "a bit flipped: the spool of a gateway that is down": functools.partial(
            _in_the_spool, True
        ),
        "a bit flipped: the spool's positions": _in_the_positions,
        "a bit flipped: what is set aside": _in_what_is_set_aside,
        "a bit flipped: the view": _in_the_view,
    }
