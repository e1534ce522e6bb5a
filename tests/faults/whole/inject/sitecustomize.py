"""Python imports this by itself in every process of the stack that the rig starts: so the rig gets
its proxies between the parts, and deaths at exact points, and the product knows nothing of it.

HEADRACE_RIG is JSON: `doors`, through which the parts reach Kafka and PostgreSQL, and `points`, a
folder: whoever comes to a point that has a file there removes it and dies. What stands in the
file `fold` makes the fold another one. `mutant` names a mistake that is put back (rig_mutants.py).
"""

import dataclasses
import hashlib
import importlib.abc
import importlib.machinery
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

RIG = json.loads(os.environ.get("HEADRACE_RIG", "null"))


def die_here_if_asked(point: str) -> None:
    try:
        (Path(RIG["points"]) / point).unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def before(point: str, owner: Any, name: str) -> None:
    inner = getattr(owner, name)

    def outer(*args: Any, **kwargs: Any) -> Any:
        die_here_if_asked(point)
        return inner(*args, **kwargs)

    setattr(owner, name, outer)


def after(point: str, owner: Any, name: str) -> None:
    inner = getattr(owner, name)

    def outer(*args: Any, **kwargs: Any) -> Any:
        result = inner(*args, **kwargs)
        die_here_if_asked(point)
        return result

    setattr(owner, name, outer)


def _kafka(module: ModuleType) -> None:
    """One listener more for each door, which tells clients to come through it."""
    doors = RIG["doors"]
    kinds = [name for name in doors if name != "postgres"]
    inside = "".join(f",{kind.upper()}://127.0.0.1:{doors[kind]['behind']}" for kind in kinds)
    outside = "".join(f",{kind.upper()}://127.0.0.1:{doors[kind]['door']}" for kind in kinds)
    security = "".join(f",{kind.upper()}:PLAINTEXT" for kind in kinds)
    plain = "PLAINTEXT://127.0.0.1:{port}"
    module.PROPERTIES += (  # type: ignore[attr-defined]
        f"listeners={plain},CONTROLLER://127.0.0.1:{{controller_port}}{inside}\n"
        f"advertised.listeners={plain}{outside}\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
        f"{security}\n"
    )


def _applications(module: ModuleType) -> None:
    """Each part goes through its own door."""
    doors, applications = RIG["doors"], module.Applications  # type: ignore[attr-defined]
    services = applications.services

    def through_doors(self: Any, *args: Any) -> Any:
        port = f":{self._addresses.ports['postgres']}/"
        door = f":{doors['postgres']['door']}/"
        for service in services(self, *args):
            name = "gateway" if module.is_gateway(service.name) else service.name  # type: ignore[attr-defined]
            url = service.environment.get("HEADRACE_POSTGRES_URL", "")
            kafka = f"127.0.0.1:{doors.get(name, doors['jobs'])['door']}"
            own = {
                "HEADRACE_POSTGRES_URL": url.replace(port, door),
                "HEADRACE_KAFKA_BOOTSTRAP": kafka,
            }
            yield dataclasses.replace(service, environment={**service.environment, **own})

    applications.services = through_doors


def _durable_log(module: ModuleType) -> None:
    way = module._Way  # type: ignore[attr-defined]
    put = way._put_into_kafka

    def put_and_die(
        self: Any, number: int, records: Any, on_written: Callable[[Any], None]
    ) -> None:
        def on_written_and_die(outcome: Any) -> None:
            die_here_if_asked("gateway, acknowledged and not answered")
            on_written(outcome)

        put(self, number, records, on_written_and_die)

    way._put_into_kafka = put_and_die


def after_a_bucket(job: str, processor: Any) -> None:
    handle = processor.handleInputRows

    def handle_and_die(self: Any, *args: Any) -> Any:
        yield from handle(self, *args)
        die_here_if_asked(f"{job}, after a bucket")

    processor.handleInputRows = handle_and_die


def _fingerprint(module: ModuleType) -> None:
    fingerprint = module.entity_fingerprint  # type: ignore[attr-defined]

    def changed(entity: Any) -> str:
        changes = Path(RIG["fold"])
        said = changes.read_text() if changes.exists() else ""
        return hashlib.sha256((fingerprint(entity) + said).encode()).hexdigest()[:12]

    module.entity_fingerprint = changed  # type: ignore[attr-defined]


PATCHES: dict[str, Callable[[Any], None]] = {
    "local_stack.servers.kafka": _kafka,
    "shared.folding.code_fingerprint": _fingerprint,
    "local_stack.run.applications": _applications,
    "gateway.ingest.durable_log": _durable_log,
    "gateway.spool.spool_log": lambda m: (
        before("gateway, about to spool", m.SpoolLog, "append"),
        before("gateway, drained and not marked", m.SpoolLog, "drained"),
    ),
    "gateway.state_view.store": lambda m: before("view writer, read", m.ViewStore, "apply"),
    "stream_jobs.enrich.enrich_payload": lambda m: after("enrich, in a batch", m, "_outgoing"),
    "stream_jobs.kafka_io.log_reader": lambda m: before(
        "enrich, written and not noted", m, "_is_done"
    ),
    "stream_jobs.retry.lines": lambda m: after_a_bucket("retry", m.BucketOfLines),
    "stream_jobs.fold.bucket_fold": lambda m: after_a_bucket("fold", m.BucketFold),
    "stream_jobs.aggregate.sums": lambda m: after("aggregate, in a batch", m, "renew"),
    "stream_jobs.persist.table_writer": lambda m: before(
        "persist, not committed", m.TableWriter, "_upsert_states"
    ),
    "stream_jobs.persist.writer": lambda m: after(
        "persist, committed", m.EventStore, "_write_together"
    ),
    "clients.kafka.offsets": lambda m: before("progress untold", m.LogOffsets, "commit"),
    "clients.postgres.outbox": lambda m: before("relay, sent and not removed", m.Outbox, "remove"),
}


def _mutations() -> dict[str, Callable[[Any], None]]:
    if not RIG or not RIG.get("mutant"):
        return {}
    import rig_mutants

    found: dict[str, Callable[[Any], None]] = rig_mutants.MUTANTS[RIG["mutant"]]
    return found


MUTATIONS = _mutations()


class Patching(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        patches = [every[name] for every in (PATCHES, MUTATIONS) if name in every]
        spec = importlib.machinery.PathFinder.find_spec(name, path, target) if patches else None
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_patch(module: ModuleType) -> None:
            execute(module)
            for patch in patches:
                patch(module)

        spec.loader.exec_module = execute_and_patch  # type: ignore[method-assign]
        return spec


if RIG is not None:
    sys.meta_path.insert(0, Patching())
