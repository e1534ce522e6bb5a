"""What was seen -> the health document (application/health+json). Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gateway.monitor import ledger_check, letters_check, retention
from gateway.monitor.causes import BECAUSE, KAFKA, POSTGRES, VIEW, name_causes
from gateway.monitor.job_status import JobStatus, SaidBreaker, job_status
from gateway.monitor.probes import KafkaSeen, Seen
from gateway.monitor.retention import Unread
from gateway.node.refusals import OF_ITSELF, OF_KAFKA, WITHIN_S, Refused
from gateway.spool.spool import SpoolState
from gateway.state_view.reader import Progress
from shared import VERSION
from shared.published.replicas import Copies, troubles
from shared.timestamps import to_rfc3339
from shared.topic_names import JOB_STATUS_TOPIC

_VIEW_LAG_MAX_MS = 5_000
_MASTER_AGE_MAX_S = 300.0
_OF_THE_STORE = "persist", "relay"
# what an operator has to do, before its payloads go on by themselves
_STUCK_BY = {
    "topic_missing": "Kafka has no such topic: make it, python -m stream_jobs topics",
    "not_authorized": "Kafka does not let the gateway write to it: ./headrace acls",
    "not_acknowledged": "Kafka does not acknowledge: look at its replicas and leaders",
}

Check = dict[str, Any]


class Observation(NamedTuple):
    """Everything the report is made from, as of `at_ms`."""

    at_ms: int
    kafka: KafkaSeen
    postgres: Seen
    accepts: bool
    view: Mapping[str, Progress]
    job_statuses: Mapping[bytes, bytes]
    silent_ms: Mapping[bytes, int] = {}
    lag_warn_s: float = 60.0
    replication: int = 1  # as the settings say
    configs: Mapping[str, Mapping[str, str]] = {}  # of topics
    widened: Sequence[str] = ()  # of topics that got partitions, what is the matter
    unread: Sequence[Unread] | None = ()  # None: not known
    spool: SpoolState | None = None
    refusal: str = ""  # what Kafka does not let the gateway write
    workers: int = 1
    workers_ready: int = 1
    refused: Refused = Refused()
    trouble_of_division: str = ""  # where states are divided among them


def report(
    seen: Observation,
    jobs: tuple[str, ...],
    lanes: tuple[str, ...],
    sources: tuple[str, ...] = (),
) -> dict[str, Any]:
    """`sources`: who reads rows of master data from stores of the user's."""
    statuses = {job: _status(seen, job.encode()) for job in jobs}
    desk = _status(seen, letters_check.DESK)
    waits = {lane: told for one in statuses.values() if one for lane, told in one.lanes.items()}
    full = {lane: who for one in statuses.values() if one for lane, who in one.full_lanes.items()}
    widened, heard_by = "; ".join(seen.widened), _heard_by(seen)
    checks: dict[str, Check] = {
        KAFKA: _kafka(seen),
        "kafka:replicas": _replicas(seen),
        "kafka:partitions": _check("fail" if seen.widened else "pass", None, "", widened),
        POSTGRES: _server(seen.postgres, "warn"),
        **_master_data(statuses.get("relay"), seen.at_ms, heard_by),
        **({} if seen.workers == 1 else {"gateway:workers": _workers(seen)}),
        **({} if seen.spool is None else {"spool:depth": _spool(seen.spool)}),
        "gateway:refused": _refused(seen.refused),
        VIEW: _view(seen),
        "retention:unread": retention.check(seen.unread),
        "ledger:difference": ledger_check.check(
            seen.job_statuses.get(ledger_check.KEEPER),
            seen.at_ms,
            seen.spool.set_aside_payloads if seen.spool else 0,
            heard_by,
        ),
        "letters:parked": letters_check.check(desk, heard_by),
        **{
            f"job:{job}": _job(job, status, seen.lag_warn_s, heard_by)
            for job, status in statuses.items()
        },
        **{
            source: _job(source, _status(seen, source.encode()), seen.lag_warn_s, heard_by)
            for source in sources
        },
        **{
            f"breaker:{job}:{store}": {
                **_breaker(breaker),
                # of a job that does nothing it tells how it was
                BECAUSE: (f"{store}:connection" if _is_at_work(status) else f"job:{job}",),
            }
            for job, status in statuses.items()
            if status is not None
            for store, breaker in status.breakers.items()
        },
        **{
            f"lane:{lane}": _waiting(waits[lane], full.get(lane, []))
            if lane in waits
            else _lane(lane, seen.kafka, desk)
            # what waits in the store is no topic of the flow
            for lane in dict.fromkeys((*lanes, *waits))
        },
    }
    time, causes = to_rfc3339(seen.at_ms), name_causes(checks)
    return {
        "status": worst(check["status"] for check in checks.values()),
        "version": VERSION,
        "causes": causes,
        "checks": {name: [{**check, "time": time}] for name, check in checks.items()},
    }


def _status(seen: Observation, job: bytes) -> JobStatus | None:
    return job_status(seen.job_statuses.get(job), seen.at_ms, seen.silent_ms.get(job))


def _heard_by(seen: Observation) -> tuple[str, ...]:
    """Checks that explain that nobody's word is heard, if they are not well for that."""
    words = seen.view.get(JOB_STATUS_TOPIC)
    is_read = words is not None and words.warm and words.caught_up_ms is not None
    if words is not None and is_read:
        is_read = seen.at_ms - (words.caught_up_ms or 0) <= _VIEW_LAG_MAX_MS
    return (*(() if seen.kafka.server.works else (KAFKA,)), *(() if is_read else (VIEW,)))


def _is_at_work(status: JobStatus) -> bool:
    return not status.is_silent and status.state in ("running", "waiting", "restarting")


def worst(statuses: Any) -> str:
    found = set(statuses)
    return next(status for status in ("fail", "warn", "pass") if status in found)


def _server(seen: Seen, otherwise: str) -> Check:
    return _check("pass" if seen.works else otherwise, seen.took_ms, "ms", seen.output)


def _kafka(seen: Observation) -> Check:
    check = _server(seen.kafka.server, "fail")
    if check["status"] == "pass" and seen.refusal:
        return {**check, "status": "fail", "output": seen.refusal}
    if check["status"] == "pass" and not seen.accepts:
        return {**check, "status": "fail", "output": "the gateway has no producer yet"}
    if check["status"] == "pass" and seen.kafka.missing_topics:
        missing = "topics are missing: " + ", ".join(seen.kafka.missing_topics)
        return {**check, "status": "warn", "output": missing}
    return check


def _replicas(seen: Observation) -> Check:
    copies = [
        Copies.of(topic, [*partitions.values()], seen.configs.get(topic, {}))
        for topic, partitions in seen.kafka.partitions.items()
    ]
    found = list(troubles(copies, seen.replication))
    fewest = min((one.fewest for one in copies), default=None)
    status = worst(["pass", *(one.status for one in found)])
    return _check(status, fewest, "replicas", "; ".join(one.text for one in found))


def _workers(seen: Observation) -> Check:
    less = seen.workers_ready < seen.workers
    output = f"{seen.workers} there should be" if less else ""
    return _check("warn" if less else "pass", seen.workers_ready, "workers", output)


def _refused(refused: Refused) -> Check:
    its = sorted(refused.by_reason.items(), key=lambda one: -one[1])
    own = {reason for reason, _ in its if reason in OF_KAFKA | OF_ITSELF}
    said = ", ".join(f"{count} {reason}" for reason, count in its)
    accepted = f"{refused.accepted} were accepted in the same {WITHIN_S:.0f} s"
    output = f"{said}; {accepted}" if said else ""
    check = _check("warn" if own else "pass", refused.by_reason.total(), "payloads", output)
    return {**check, BECAUSE: () if OF_ITSELF & own else (KAFKA,)}


def _spool(spool: SpoolState) -> Check:
    said = []
    because = () if spool.stuck or spool.set_aside_payloads else (KAFKA,)
    if spool.records:
        said.append(
            f"{spool.bytes} of {spool.bytes_max} bytes wait for Kafka, the oldest for "
            f"{spool.age_ms // 1000} s"
        )
    said += [
        f"{stuck.topic} has been stuck since {to_rfc3339(stuck.since_ms)}: {_STUCK_BY[stuck.why]}"
        for stuck in spool.stuck
    ]
    if spool.set_aside_payloads:
        said.append(
            f"at least {spool.set_aside_payloads} payloads ({spool.set_aside_bytes} bytes) are set "
            "aside and not in Kafka: ./headrace spool list, then ./headrace spool replay"
        )
    if spool.bytes >= spool.bytes_max:
        said.insert(0, "it is full")
    status = "fail" if spool.bytes >= spool.bytes_max else "warn" if said else "pass"
    check = _check(status, spool.records, "records", "; ".join(said))
    return {**check, BECAUSE: because}


def _master_data(relay: JobStatus | None, now_ms: int, heard_by: Sequence[str]) -> dict[str, Check]:
    as_of_ms = relay.said.get("master_as_of_ms") if relay else None
    if not isinstance(as_of_ms, int):
        return {}
    age_s = round(max(0, now_ms - as_of_ms) / 1000, 1)
    old = "master data was not refreshed lately" if age_s > _MASTER_AGE_MAX_S else ""
    check = _check("warn" if old else "pass", age_s, "s", old)
    return {"master_data:age": {**check, BECAUSE: (*heard_by, POSTGRES, "job:relay")}}


def _view(seen: Observation) -> Check:
    states = [p for topic, p in seen.view.items() if topic != JOB_STATUS_TOPIC]
    if not states or not all(p.warm and p.caught_up_ms is not None for p in states):
        check = _check("warn", None, "ms", "the state view is still being read")
        return {**check, BECAUSE: (KAFKA,)}
    lag_ms = max(0, seen.at_ms - min(p.caught_up_ms or 0 for p in states))
    skipped = sum(p.skipped for p in states)
    behind = "this gateway's view of states and of what jobs say stands still: look at its writer"
    behind = behind if lag_ms > _VIEW_LAG_MAX_MS else ""
    unread = f"{skipped} unreadable state records skipped" if skipped else ""
    output = "; ".join(filter(None, (behind, unread, seen.trouble_of_division)))
    check = _check("warn" if output else "pass", lag_ms, "ms", output)
    return {**check, BECAUSE: () if skipped else (KAFKA,)}


def _job(name: str, status: JobStatus | None, lag_warn_s: float, heard_by: Sequence[str]) -> Check:
    if status is None:
        return {**_check("warn", None, "s", "no sign of life yet"), BECAUSE: heard_by}
    lag = {
        name: value
        for name, value in (("lag_records", status.lag_records), ("lag_s", status.lag_s))
        if value is not None
    }
    because: Sequence[str] = ()
    if status.is_silent:  # one that waits for a store may not come to speak
        because = (*heard_by, *((POSTGRES,) if name in _OF_THE_STORE else ()))
    elif status.state in ("waiting", "restarting"):
        because = [f"breaker:{name}:{store}" for store in status.breakers]
    return {**_sign_of_life(status, lag_warn_s), **lag, BECAUSE: because}


def _sign_of_life(status: JobStatus, lag_warn_s: float) -> Check:
    lag = (status.lag_records, "records") if status.lag_s is None else (status.lag_s, "s")
    if status.is_silent:
        return _check("warn", *lag, f"no sign of life for {status.silent_ms // 1000} s")
    if status.state == "running":
        if status.lag_s is not None and status.lag_s > lag_warn_s:
            return _check("warn", *lag, f"it is {status.lag_s:.0f} s behind")
        if hooks := status.stopped_hooks:
            name, why = min(hooks.items())
            more = f", and {len(hooks) - 1} more webhooks" if len(hooks) > 1 else ""
            return _check("warn", *lag, f"webhook {name!r} is {why}{more}: ./headrace hooks list")
        return _check("pass", *lag, status.detail)
    return _check("warn", *lag, f"{status.state}: {status.detail}".removesuffix(": "))


def _breaker(breaker: SaidBreaker) -> Check:
    if breaker.state == "closed":
        return _check("pass", None, "", "closed")
    since = "" if breaker.since_ms is None else f" since {to_rfc3339(breaker.since_ms)}"
    return _check("warn", None, "", f"{breaker.state}{since}: {breaker.reason}")


def _waiting(told: Mapping[str, float], full: Sequence[str]) -> Check:
    """What is done stays on the topic, so its size says nothing."""
    others = int(told["at_cap"]) - len(full)
    named = [*full, *([f"{others} others"] if others > 0 else [])]
    output = "they wait: ./headrace waiting list" if told["payloads"] else ""
    if full:
        output = f"what comes beyond is parked: {'; '.join(named)}"
    check = _check("warn" if told["payloads"] else "pass", told["payloads"], "payloads", output)
    return {**check, **{name: told[name] for name in ("entities", "oldest_s", "deadlines")}}


def _lane(lane: str, kafka: KafkaSeen, desk: JobStatus | None) -> Check:
    records = kafka.lane_records.get(lane)
    if records is None:
        unknown = "not known: the topic or Kafka is away"
        return {**_check("warn", None, "records", unknown), BECAUSE: (KAFKA,)}
    is_for_the_desk = lane.startswith("dlq.") and letters_check.counts_them(desk)
    return _check("warn" if records and not is_for_the_desk else "pass", records, "records", "")


def _check(status: str, value: float | None, unit: str, output: str) -> Check:
    check: Check = {"status": status}
    if value is not None:
        check |= {"observedValue": value, "observedUnit": unit}
    if output:
        check["output"] = output
    return check
