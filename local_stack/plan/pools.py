"""Machines of each kind, with room for the loss of one."""

from dataclasses import dataclass
from math import ceil

from local_stack.plan.need import GIB, MIB
from local_stack.plan.parts import JOBS
from local_stack.plan.storage import bytes_per_event, disk_bytes
from local_stack.plan.work import Work

_SPOOL_GIB = 1.0  # as much as HEADRACE_SPOOL_BYTES_MAX is
_ONE_SERVER = "postgres"  # its second node is a standby


@dataclass(frozen=True)
class Pool:
    runs: str
    nodes: int
    cores: int  # of each node
    memory_gib: float
    disk_gib: float


def pools(work: Work, partitions: int) -> list[Pool]:
    need, busy, disk = work.need, work.assumed.busy_max, disk_bytes(work)
    rate = need.events_per_s
    room = 1 / (1 - work.assumed.disk_free)

    gateways = max(1, _nodes(work.cores("gateway", rate), busy, need.node_cores - 1))
    brokers = max(2, _nodes(work.cores("kafka", rate), busy, need.node_cores))
    workers = max(1, _nodes(_spark_cores(work), busy, need.node_cores))
    memory = _memory_mib(work, partitions, gateways, brokers)
    workers = max(workers, ceil(memory["spark"] / (need.node_gib * 1024)))
    return [
        Pool(
            "gateway, view",
            gateways + 1,
            need.node_cores,
            _gib(memory["gateway"]),
            disk["view"] * room / GIB + _SPOOL_GIB,
        ),
        Pool(
            "kafka",
            brokers + 1,
            need.node_cores,
            _gib(memory["kafka"]),
            disk["kafka"] * room / brokers / GIB,
        ),
        Pool(
            "enrich, fold, persist, relay",
            workers + 1,
            need.node_cores,
            _gib(memory["spark"] / workers),
            disk["fold"] * room / workers / GIB,
        ),
        Pool(
            _ONE_SERVER,
            2,
            max(2, ceil(work.cores("postgres", rate) / busy)),
            _gib(memory["postgres"]),
            disk["postgres"] * room / GIB,
        ),
    ]


def _nodes(cores: float, busy: float, cores_each: int) -> int:
    return ceil(cores / busy / max(1, cores_each))


def _spark_cores(work: Work) -> float:
    return sum(work.cores(part, work.need.events_per_s) for part in (*JOBS, "relay"))


def _memory_mib(work: Work, partitions: int, gateways: int, brokers: int) -> dict[str, float]:
    """What each part needs: the gateway, Kafka and PostgreSQL on each node; Spark on all workers
    together."""
    need, assumed, parts = work.need, work.assumed, work.costs.parts
    each, busy = bytes_per_event(work), assumed.busy_max
    processes = ceil(work.cores("gateway", need.events_per_s) / busy / gateways)
    written = (each["ingest"] + each["kafka"]) * need.events_per_s * need.replication
    executors = ceil(_spark_cores(work) / busy) * assumed.executor_mib_per_core
    a_day = each["postgres"] * need.events_per_s * 86_400
    return {
        "gateway": parts["gateway"].memory_mib * max(1, processes) + parts["view"].memory_mib,
        "kafka": parts["kafka"].memory_mib + written * assumed.page_cache_s / brokers / MIB,
        "spark": sum(parts[part].memory_mib for part in (*JOBS, "relay"))
        + executors
        + assumed.state_partition_mib * partitions,
        # what is written now, and the pages of the indexes that it goes into
        "postgres": parts["postgres"].memory_mib + 0.05 * a_day / MIB + 1024,
    }


def _gib(mib: float) -> float:
    return max(1.0, mib / 1024)
