"""Alarms as they reach a webhook and an event stream, both of the demo's own process."""

import asyncio
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from desk.hooks.service import HookDesk
from local_stack.demo.alarm_hook import own_hook
from local_stack.demo.alarm_server import ALARM, AlarmServer
from local_stack.demo.alarm_times import AlarmTimes, ReachedAlarm
from local_stack.demo.gateway_client import Gateway
from local_stack.terminal.errors import StackError
from shared.forwarding.signature import new_secret
from shared.timestamps import now_ms

_OPEN_WITHIN_S = 30.0


class AlarmWatch:
    def __init__(self, page_url: str, times: AlarmTimes) -> None:
        self.page_url = page_url
        self.times = times
        self.say: Callable[[ReachedAlarm], None] = lambda _: None
        self._opened = asyncio.Event()
        self._expected_by_s = math.inf

    def expect_one_within(self, seconds: float) -> None:
        self._expected_by_s = min(self._expected_by_s, time.monotonic() + seconds)

    @property
    def is_overdue(self) -> bool:
        """None has come, although one should have."""
        return not self.times.reached and time.monotonic() > self._expected_by_s

    @property
    def are_in(self) -> bool:
        """Nothing is to be waited for any more."""
        return not self.times.undelivered and bool(self.times.reached or self.is_overdue)

    async def follow(self, gateway: Gateway) -> None:
        async for event in gateway.events(ALARM, self._opened):
            self.hear(self.times.on_stream(event, now_ms()))

    def hear(self, reached: ReachedAlarm | None) -> None:
        if reached is not None:
            self.say(reached)

    async def is_open(self) -> None:
        """No alarm is missed from then on."""
        try:
            await asyncio.wait_for(self._opened.wait(), _OPEN_WITHIN_S)
        except TimeoutError:
            raise StackError(
                f"the gateway has opened no event stream for {_OPEN_WITHIN_S:.0f} s",
                "see its log: ./headrace logs gateway",
            ) from None


@contextmanager
def watched_alarms(hooks: HookDesk, gateway_url: str, token: str | None) -> Iterator[AlarmWatch]:
    times, secret = AlarmTimes(), new_secret()
    watch: AlarmWatch

    def on_webhook(event_id: str, at_ms: int) -> None:
        watch.hear(times.on_webhook(event_id, at_ms))

    with AlarmServer(gateway_url, token, secret, on_webhook) as server:
        watch = AlarmWatch(server.page_url, times)
        with own_hook(hooks, server.hook_url, secret, times.was_delivered):
            yield watch
