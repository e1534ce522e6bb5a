"""A ladder of loads, and at each step the part that gives way first."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from local_stack.plan.caps import caps
from local_stack.plan.plan import gives_way, partitions_needed
from local_stack.plan.pools import pools
from local_stack.plan.work import Work

RATES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
ENTITIES = (10_000, 1_000_000, 100_000_000)


def ladder(work: Work) -> Iterator[dict[str, Any]]:
    """Each step with as many machines and partitions as it takes: what is told is what they do not
    help against."""
    for entities in ENTITIES:
        for rate in RATES:
            need = replace(work.need, events_per_s=rate, entities=entities)
            yield _step(replace(work, need=need))


def _step(work: Work) -> dict[str, Any]:
    need = work.need
    known = caps(work)
    partitions = partitions_needed(work)
    machines = pools(work, partitions)
    return {
        "entities": need.entities,
        "events_per_s": need.events_per_s,
        "partitions": partitions,
        "nodes": sum(pool.nodes for pool in machines),
        "cores": sum(pool.nodes * pool.cores for pool in machines),
        "first": gives_way(known, need.events_per_s),
        "give_way": [cap._asdict() for cap in known if cap.events_per_s < need.events_per_s],
    }
