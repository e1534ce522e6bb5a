"""The product with one of its promises taken out again, as each once was: the rig has to notice.

`./headrace torture --mutant NAME` patches it in, with the faults that bring the mistake to light.
"""

import asyncio
from collections.abc import Callable
from typing import Any

Patch = Callable[[Any], None]


def _knows_no_repeat(snapshot: Any) -> None:
    snapshot.Snapshot.knows = lambda *_: False


def _corrects_nothing(recounts: Any) -> None:
    recounts.RepeatCorrections.send = lambda _: 0


def _drops_the_rest(spool: Any) -> None:
    spool.next_frame = len


def _believes_every_clock(applier: Any) -> None:
    applier.is_clock_off = lambda *_: False


def _refuses_an_upgrade(reader: Any) -> None:
    def refuse(_: Any) -> bytes:
        raise reader.httptools.HttpParserError("it asks for another protocol")

    for found in [c for c in vars(reader).values() if hasattr(c, "_head_without_upgrade")]:
        found._head_without_upgrade = refuse


def _sticks_to_a_frame(drain: Any) -> None:
    bring = drain._TopicDrain._bring

    async def stick(self: Any, frames: Any, *more: Any) -> Any:
        while any(b"7" in frame.record.key for frame in frames):
            await asyncio.sleep(1)
        return await bring(self, frames, *more)

    drain._TopicDrain._bring = stick


def _forgets_keys(ingest: Any) -> None:
    from shared.ids import fresh_event_id

    ingest.event_id_of = lambda *_, **__: fresh_event_id()


MUTANTS: dict[str, dict[str, Patch]] = {
    "repeats count": {
        "shared.folding.snapshot": _knows_no_repeat,
        "stream_jobs.ledger.repeat_corrections": _corrects_nothing,
    },
    "spool drops the rest": {"gateway.spool.spool_log": _drops_the_rest},
    "clocks are believed": {"shared.folding.applier": _believes_every_clock},
    "upgrade refused": {"gateway.server.request_reader": _refuses_an_upgrade},
    "drain stuck": {"gateway.spool.drain": _sticks_to_a_frame},
    "keys forgotten": {"gateway.ingest.accept": _forgets_keys},
}
# the words of the kinds of fault that are needed to see it
FAULTS = {
    "spool drops the rest": "the spool of a gateway that is down",
    "drain stuck": "kafka away",
}
