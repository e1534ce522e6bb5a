import dataclasses

import pytest

from local_stack.measuring import fit
from local_stack.measuring.measure import LOADS
from local_stack.measuring.samples import Load, Sample
from local_stack.plan.parts import PARTS

_EVENT_S, _STATE_S, _KIB_S, _BATCH_S = 40e-6, 25e-6, 8e-6, 0.05


def sample(load: Load) -> Sample:
    batches = 40 if load.per_s else 3
    one = Sample(load, 10.0, 12.0, {"enrich": batches, "fold": batches, "persist": batches}, {})
    times = one.times("fold")
    costs = {"event": _EVENT_S, "state": _STATE_S, "kib": _KIB_S, "batch": _BATCH_S}
    used = sum(cost * times[name] for name, cost in costs.items()) + 12.0 * 0.02
    return Sample(
        load, 10.0, 12.0, one.batches, dict.fromkeys(PARTS, used), dict.fromkeys(PARTS, 100.0)
    )


def test_loads_that_differ_in_one_thing_each_tell_its_cost() -> None:
    rest = dict.fromkeys(PARTS, 0.02)
    seen = [sample(load) for load in LOADS]
    cold = dataclasses.replace(
        seen[0], cpu_s={part: used + 3.0 for part, used in seen[0].cpu_s.items()}
    )
    fold = fit.part_costs(seen, rest, {"fold": 12.34}, cold)["fold"]
    assert fold.event_us == pytest.approx(40, rel=0.05)
    assert fold.state_us == pytest.approx(25, rel=0.05)
    assert fold.kib_us == pytest.approx(8, rel=0.05)
    assert fold.batch_ms == pytest.approx(50, rel=0.05)
    assert (fold.batches_per_s, fold.rest_cores, fold.start_s) == (4.0, 0.02, 15.3)
    assert fold.memory_mib == 100


def test_no_cost_is_below_zero() -> None:
    assert fit.not_negative([[1.0, 0.0], [1.0, 1.0]], [2.0, 1.0], [2.0, 1.0])[1] == 0.0


def test_sizes_grow_with_the_payload_and_states_with_their_number() -> None:
    def written(load: Load) -> Sample:
        sent = load.events * load.body_bytes
        disk = {
            "ingest": 200 * load.events + sent,
            "event": 400 * load.events + 2 * sent,
            "event_rows": 500 * load.events + sent // 2,
            "completion": 300 * load.events,
        }
        states = round(700 * sample(load).states)
        return Sample(load, 10.0, 12.0, sample(load).batches, {}, {}, {**disk, "state": states})

    few = written(LOADS[-1])
    few = dataclasses.replace(few, disk_bytes={**few.disk_bytes, "event_rows": 0})
    totals = {"state_rows": 3_000, "view": 5_000, "checkpoint": 4_000}
    found = fit.sizes([*map(written, LOADS[:-1]), few], totals, entities=10)
    assert (found.ingest, found.ingest_per_byte) == pytest.approx((200, 1), rel=0.02)
    assert (found.event, found.event_per_byte) == pytest.approx((400, 2), rel=0.02)
    assert (found.row, found.row_per_byte) == pytest.approx((500, 0.5), rel=0.02)
    assert (found.completion, found.state_record) == pytest.approx((300, 700), rel=0.02)
    assert (found.state_row, found.state_in_view, found.state_in_spark) == (300, 500, 400)
