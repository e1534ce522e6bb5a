"""The protocol in many schedules, and what happens to them when a rule of it is left out."""

from collections.abc import Iterator
from typing import Any

import pytest

from shared.events.envelope import Position
from stream_jobs.waiting.entry import Entry
from stream_jobs.waiting.lane_clock import LaneClock
from stream_jobs.waiting.line import Batch, Close, Line, Open, Step, serve
from stream_jobs.waiting.protocol import LINE_FULL, Gates, Ripeness
from tests.stream_jobs.gate_simulator import (
    HOLDS_MS,
    Plan,
    Simulation,
    Violation,
    Writes,
    hear_gate,
)

SCHEDULES = 10_000
_SEEDS_OF_A_MUTANT = 10_000


@pytest.mark.slow
def test_ten_thousand_schedules_keep_order_and_end_with_nothing_left() -> None:
    crashes = lost = in_lane = sent_again = rounds = full = refused = stood = 0
    for seed in range(SCHEDULES):
        simulation = Simulation(seed)
        try:
            simulation.run()
        except Violation as found:
            pytest.fail(f"seed {seed}, policy {simulation.rules.when_parked}: {found}")
        crashes += simulation.crashes
        lost += simulation.lost_checkpoints
        in_lane += sum(len(log) for log in simulation.log.lane)
        sent_again += simulation.sent_again
        rounds += simulation.rounds
        full += simulation.full
        refused += simulation.refused
        stood += simulation.stood_ms > 0
    # it was no easy walk
    assert crashes > SCHEDULES
    assert lost > SCHEDULES / 10
    assert in_lane > 2 * SCHEDULES
    assert sent_again > SCHEDULES / 2
    assert rounds > 2 * SCHEDULES
    assert full > SCHEDULES / 2
    assert refused > SCHEDULES / 10
    assert stood > SCHEDULES / 10


class ClosesAtOnce(Simulation):
    """With the last event, which the broker may take later than the null."""

    def serve(self, line: Line, batch: Batch, attempt: Any) -> list[Step]:
        steps = super().serve(line, batch, attempt)
        if not line.entries and not any(isinstance(step, Close) for step in steps):
            steps.append(Close())
        return steps


class ClosesWithoutDraining(Simulation):
    """What is read of the lane and not ripe yet is left to itself."""

    def serve(self, line: Line, batch: Batch, attempt: Any) -> list[Step]:
        steps = super().serve(line, batch, attempt)
        if line.told and line.entries and not any(e.tries for e in line.in_order()):
            line.told = None
            steps.append(_Shut())
        return steps

    def _written(self, key: str, step: Any, letters: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(step, _Shut):
            yield "gates", (key, None)
        else:
            yield from super()._written(key, step, letters)


class _Shut:
    pass


class OpensLate(Simulation):
    """The gate is told in a batch after that in which the lane was read."""

    def serve(self, line: Line, batch: Batch, attempt: Any) -> list[Step]:
        new = line.told is None
        steps = super().serve(line, batch, attempt)
        if new and any(isinstance(step, Open) for step in steps) and batch.token % 3:
            line.told = None
            steps = [step for step in steps if not isinstance(step, Open)]
        return steps


class TriesUnripe(Simulation):
    def is_ripe(self, _ripeness: Ripeness, _place: Position) -> bool:
        return True


class RipensWithoutTheLane(Simulation):
    """As soon as enrich has done with it, whatever of it is still unread."""

    def is_ripe(self, _ripeness: Ripeness, place: Position) -> bool:
        return place.offset < self.log.enriched.get((place.topic, place.partition), 0)


class DoesNotReadTheLane(Simulation):
    def read_lane(self, gates: Gates) -> None:
        pass


class ReadsPassedLast(Simulation):
    def read_gates(self, gates: Gates) -> Iterator[None]:
        for key, value in list(self.log.gates):
            hear_gate(gates, key, value)
        yield
        self.read_lane(gates)
        yield
        gates.hear_passed(dict(self.log.passed))
        gates.heard_all()
        yield


class ForgetsWithinTheBatch(Simulation):
    def must_wait(self, gates: Gates, key: str) -> bool:
        return key in gates._open or key in gates._in_lane


class ForgetsBetweenRounds(Simulation):
    def finish_round(self, plan: Plan, writes: Writes, gates: Gates) -> Iterator[None]:
        yield from super().finish_round(plan, writes, gates)
        gates.heard_all()


class ReadsBeforeTheRoundIsWritten(Simulation):
    def finish_round(self, plan: Plan, writes: Writes, gates: Gates) -> Iterator[None]:
        if gates.hold_any():
            yield from self.read_gates(gates)
        yield from self.finish(plan, writes)


class IsDoneBeforeTheRoundIsWritten(Simulation):
    def finish_round(self, plan: Plan, writes: Writes, gates: Gates) -> Iterator[None]:
        self._enrich_done.update(plan)
        self._enrich_plan = None
        yield from self._tell_of_it()
        yield from super().finish_round(plan, writes, gates)


class GivesUpAndGoesOnAtOnce(Simulation):
    def serve(self, line: Line, batch: Batch, attempt: Any) -> list[Step]:
        steps = super().serve(line, batch, attempt)
        if Close() in steps:
            return steps
        return steps + super().serve(line, batch._replace(token=-batch.token), attempt)


class SeesOnlyWhatItHasRead(Simulation):
    """Of master data less than what has come: the row came before the payload waited for it."""

    def retry_sees(self, read: int) -> int:
        return self.random.randrange(read + 1)


class NeedsLessAtOnce(Simulation):
    """The gate says so with the events, which may not be written yet."""

    def _written(self, key: str, step: Step, letters: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(step, Open):
            line = self.serving[key]
            step = Open(step.told._replace(needs=line.needs()))
        yield from super()._written(key, step, letters)


class BeginsAnewAndSaysNothing(Simulation):
    """What it had passed still counts as passed."""

    def _lose_checkpoint(self) -> None:
        passed = dict(self.log.passed)
        super()._lose_checkpoint()
        self.log.passed = passed

    def _passed(self) -> dict[int, int]:
        before = self.log.passed
        return {at: max(end, before.get(at, 0)) for at, end in super()._passed().items()}


class Crowded(Simulation):
    """Where caps bite often."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.refuses, self.rules = 0.5, self.rules._replace(payloads_max=1)


class GoesOnBehindWhatMightNotWait(Crowded):
    def is_refused(self, _gates: Gates, _key: str) -> bool:
        return False


class KeepsAllInTheLine(Crowded):
    def serve(self, line: Line, batch: Batch, attempt: Any) -> list[Step]:
        rules = self.rules._replace(payloads_max=1000)
        return list(serve(line, batch, attempt, rules))


class ParksTheFirstOfTooMany(Crowded):
    def serve(self, line: Line, batch: Batch, attempt: Any) -> list[Step]:
        waiting = [one for one in line.in_order() if one.given_up_in is None]
        for entry in waiting[: -self.rules.payloads_max]:
            if batch.is_ripe(entry.read_at):
                _give_up(entry, batch)
        return super().serve(line, batch, attempt)


class ParksUnripeOfTooMany(Crowded):
    def serve(self, line: Line, batch: Batch, attempt: Any) -> list[Step]:
        for entry in line.too_many(self.rules.payloads_max):
            _give_up(entry, batch)
        return super().serve(line, batch, attempt)


def _give_up(entry: Entry, batch: Batch) -> None:
    entry.given_up_in, entry.reason = batch.token, LINE_FULL


class CountsTheOutage(Simulation):
    def clock_at(self, before: LaneClock, _as_of_ms: int | None) -> LaneClock:
        return before.at(self.now_ms, self.now_ms, self.now_ms)


class SeesTheOutageInTheLastWordAlone(Simulation):
    """What it heard before is forgotten, and with it how long nothing was heard."""

    def clock_at(self, before: LaneClock, as_of_ms: int | None) -> LaneClock:
        heard = before._replace(as_of_ms=max(before.as_of_ms, before.seen_ms - HOLDS_MS))
        if as_of_ms is None or as_of_ms < self.now_ms - HOLDS_MS:
            return before.at(self.now_ms, as_of_ms, HOLDS_MS)
        return heard.at(self.now_ms, self.now_ms, self.now_ms)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mutant",
    [
        ClosesAtOnce,
        ClosesWithoutDraining,
        OpensLate,
        TriesUnripe,
        RipensWithoutTheLane,
        DoesNotReadTheLane,
        ReadsPassedLast,
        ForgetsWithinTheBatch,
        ForgetsBetweenRounds,
        ReadsBeforeTheRoundIsWritten,
        IsDoneBeforeTheRoundIsWritten,
        GivesUpAndGoesOnAtOnce,
        SeesOnlyWhatItHasRead,
        NeedsLessAtOnce,
        BeginsAnewAndSaysNothing,
        GoesOnBehindWhatMightNotWait,
        KeepsAllInTheLine,
        ParksTheFirstOfTooMany,
        ParksUnripeOfTooMany,
        CountsTheOutage,
        SeesTheOutageInTheLastWordAlone,
    ],
)
def test_the_simulator_finds_what_a_rule_left_out_breaks(mutant: type[Simulation]) -> None:
    for seed in range(_SEEDS_OF_A_MUTANT):
        try:
            mutant(seed).run()
        except Violation:
            return
    pytest.fail(f"{mutant.__name__} passed {_SEEDS_OF_A_MUTANT} schedules")
