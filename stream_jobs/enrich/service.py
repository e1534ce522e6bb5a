"""What a process knows of one service that enrichments ask: its answers, its failures, its breaker.

All is changed on the event loop's thread alone. The thread of the task reads it, and waits while
the loop asks."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from shared.lookups import HttpLookup
from shared.model import NotYet
from stream_jobs.enrich.known import Answer
from stream_jobs.enrich.service_breaker import ServiceBreaker
from stream_jobs.enrich.service_request import NoAnswerError, request

_ENTRY_BYTES = 200  # what each costs beside its key and its answer


class _Kept(NamedTuple):
    answer: Answer
    answered_s: float
    until_s: float
    size: int


class Service:
    def __init__(
        self, lookup: HttpLookup, *, probes_aside: bool, clock_s: Callable[[], float]
    ) -> None:
        """`probes_aside`: nobody waits for the request that finds out whether it is back."""
        self.lookup = lookup
        self._probes_aside = probes_aside
        self._clock_s = clock_s
        self._kept: dict[str, _Kept] = {}  # the oldest first
        self._kept_bytes = 0
        self._failures: dict[str, NoAnswerError] = {}  # of this batch
        self._began_s = clock_s()
        self._breaker = ServiceBreaker(lookup.opens_after, lookup.rests_s)
        self._why_away = ""
        self._room = asyncio.Semaphore(lookup.at_once_max)
        self._probe: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Begins a batch: what failed in the last one is asked again, what is answered in this one
        holds for all of it."""
        self._failures = {}
        self._began_s = self._clock_s()

    def is_asked(self, key: str) -> bool:
        return self._answer(key) is not None or key in self._failures

    def answer(self, key: str) -> Answer:
        """The answer for a key that was asked. NotYet where nothing came."""
        if (answer := self._answer(key)) is not None:
            return answer
        name, failure = self.lookup.name, self._failures.get(key)
        if failure is None or failure.away or self._breaker.is_away:
            why = failure.why if failure else self._why_away
            raise NotYet(f"{name} is away: {why}", away=True)
        raise NotYet(f"{name} gives no answer: {failure.why}")

    async def ask(self, http: Any, keys: Sequence[str]) -> None:
        """Each of them is answered then, or has failed."""
        if self._breaker.state(self._clock_s()) == "half-open":
            probe = self._breaker.probe_of(keys)
            if self._probes_aside:
                if self._probe is None or self._probe.done():
                    self._probe = asyncio.create_task(self._request(http, probe))
                self._failures |= {key: self._away() for key in keys}
                return
            await self._request(http, probe)
            keys = [key for key in keys if key != probe]
        await asyncio.gather(*(self._ask_in_turn(http, key) for key in keys))

    async def _ask_in_turn(self, http: Any, key: str) -> None:
        async with self._room:
            if self._breaker.state(self._clock_s()) == "closed":
                await self._request(http, key)
            else:
                self._failures[key] = self._away()

    async def _request(self, http: Any, key: str) -> None:
        try:
            body = await request(http, self.lookup, key)
        except NoAnswerError as error:
            self._failures[key] = error
            if error.is_there:
                self._breaker = self._breaker.answered()
            else:
                self._why_away = error.why
                self._breaker = self._breaker.failed(key, self._clock_s())
        else:
            self._breaker = self._breaker.answered()
            self._keep(key, Answer(time.time_ns() // 1_000_000, body))

    def _away(self) -> NoAnswerError:
        return NoAnswerError(self._why_away, away=True)

    def _answer(self, key: str) -> Answer | None:
        kept = self._kept.get(key)
        if kept is None or (kept.until_s <= self._clock_s() and kept.answered_s < self._began_s):
            return None
        return kept.answer

    def _keep(self, key: str, answer: Answer) -> None:
        now_s, body = self._clock_s(), answer.body
        holds_s = self.lookup.absent_for_s if body is None else self.lookup.fresh_for_s
        size = _ENTRY_BYTES + len(key) + len(body or b"")
        self._forget(key)
        while self._kept and self._kept_bytes + size > self.lookup.kept_bytes_max:
            self._forget(next(iter(self._kept)))
        self._kept[key] = _Kept(answer, now_s, now_s + holds_s, size)
        self._kept_bytes += size

    def _forget(self, key: str) -> None:
        if (kept := self._kept.pop(key, None)) is not None:
            self._kept_bytes -= kept.size
