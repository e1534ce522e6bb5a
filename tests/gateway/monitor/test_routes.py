import json
from collections import Counter
from typing import Any

import pytest

from gateway.monitor import ledger_check
from gateway.monitor.probes import KafkaSeen, Seen
from gateway.monitor.report import Observation, report
from gateway.monitor.retention import Unread
from gateway.node.refusals import Refused
from gateway.spool.spool import SpoolState
from gateway.spool.spool_log import STUCK_BY, Stuck
from gateway.state_view.reader import Progress
from tests.gateway.support import Gateway

NOW_MS = 1_800_000_000_000
JOBS = ("enrich", "fold", "persist", "relay")
LANES = ("retry.enrich.v1", "dlq.enrich.v1")
UP = Seen(True, 1.5)
DOWN = Seen(False, 2000.0, "does not answer")
LETTERS = {"parked": 0, "redriven": 2, "came_back": 0, "oldest_s": None}
LEDGER = {
    "detail": "",
    "ledger": {"as_of_ms": NOW_MS - 1000, "endpoints": {}, "derived": {}, "missing": []},
}


def test_all_is_well_when_all_was_seen_well() -> None:
    document = _report()
    assert document["status"] == "pass"
    assert {check[0]["status"] for check in document["checks"].values()} == {"pass"}
    assert document["checks"]["lane:dlq.enrich.v1"][0]["observedValue"] == 0


@pytest.mark.parametrize("seen", [{"kafka": KafkaSeen(DOWN)}, {"accepts": False}])
def test_without_kafka_the_gateway_fails(seen: dict[str, Any]) -> None:
    document = _report(**seen)
    assert document["status"] == document["checks"]["kafka:connection"][0]["status"] == "fail"


def test_while_kafka_is_away_all_that_is_heard_through_it_follows_from_that() -> None:
    silent = {"state": "running", "at_ms": NOW_MS - 9_000}
    away = {"kafka": KafkaSeen(DOWN), "unread": None, "desk": None}
    waits = NOTHING_SPOOLED._replace(records=3, bytes=30, age_ms=4000)
    document = _report(**away, **dict.fromkeys(JOBS, silent), view={}, spool=waits)
    assert document["causes"] == ["kafka:connection"]
    unwell = [check for (check,) in document["checks"].values() if check["status"] != "pass"]
    assert [one.get("followsFrom") for one in unwell] == [None, *["kafka:connection"] * 10]


def test_a_job_that_pauses_for_a_store_follows_from_its_breaker_and_the_store() -> None:
    breaker = {"state": "open", "since_ms": NOW_MS - 3_000, "reason": "refused"}
    waiting = {"state": "waiting", "detail": "postgres", "breakers": {"postgres": breaker}}
    document = _report(persist=waiting, postgres=DOWN)
    assert document["causes"] == ["postgres:connection"]
    assert document["checks"]["job:persist"][0]["followsFrom"] == "postgres:connection"
    alone = _report(persist=waiting)
    assert alone["causes"] == ["breaker:persist:postgres"]
    assert alone["checks"]["job:persist"][0]["followsFrom"] == "breaker:persist:postgres"


@pytest.mark.parametrize(
    "otherwise",
    [
        {"kafka": KafkaSeen(UP, ("event.reading.v1",), dict.fromkeys(LANES, 0))},
        {"refusal": "Kafka does not let the gateway write"},
        {"view": {"state.device.v1": Progress(True, NOW_MS - 500, skipped=1)}},
        {"view": {"state.device.v1": Progress(True, NOW_MS - 60_000)}},
    ],
)
def test_who_is_silent_is_a_cause_where_the_others_would_be_heard(otherwise: Any) -> None:
    silent = {"state": "running", "at_ms": NOW_MS - 300_000}
    well = {"state.device.v1": Progress(True, NOW_MS - 500)}
    words = {"job.status.v1": Progress(True, NOW_MS - 500)}
    seen = {**otherwise, "view": {**otherwise.get("view", well), **words}}
    assert len(_report(fold=silent, **seen)["causes"]) == 2
    assert "job:fold" in _report(fold=silent, **seen)["causes"]


@pytest.mark.parametrize("state", ["failed", "paused"])
@pytest.mark.parametrize("postgres", [UP, DOWN])
def test_a_job_that_is_down_for_a_reason_of_its_own_is_a_cause_whatever_its_breaker_says(
    state: str, postgres: Seen
) -> None:
    breaker = {"state": "open", "since_ms": NOW_MS - 3_000, "reason": "refused"}
    down = {"state": state, "detail": "why", "breakers": {"postgres": breaker}}
    document = _report(persist=down, postgres=postgres)
    assert "job:persist" in document["causes"]
    assert document["checks"]["breaker:persist:postgres"][0]["followsFrom"] == "job:persist"


def test_a_full_spool_follows_from_kafka() -> None:
    full = NOTHING_SPOOLED._replace(records=3, bytes=1000, bytes_max=1000)
    assert _report(kafka=KafkaSeen(DOWN), spool=full)["causes"] == ["kafka:connection"]
    assert _report(spool=full)["checks"]["spool:depth"][0]["status"] == "fail"


def test_without_postgresql_it_warns_and_lives() -> None:
    document = _report(postgres=DOWN)
    assert document["status"] == document["checks"]["postgres:connection"][0]["status"] == "warn"


@pytest.mark.parametrize(
    ("status", "expected", "output"),
    [
        ({"state": "running"}, "pass", ""),
        ({"state": "waiting", "detail": "PostgreSQL"}, "warn", "waiting: PostgreSQL"),
        ({"state": "restarting", "detail": ""}, "warn", "restarting"),
        ({"state": "failed", "detail": "offset 7"}, "warn", "failed: offset 7"),
        ({"state": "running", "at_ms": NOW_MS - 5_500}, "warn", "no sign of life for 5 s"),
        ({"state": "running", "at_ms": "noon"}, "warn", "no sign of life yet"),
        (["not an object"], "warn", "no sign of life yet"),
        (None, "warn", "no sign of life yet"),
    ],
)
def test_a_job_is_as_well_as_its_last_sign_of_life(status: Any, expected: str, output: str) -> None:
    (check,) = _report(persist=status)["checks"]["job:persist"]
    assert (check["status"], check.get("output", "")) == (expected, output)


@pytest.mark.parametrize(
    ("stopped", "output"),
    [
        ({}, None),
        ({"a": "paused: status 500"}, "webhook 'a' is paused: status 500: ./headrace hooks list"),
        (
            {"b": "ended: status 410", "a": "paused: no answer"},
            "webhook 'a' is paused: no answer, and 1 more webhooks: ./headrace hooks list",
        ),
        (["not an object"], None),
    ],
)
def test_a_webhook_that_gets_nothing_is_a_warning(stopped: Any, output: str | None) -> None:
    (check,) = _report(fold={"state": "running", "hooks": {"stopped": stopped}})["checks"][
        "job:fold"
    ]
    assert (check["status"], check.get("output")) == ("warn" if output else "pass", output)


def test_a_job_says_how_far_it_is_behind() -> None:
    (check,) = _report(fold={"state": "running", "lag_s": 1.25})["checks"]["job:fold"]
    assert (check["observedValue"], check["observedUnit"]) == (1.25, "s")


@pytest.mark.parametrize(("lag_s", "expected"), [(59.0, "pass"), (3600.0, "warn")])
def test_a_job_that_is_far_behind_is_a_warning(lag_s: float, expected: str) -> None:
    said = {"state": "running", "lag_s": lag_s, "lag_records": 7}
    (check,) = _report(fold=said)["checks"]["job:fold"]
    assert check["status"] == expected
    assert check.get("output") == (None if expected == "pass" else "it is 3600 s behind")


def test_a_job_whose_clock_is_off_is_not_silent_where_it_was_heard_just_now() -> None:
    said = {"state": "running", "at_ms": NOW_MS - 30_000}
    (check,) = _report(fold=said, silent_ms={b"fold": 400})["checks"]["job:fold"]
    assert check["status"] == "pass"


def test_the_lag_of_a_job_that_is_silent_grows_by_itself() -> None:
    said = {"state": "running", "lag_s": 2.0, "lag_records": 7, "at_ms": NOW_MS - 60_000}
    (check,) = _report(fold=said)["checks"]["job:fold"]
    assert (check["lag_s"], check["lag_records"]) == (62.0, 7)
    (check,) = _report(fold={**said, "lag_s": 0.0, "lag_records": 0})["checks"]["job:fold"]
    assert (check["lag_s"], check["lag_records"]) == (0.0, 0)


def test_a_breaker_that_is_not_closed_is_a_warning_and_tells_since_when() -> None:
    breakers = {
        "kafka": {"state": "closed", "since_ms": None, "reason": ""},
        "postgres": {"state": "half-open", "since_ms": NOW_MS - 60_000, "reason": "no answer"},
        "odd": {"state": "ajar"},
    }
    checks = _report(persist={"state": "waiting", "breakers": breakers})["checks"]
    assert checks["breaker:persist:kafka"][0]["status"] == "pass"
    (check,) = checks["breaker:persist:postgres"]
    assert check["status"] == "warn"
    assert check["output"] == "half-open since 2027-01-15T07:59:00.000Z: no answer"
    assert "breaker:persist:odd" not in checks


def test_rows_of_a_source_that_is_away_are_a_warning_with_their_age() -> None:
    away = "stock.price in shop: it does not answer; its rows are as of 2027-01-15T07:59:00.000Z"
    said = {"state": "waiting", "detail": away, "lag_s": 60.5}
    document = _report(sources={"source:price": said, "source:tariff": {"state": "running"}})
    (price,), (tariff,) = (document["checks"][f"source:{name}"] for name in ("price", "tariff"))
    assert (price["status"], price["output"]) == ("warn", f"waiting: {away}")
    assert (price["observedValue"], price["observedUnit"]) == (60.5, "s")
    assert tariff["status"] == "pass"


@pytest.mark.parametrize(("age_s", "expected"), [(3.0, "pass"), (4000.0, "warn")])
def test_old_master_data_is_a_warning(age_s: float, expected: str) -> None:
    as_of_ms = NOW_MS - int(age_s * 1000)
    document = _report(relay={"state": "running", "master_as_of_ms": as_of_ms})
    (check,) = document["checks"]["master_data:age"]
    assert (check["status"], check["observedValue"]) == (expected, age_s)


def test_records_in_a_lane_are_a_warning() -> None:
    lanes = KafkaSeen(UP, (), {"retry.enrich.v1": 0, "dlq.enrich.v1": 3})
    document = _report(kafka=lanes, desk=None)
    (check,) = document["checks"]["lane:dlq.enrich.v1"]
    assert (check["status"], check["observedValue"]) == ("warn", 3)


def test_parked_letters_are_a_warning_and_done_ones_in_their_lane_are_none() -> None:
    lanes = KafkaSeen(UP, (), {"retry.enrich.v1": 0, "dlq.enrich.v1": 3})
    for parked, came_back, expected, output in (
        (0, 0, "pass", ""),
        (3, 0, "warn", "the oldest for 61 s: ./headrace letters list --by cause"),
        (3, 2, "warn", "the oldest for 61 s, 2 of them came back: ./headrace letters list"),
    ):
        letters = {"parked": parked, "came_back": came_back, "redriven": 1, "oldest_s": 61.2}
        document = _report(kafka=lanes, desk={"state": "running", "letters": letters})
        (check,) = document["checks"]["letters:parked"]
        assert (check["status"], check["observedValue"]) == (expected, parked)
        assert check.get("output", "").startswith(output)
        assert document["checks"]["lane:dlq.enrich.v1"][0]["status"] == "pass"


@pytest.mark.parametrize(
    ("desk", "output"),
    [
        (None, "nothing is known of them"),
        ({"state": "running"}, "nothing is known of them"),
        ({"state": "running", "letters": LETTERS, "at_ms": NOW_MS - 60_000}, "as of 60 s ago"),
    ],
)
def test_a_desk_that_says_nothing_is_a_warning(desk: Any, output: str) -> None:
    document = _report(desk=desk)
    (check,) = document["checks"]["letters:parked"]
    assert check["status"] == "warn"
    assert check["output"].startswith(output)


@pytest.mark.parametrize(("payloads", "expected"), [(0, "pass"), (7, "warn")])
def test_of_a_lane_that_a_job_empties_only_what_waits_counts(payloads: int, expected: str) -> None:
    told = {"payloads": payloads, "entities": 2, "oldest_s": 61.5, "deadlines": 30}
    said = {"state": "running", "lanes": {"retry.enrich.v1": told}}
    seen = KafkaSeen(UP, (), {"retry.enrich.v1": 900, "dlq.enrich.v1": 0})
    (check,) = _report(enrich=said, kafka=seen)["checks"]["lane:retry.enrich.v1"]
    assert (check["status"], check["observedValue"]) == (expected, payloads)
    assert (check["entities"], check["oldest_s"], check["deadlines"]) == (2, 61.5, 30)


def test_a_lane_tells_whose_caps_bite() -> None:
    full = ["tenant 'one': 200 entities wait", "device-7: as many payloads as one may have wait"]
    told = {"payloads": 9, "at_cap": 4, "full": full}
    said = {"state": "running", "lanes": {"retry.enrich.v1": told}}
    (check,) = _report(enrich=said)["checks"]["lane:retry.enrich.v1"]
    assert check["output"] == f"what comes beyond is parked: {'; '.join(full)}; 2 others"


def test_missing_topics_are_named() -> None:
    document = _report(kafka=KafkaSeen(UP, ("event.reading.v1",), dict.fromkeys(LANES, 0)))
    assert "event.reading.v1" in document["checks"]["kafka:connection"][0]["output"]


@pytest.mark.parametrize(
    "progress",
    [
        {},
        {"state.device.v1": Progress(False, None)},
        {"state.device.v1": Progress(True, NOW_MS - 6_000)},
        {"state.device.v1": Progress(True, NOW_MS, 2)},
    ],
)
def test_a_view_that_is_cold_behind_or_has_skipped_is_a_warning(progress: Any) -> None:
    assert _report(view=progress)["checks"]["state_view:lag"][0]["status"] == "warn"


@pytest.mark.parametrize(
    ("share", "expected", "output"),
    [
        (0.0, "pass", ""),
        (0.49, "pass", ""),
        (0.5, "warn", "50 % of the topic's retention is used up; start the job, or raise"),
        (0.9, "fail", "90 % of the topic's retention is used up"),
        (1.0, "fail", "may be deleted that enrich has yet to read"),
    ],
)
def test_what_is_about_to_be_deleted_unread_is_told_long_before(
    share: float, expected: str, output: str
) -> None:
    unread = [Unread("enrich", "ingest.telemetry.v1", 2, share), Unread("fold", "a", 0, 0.0)]
    (check,) = _report(unread=unread)["checks"]["retention:unread"]
    assert check["status"] == expected
    assert output in check.get("output", "")
    assert _report(unread=None)["checks"]["retention:unread"][0]["status"] == "warn"


def test_an_ingest_topic_that_was_widened_fails_by_name() -> None:
    assert _report()["checks"]["kafka:partitions"][0]["status"] == "pass"
    (check,) = _report(widened=["TOPIC_WIDENED: a had 4"])["checks"]["kafka:partitions"]
    assert (check["status"], check["output"]) == ("fail", "TOPIC_WIDENED: a had 4")


def test_replicas_are_checked_and_not_believed() -> None:
    seen = KafkaSeen(
        UP, (), dict.fromkeys(LANES, 0), {"a": {0: (3, 3)}, "__consumer_offsets": {0: (1, 1)}}
    )
    safe = {"a": {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}}
    (check,) = _report(kafka=seen, configs=safe)["checks"]["kafka:replicas"]
    assert check["status"] == "pass"
    (check,) = _report(kafka=seen, configs=safe, replication=3)["checks"]["kafka:replicas"]
    assert check["status"] == "warn"
    assert "__consumer_offsets has 1" in check["output"]
    unsafe = {"a": {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}}
    (check,) = _report(kafka=seen, configs=unsafe)["checks"]["kafka:replicas"]
    assert "min.insync.replicas is 1" in check["output"]
    assert "unclean.leader.election.enable is true" in check["output"]
    behind = seen._replace(partitions={"a": {0: (3, 1)}})
    (check,) = _report(kafka=behind, configs=safe)["checks"]["kafka:replicas"]
    assert check["status"] == "fail"


def _refused(by_reason: dict[str, int], accepted: int = 0) -> dict[str, Any]:
    document = _report(refused=Refused(Counter(by_reason), accepted))
    (check,) = document["checks"]["gateway:refused"]
    return {**check, "causes": document["causes"]}


def test_what_callers_did_wrong_is_told_and_no_trouble_of_the_gateway() -> None:
    told = _refused({"rate_limited": 3, "unauthenticated": 40}, 7)
    assert (told["status"], told["observedValue"], told["causes"]) == ("pass", 43, [])
    assert told["output"].startswith("40 unauthenticated, 3 rate_limited; 7 were accepted")
    assert "output" not in _refused({}, 7)


def test_what_the_gateway_could_put_nowhere_is_its_trouble_and_may_follow_from_kafka() -> None:
    for reason in ("internal_fault", "spool_full"):
        told = _refused({reason: 1, "unauthenticated": 9})
        assert (told["status"], told["causes"]) == ("warn", ["gateway:refused"])
    away = _report(kafka=KafkaSeen(DOWN), refused=Refused(Counter(spool_full=1)))
    assert "gateway:refused" not in away["causes"]
    own = _report(kafka=KafkaSeen(DOWN), refused=Refused(Counter(spool_full=1, internal_fault=1)))
    assert "gateway:refused" in own["causes"]


def test_the_process_lives_whatever_else_is_down(gateway: Gateway) -> None:
    gateway.log.healthy = False
    assert gateway.ask("GET", "/livez").status_code == 200


def test_it_is_ready_when_the_log_takes_records(gateway: Gateway) -> None:
    assert gateway.ask("GET", "/readyz").status_code == 200
    gateway.log.healthy = False
    answer = gateway.ask("GET", "/readyz")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


def test_before_the_first_look_health_fails_as_health_json(gateway: Gateway) -> None:
    answer = gateway.ask("GET", "/health")
    assert (answer.status_code, answer.json()["status"]) == (503, "fail")
    assert answer.headers["content-type"] == "application/health+json"
    assert {f"job:{job}" for job in JOBS} <= answer.json()["checks"].keys()


def _report(**changes: Any) -> dict[str, Any]:
    statuses: dict[str, Any] = {job: {"state": "running"} for job in JOBS}
    statuses["desk"] = {"state": "running", "letters": LETTERS}
    statuses |= {job: changes.pop(job) for job in [*statuses] if job in changes}
    sources: dict[str, Any] = changes.pop("sources", {})
    statuses |= sources
    signs = {
        job.encode(): json.dumps(
            {"at_ms": NOW_MS - 1000, **status} if isinstance(status, dict) else status
        ).encode()
        for job, status in statuses.items()
        if status is not None
    }
    signs[ledger_check.KEEPER] = json.dumps(LEDGER).encode()
    seen = Observation(
        at_ms=NOW_MS,
        kafka=KafkaSeen(UP, (), dict.fromkeys(LANES, 0)),
        postgres=UP,
        accepts=True,
        view={"state.device.v1": Progress(True, NOW_MS - 500)},
        job_statuses=signs,
    )
    return report(seen._replace(**changes), JOBS, LANES, (*sources,))


NOTHING_SPOOLED = SpoolState(0, 0, 1000, 0, 0, 0)


def test_payloads_that_are_set_aside_are_a_warning_that_says_what_to_do() -> None:
    spool = NOTHING_SPOOLED._replace(set_aside_bytes=700, set_aside_payloads=3)
    document = _report(spool=spool)
    (depth,) = document["checks"]["spool:depth"]
    assert document["status"] == depth["status"] == "warn"
    assert "3 payloads (700 bytes) are set aside" in depth["output"]
    assert "./headrace spool list" in depth["output"]
    (ledger,) = document["checks"]["ledger:difference"]
    assert (ledger["status"], ledger["setAside"], ledger["observedValue"]) == ("warn", 3, 0)
    assert "3 more were set aside" in ledger["output"]


@pytest.mark.parametrize("why", STUCK_BY)
def test_a_topic_that_is_stuck_in_the_spool_is_named_with_since_when(why: str) -> None:
    stuck = Stuck("ingest.status.v1", why, NOW_MS - 60_000)
    spool = NOTHING_SPOOLED._replace(records=7, bytes=70, age_ms=90_000, stuck=(stuck,))
    (depth,) = _report(spool=spool)["checks"]["spool:depth"]
    assert (depth["status"], depth["observedValue"]) == ("warn", 7)
    assert "ingest.status.v1 has been stuck since 2027-01-15T07:59:00.000Z: " in depth["output"]


def test_an_empty_spool_is_well() -> None:
    document = _report(spool=NOTHING_SPOOLED)
    assert document["status"] == "pass"
    assert document["checks"]["ledger:difference"][0]["setAside"] == 0
