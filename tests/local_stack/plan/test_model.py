import dataclasses
from math import inf, isfinite

import pytest

from local_stack.plan.caps import caps
from local_stack.plan.costs import PartCost
from local_stack.plan.need import GIB, Assumptions, Need
from local_stack.plan.parts import PARTS, touched
from local_stack.plan.plan import partitions_needed, plan
from local_stack.plan.pools import pools
from local_stack.plan.shipped import SHIPPED
from local_stack.plan.simulation import ENTITIES, RATES, ladder
from local_stack.plan.storage import disk_bytes
from local_stack.plan.times import catch_up, one_machine, restores
from local_stack.plan.work import Work


def work(rate: float = 1_000, entities: int = 10_000, **need: float) -> Work:
    return Work(SHIPPED, Need(rate, entities, **need))  # type: ignore[arg-type]


def with_cost(part: str, **changes: float) -> Work:
    parts = {**SHIPPED.parts, part: dataclasses.replace(SHIPPED.parts[part], **changes)}
    return Work(dataclasses.replace(SHIPPED, parts=parts), Need(1_000, 10_000))


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("behind", [False, True])
def test_more_events_never_cost_less(part: str, behind: bool) -> None:
    cores = [work().cores(part, rate, behind=behind) for rate in (1, 2, 50, *RATES)]
    assert cores == sorted(cores)
    assert cores[-1] > cores[0]


@pytest.mark.parametrize("part", PARTS)
def test_more_entities_never_cost_less(part: str) -> None:
    cores = [work(entities=count).cores(part, 10_000) for count in (1, 100, *ENTITIES)]
    assert cores == sorted(cores)


def test_of_many_entities_each_event_has_its_own_and_of_few_they_share_them() -> None:
    assert touched(1_000, 10**9) == pytest.approx(1_000, rel=0.001)
    assert touched(1_000_000, 10) == pytest.approx(10)


def test_a_batch_with_a_backlog_writes_a_state_once_for_many_events() -> None:
    assert work().states_per_s(10_000, behind=True) < work().states_per_s(10_000)


def test_the_rate_of_a_part_is_that_at_which_its_cores_are_full() -> None:
    one = work()
    assert one.cores("relay", one.rate_of("relay", 0.6)) == pytest.approx(0.6)


def test_what_costs_nothing_holds_any_rate_and_what_rests_too_dearly_none() -> None:
    assert with_cost("relay", event_us=0).rate_of("relay", 1) == inf
    assert with_cost("relay", rest_cores=2).rate_of("relay", 1) == 0


def test_microseconds_are_cores_at_a_million_events() -> None:
    one = dataclasses.replace(SHIPPED, parts={**SHIPPED.parts, "relay": PartCost(event_us=3)})
    assert Work(one, Need(1, 1)).cores("relay", 1_000_000) == pytest.approx(3)


def test_each_thing_that_costs_counts_in_its_own_unit() -> None:
    costs = {"event_us": 1, "kib_us": 10, "post_us": 100, "batch_ms": 50, "batches_per_s": 2}
    costs |= {"busy_cores": 0.25, "rest_cores": 0.125}
    one = dataclasses.replace(SHIPPED, parts={**SHIPPED.parts, "gateway": PartCost(**costs)})
    need = Need(100_000, 1, body_bytes=2_048, per_post=50)
    events, kibs, posts, batches = 0.1, 2.0, 0.2, 0.1
    used = Work(one, need).cores("gateway", 100_000)
    assert used == pytest.approx(events + kibs + posts + batches + 0.25 + 0.125)


def test_a_backlog_of_few_entities_costs_less_than_one_of_as_many_as_events() -> None:
    few, many = (work(entities=count).backlog_s("fold", 100_000) for count in (10, 10**8))
    cost = SHIPPED.parts["fold"]
    assert many - few == pytest.approx(100_000 * cost.state_us / 1e6, rel=0.01)
    assert work().backlog_s("fold", 0) == 0


def test_each_kind_of_machine_carries_its_load_without_one_of_them() -> None:
    for rate in RATES:
        one = work(rate)
        gateway, kafka, spark, postgres = pools(one, partitions_needed(one))
        busy = Assumptions().busy_max
        assert one.cores("gateway", rate) <= (gateway.nodes - 1) * (gateway.cores - 1) * busy
        assert one.cores("kafka", rate) <= (kafka.nodes - 1) * kafka.cores * busy
        jobs = sum(one.cores(part, rate) for part in ("enrich", "fold", "persist", "relay"))
        assert jobs <= (spark.nodes - 1) * spark.cores * busy
        assert (postgres.nodes, kafka.nodes >= 3) == (2, True)
        disk = disk_bytes(one)["kafka"] / GIB
        assert (kafka.nodes - 1) * kafka.disk_gib * 0.7 >= disk * 0.999


def test_three_replicas_are_three_times_the_disk() -> None:
    assert disk_bytes(work())["kafka"] == pytest.approx(
        3 * disk_bytes(work(replication=1))["kafka"]
    )


def test_payloads_take_disk_for_thirty_days_and_events_for_all_that_are_asked_for() -> None:
    month, year = (disk_bytes(work(retention_days=days, entities=1)) for days in (30, 365))
    assert year["postgres"] == pytest.approx(month["postgres"] * 365 / 30, rel=0.01)
    assert year["kafka"] < month["kafka"] * 365 / 30


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("relay", "one process works"),
        ("view", "one process copies all states"),
        ("postgres", "one server"),
        ("enrich", "driver plans"),
        ("fold", "driver plans"),
        ("persist", "driver plans"),
    ],
)
def test_what_more_nodes_do_not_help_is_named(part: str, words: str) -> None:
    reasons = [cap.why for cap in caps(work()) if cap.part == part]
    assert any(words in reason for reason in reasons), reasons
    assert all(cap.remedy for cap in caps(work()))


def test_the_first_to_give_way_is_the_lowest() -> None:
    rates = [cap.events_per_s for cap in caps(work(entities=10**6))]
    assert rates == sorted(rates)


def test_few_partitions_give_way_as_partitions() -> None:
    few = next(cap for cap in caps(work(partitions=1)) if cap.part == "persist")
    many = next(cap for cap in caps(work(partitions=8)) if cap.part == "persist")
    assert "1 partitions are as many tasks" in few.why
    assert "TOPIC_WIDENED" in few.remedy
    assert few.events_per_s < many.events_per_s


def test_a_view_that_takes_more_than_an_hour_to_copy_gives_way_at_any_rate() -> None:
    dear = dataclasses.replace(SHIPPED.parts["view"], state_us=100.0)
    costs = dataclasses.replace(SHIPPED, parts={**SHIPPED.parts, "view": dear})
    first = caps(Work(costs, Need(10, 100_000_000)))[0]
    assert (first.part, first.events_per_s) == ("view", 0)
    assert "copies 100,000,000 states in 2.8 h" in first.why


def test_a_longer_outage_takes_longer_to_catch_up() -> None:
    short, long = (catch_up(work(2_000, outage_s=hours * 3600))[0] for hours in (1, 4))
    assert 0 < short < long < inf


def test_what_cannot_keep_up_never_catches_up() -> None:
    seconds, part = catch_up(work(1_000_000))
    assert seconds == inf
    assert part in {"relay", "view", "postgres"}


def test_restoring_takes_as_long_as_there_are_states() -> None:
    few, many = (restores(work(entities=count)) for count in (10**6, 10**8))
    name = "a new gateway copies all states"
    assert many[name] == pytest.approx(100 * few[name])
    assert all(many[what] >= few[what] for what in few)


def test_one_machine_carries_more_with_more_cores_and_then_catches_up_sooner() -> None:
    two, eight = (one_machine(work(500), cores) for cores in (2, 8))
    assert eight["events_per_s_max"] > two["events_per_s_max"] > 500
    assert eight["catch_up_s"] < two["catch_up_s"]
    assert one_machine(work(10**6), 2)["catch_up_s"] == inf


def test_the_ladder_says_for_each_step_what_gives_way_and_what_to_do() -> None:
    steps = list(ladder(work()))
    assert len(steps) == len(RATES) * len(ENTITIES)
    assert not steps[0]["give_way"]
    assert steps[0]["first"]["installations"] == 1
    last = steps[-1]
    assert (last["events_per_s"], last["entities"]) == (1_000_000, 100_000_000)
    assert {one["part"] for one in last["give_way"]} >= {"relay", "view", "postgres"}
    assert all(one["remedy"] for one in last["give_way"])
    share = last["events_per_s"] / last["first"]["installations"]
    assert share <= last["first"]["events_per_s"]
    nodes = [step["nodes"] for step in steps[: len(RATES)]]
    assert nodes == sorted(nodes)


def test_a_plan_has_numbers_that_json_knows() -> None:
    found = plan(work(1_000_000, 100_000_000), machine_cores=2)
    assert None in found["times_s"].values()
    assert found["one_machine"]["catch_up_s"] is None
    assert all(isfinite(number) for number in found["totals"].values())


def test_partitions_are_as_many_as_the_busiest_job_has_cores() -> None:
    counts = [partitions_needed(work(rate)) for rate in RATES]
    assert counts == sorted(counts)
    assert counts[0] == 4
    assert partitions_needed(work(1_000_000, partitions=12)) == 12
