"""What is asked of an installation, and what is taken as given where it was not measured."""

from dataclasses import dataclass

GIB, MIB, DAY_S = 1024**3, 1024**2, 86_400.0
INGEST_KEPT_DAYS = 30.0  # Flow.ingest_retention_days
BATCH_RECORDS_MAX = 200_000  # HEADRACE_BATCH_RECORDS_MAX


@dataclass(frozen=True)
class Need:
    events_per_s: float
    entities: int
    body_bytes: int = 200
    retention_days: float = 30.0
    partitions: int | None = None  # None: as many as it takes
    outage_s: float = 3_600.0
    per_post: int = 1
    node_cores: int = 8
    node_gib: int = 32
    replication: int = 3


@dataclass(frozen=True)
class Assumptions:
    """Taken, not measured: told with each plan."""

    busy_max: float = 0.6  # of the cores that are left when a node is lost
    catch_up_busy: float = 0.95
    replica_cpu: float = 0.5  # of what the first replica costs
    server_cores_max: int = 32  # PostgreSQL is one server
    server_tib_max: float = 16.0
    planning_ms_per_task: float = 3.0  # of the driver, one after the other
    planning_s_max: float = 1.0
    view_copied_within_s: float = 3_600.0
    executor_mib_per_core: float = 512.0
    state_partition_mib: float = 64.0
    page_cache_s: float = 60.0  # of what Kafka writes: readers that keep up never meet the disk
    state_log_copies: float = 2.0  # of a state on its compacted topic, until it is cleaned
    disk_free: float = 0.3

    @property
    def tasks_max(self) -> int:
        return int(self.planning_s_max * 1000 / self.planning_ms_per_task)

    def told(self) -> list[str]:
        return [
            f"cores are at most {self.busy_max:.0%} busy, also with one node lost",
            "payloads are spread evenly over entities and partitions (see: ./headrace skew), and "
            "none waits, is parked or is corrected",
            "enrichment and fold are small functions without look-ups; what yours cost comes on "
            "top of enrich and fold",
            f"each further replica costs Kafka {self.replica_cpu:.0%} of the first one's CPU",
            f"PostgreSQL is one server of at most {self.server_cores_max} cores and "
            f"{self.server_tib_max:g} TiB, whose disk is quick enough",
            f"a driver plans a task in {self.planning_ms_per_task:g} ms, and a batch within "
            f"{self.planning_s_max:g} s",
            f"an executor has {self.executor_mib_per_core:g} MiB a core, a state partition "
            f"{self.state_partition_mib:g} MiB",
            f"Kafka's page cache holds {self.page_cache_s:g} s; {self.disk_free:.0%} of disks stay "
            "free",
        ]
