"""The demo itself: sends, follows and shows until its end, then waits for what is on its way."""

import asyncio
import math
import signal
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from local_stack.demo.alarm_times import AlarmTimes
from local_stack.demo.alarm_watch import AlarmWatch
from local_stack.demo.balance import Balance, SentPayloads, balance
from local_stack.demo.fleet import DeviceMessage, Fleet, MessageKind
from local_stack.demo.follower import Follower
from local_stack.demo.gateway_client import CONNECTIONS_MAX, Gateway
from local_stack.demo.show import DeviceStates, alarm, changes, counting
from local_stack.terminal.errors import StackError
from local_stack.terminal.progress import ProgressLine
from shared.flow_table import Flow

SETTLE_S = 60.0
SHOW_EVERY_S = 0.5
ALARM_WITHIN_S = 15.0  # after what can raise one was sent
WATCHED = ("device-0001", "device-0002")


@dataclass(frozen=True)
class DemoOptions:
    devices: int
    rate: float
    seed: int
    events: int | None
    seconds: float | None


@dataclass(frozen=True)
class DemoResult:
    seconds: float
    sent: SentPayloads
    balance: Balance
    before: DeviceStates
    after: DeviceStates
    folded: bool  # what came out as events stands in the states, too
    alarms: AlarmTimes | None

    @property
    def good(self) -> bool:
        alarms_came = self.alarms is None or self.alarms.all_reached
        return self.balance.all_through and self.folded and alarms_came


class Demo:
    def __init__(
        self,
        gateway: Gateway,
        follower: Follower,
        progress: ProgressLine | None,
        alarms: AlarmWatch | None = None,
    ) -> None:
        self._gateway = gateway
        self._follower = follower
        self._progress = progress
        self._alarms = alarms
        self._sent = SentPayloads()
        self._before: DeviceStates = {}
        self._now: DeviceStates = {}
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()

    async def run(self, wish: DemoOptions) -> DemoResult:
        with_status = await self._look_at_endpoints()
        await asyncio.to_thread(self._follower.begin)
        fleet = Fleet(wish.devices, wish.seed, uuid.uuid4().hex[:8], with_status=with_status)
        watched = WATCHED[: wish.devices]
        self._before = self._now = await self._ask_snapshots(watched)
        with self._stopped_by_signals():
            others = [
                asyncio.create_task(self._follow()),
                asyncio.create_task(self._watch()),
            ]
            try:
                if self._alarms:
                    others.append(asyncio.create_task(self._follow_alarms(self._alarms)))
                    await self._alarms.is_open()
                    self._alarms.expect_one_within(fleet.wave_s(wish.rate) + ALARM_WITHIN_S)
                began = time.monotonic()
                await self._send(fleet, wish)
                seconds = time.monotonic() - began
                await self._settle()
            finally:
                for task in others:
                    task.cancel()
                await asyncio.gather(*others, return_exceptions=True)
        return DemoResult(
            seconds,
            self._sent,
            self._balance(),
            self._before,
            self._now,
            self._all_folded(),
            self._alarms.times if self._alarms else None,
        )

    async def _look_at_endpoints(self) -> bool:
        """Whether there is one for status messages, too."""
        telemetry = await self._gateway.has_endpoint("telemetry")
        if telemetry is None:
            raise StackError("the gateway does not answer", "look at: ./headrace status")
        if not telemetry:
            raise StackError(
                "the running flow has no endpoint `telemetry`: the demo sends what the sample flow "
                "takes",
                "start the stack without HEADRACE_FLOW to see it",
            )
        return bool(await self._gateway.has_endpoint("status"))

    async def _send(self, fleet: Fleet, wish: DemoOptions) -> None:
        """At the wished rate, whatever the answers take; only a full pipe slows it down."""
        room = asyncio.Semaphore(CONNECTIONS_MAX)
        began = time.monotonic()
        end = began + wish.seconds if wish.seconds is not None else math.inf
        sent = 0
        async with asyncio.TaskGroup() as posts:
            while wish.events is None or sent < wish.events:
                due = began + sent / wish.rate
                if await self._stopped_within(min(due, end) - time.monotonic()):
                    break
                if time.monotonic() >= end:
                    break
                await room.acquire()
                post = posts.create_task(self._post(fleet.next(datetime.now(UTC))))
                post.add_done_callback(lambda _: room.release())
                sent += 1

    async def _post(self, message: DeviceMessage) -> None:
        for _ in range(2 if message.kind is MessageKind.DOUBLED else 1):
            self._sent.note(message, await self._gateway.post(message))

    async def _stopped_within(self, seconds: float) -> bool:
        if seconds > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), seconds)
        return self._stop.is_set()

    async def _follow(self) -> None:
        while True:
            for record in await asyncio.to_thread(self._follower.read):
                self._follower.note(record)

    async def _follow_alarms(self, alarms: AlarmWatch) -> None:
        if progress := self._progress:
            alarms.say = lambda reached: progress.note(alarm(reached))
        await alarms.follow(self._gateway)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(SHOW_EVERY_S)
            if self._alarms and self._alarms.is_overdue:
                self._stop.set()
            earlier, self._now = self._now, await self._ask_snapshots(self._now)
            if self._progress:
                self._progress.show(counting(self._sent, self._balance()))
                for line in changes(earlier, self._now):
                    self._progress.note(line)

    async def _ask_snapshots(self, devices: Iterable[str]) -> DeviceStates:
        return {device: await self._gateway.snapshot(device) for device in devices}

    async def _settle(self) -> None:
        """Until all that was accepted has come out, for a minute at most."""
        deadline = time.monotonic() + SETTLE_S
        if self._alarms:
            self._alarms.expect_one_within(ALARM_WITHIN_S)
        while not (self._balance().all_through and self._all_folded() and self._alarms_are_in()):
            if time.monotonic() > deadline or self._hurry.is_set():
                return
            await asyncio.sleep(0.1)

    def _alarms_are_in(self) -> bool:
        return self._alarms is None or self._alarms.are_in

    def _all_folded(self) -> bool:
        """Whether all events of the devices that are watched are folded."""
        events = Counter(self._follower.seen.to_fold.values())
        return all(
            snapshot.version - self._before[device].version >= events[device]
            for device, snapshot in self._now.items()
        )

    def _balance(self) -> Balance:
        return balance(self._sent, self._follower.seen)

    @contextmanager
    def _stopped_by_signals(self) -> Iterator[None]:
        """The first one ends the sending, the second one the waiting, too."""
        loop = asyncio.get_running_loop()
        both = (signal.SIGINT, signal.SIGTERM)
        for number in both:
            loop.add_signal_handler(number, self._on_signal)
        try:
            yield
        finally:
            for number in both:
                loop.remove_signal_handler(number)

    def _on_signal(self) -> None:
        (self._hurry if self._stop.is_set() else self._stop).set()


async def run_demo(
    gateway_url: str,
    bootstrap: str,
    flow: Flow,
    wish: DemoOptions,
    progress: ProgressLine | None,
    token: str | None,
    alarms: AlarmWatch | None = None,
) -> DemoResult:
    follower = Follower(bootstrap, flow)
    try:
        async with Gateway(gateway_url, token) as gateway:
            return await Demo(gateway, follower, progress, alarms).run(wish)
    finally:
        follower.close()
