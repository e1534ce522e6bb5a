"""A broker with TLS, logins and ACLs: each part comes in as its own user, with what is listed."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicCollection
from confluent_kafka.admin import AdminClient

from gateway.monitor.probes import KafkaProbe
from local_stack.machine.job_environment import job_environment
from shared.events.envelope import Position
from shared.flow import FLOW
from shared.published.acls import acls
from shared.published.ledger import Verdict
from shared.settings import JobSettings, Settings
from shared.topic_names import JOB_STATUS_TOPIC, RELAY_HEARTBEAT_KEY, REPEAT_TOPIC, master_topic
from stream_jobs.ledger.topics import LedgerLog
from tests.certificates import Authority
from tests.gateway.support import GatewayProcess, until
from tests.job_process import JobProcess
from tests.kafka_log import eventually, read_topic
from tests.secure.secure_kafka import PLAIN_PASSWORD, SecureKafka, acls_of

pytestmark = pytest.mark.stack

TOPIC = "ingest.telemetry.v1"


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    with SecureKafka(tmp_path_factory.mktemp("secure-kafka")) as kafka:
        kafka.make_users("headrace-gateway", "headrace-topics")
        kafka.allow(acls_of("topics"))
        run(kafka.variables("headrace-topics"), "stream_jobs", "topics")
        yield kafka


def run(variables: dict[str, str], *arguments: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", *arguments],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def write(kafka: SecureKafka, topic: str, key: str, value: Any) -> None:
    producer = Producer({**kafka.mtls("admin"), "partitioner": "murmur2_random"})
    producer.produce(topic, orjson.dumps(value), key)
    assert producer.flush(60) == 0


def kafka_check(gateway: GatewayProcess) -> dict[str, Any]:
    check: dict[str, Any] = gateway.client.get("/health").json()["checks"]["kafka:connection"][0]
    return check


def bodies(kafka: SecureKafka) -> list[bytes | None]:
    return [record.value for record in read_topic(kafka.mtls("admin"), TOPIC)]


def test_a_gateway_without_acls_says_so_loses_nothing_and_goes_on_when_it_has_them(
    kafka: SecureKafka, tmp_path: Path
) -> None:
    settings = {
        name.removeprefix("HEADRACE_").lower(): value
        for name, value in kafka.variables("headrace-gateway").items()
    }
    bootstrap = settings.pop("kafka_bootstrap")
    with GatewayProcess(bootstrap, tmp_path, **settings) as gateway:

        def refused() -> bool:
            answer = gateway.post(body=b"refused").json()
            let_in.append("offset" in answer)  # a change of rights takes the broker a moment
            return (answer.get("code"), answer.get("outcome")) == ("not_authorized", "definite")

        def accepted() -> bool:
            answer = gateway.post(body=b"accepted")
            told.append(answer.status_code)
            return "offset" in answer.json()

        told: list[int] = []
        let_in: list[bool] = []
        until(refused, 20)
        until(lambda: "does not let the gateway write" in kafka_check(gateway)["output"], 10)
        assert kafka_check(gateway)["status"] == "fail"

        kafka.allow(acls_of("gateway"))
        until(accepted, 20)
        until(lambda: kafka_check(gateway)["status"] == "pass", 10)

        may_write = [a for a in acls_of("gateway") if (a.operation, a.name) == ("WRITE", TOPIC)]
        kafka.forbid(may_write)
        until(refused, 10)
        # after a look that a busy broker did not answer in time it says that instead
        until(lambda: TOPIC in kafka_check(gateway)["output"], 10)
        kafka.allow(may_write)
        until(accepted, 10)

        denials = kafka.denials_of("headrace-gateway")
        write(kafka, "state.device.v1", "a-1", {"seen": 1, "_meta": {"version": 1}})
        until(lambda: gateway.status("/state/a-1") == 200, 20)
        assert kafka.denials_of("headrace-gateway") == denials
    assert bodies(kafka).count(b"accepted") == told.count(202)
    assert bodies(kafka).count(b"refused") == let_in.count(True)


def test_a_login_or_a_certificate_that_is_not_taken_is_told_as_that(
    kafka: SecureKafka, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in kafka.variables("headrace-nobody").items():
        monkeypatch.setenv(name, value)

    def says() -> str:
        probe = KafkaProbe(Settings().kafka, [], [])
        told: list[str] = []
        until(lambda: told.append(probe.look().server.output) or told[-1] != AWAY, 15)
        return told[-1]

    assert says() == "Kafka refuses the gateway's login"
    monkeypatch.setenv("HEADRACE_KAFKA_CA_FILE", str(Authority(tmp_path).file))
    assert says() == "Kafka and the gateway do not agree on TLS or its certificates"


AWAY = "Kafka does not answer"


def test_a_job_that_is_known_by_its_certificate_works_with_what_is_listed(
    kafka: SecureKafka, tmp_path: Path
) -> None:
    kafka.allow(acls_of("enrich"))
    now_ms = int(time.time() * 1000)
    for table in FLOW.master_tables:
        write(kafka, master_topic(table), RELAY_HEARTBEAT_KEY, {"as_of_ms": now_ms})
    issued = kafka.authority.issue("CN=headrace-enrich")
    variables = {
        "HEADRACE_KAFKA_SECURITY": "ssl",
        "HEADRACE_KAFKA_CA_FILE": str(kafka.authority.file),
        "HEADRACE_KAFKA_CERT_FILE": str(issued.cert_file),
        "HEADRACE_KAFKA_KEY_FILE": str(issued.key_file),
        **job_environment(),
    }
    write(kafka, TOPIC, "device-0001", {"value": 1})  # of a device that nobody knows: it waits
    settings = JobSettings(kafka_bootstrap=kafka.bootstrap_mtls, state_dir=tmp_path)
    log = tmp_path / "enrich.log"
    with JobProcess("enrich", settings, log, variables):
        eventually(lambda: waiting(kafka) == {"device-0001"}, 180)
        eventually(lambda: job_says(kafka).get("lag_records") == 0, 90)
    assert "PRIVATE KEY" not in log.read_text()
    assert kafka.denials_of("headrace-enrich") == 0


def test_the_ledger_is_kept_with_what_the_relay_may(
    kafka: SecureKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.make_users("headrace-relay")
    kafka.allow(acls_of("relay"))
    for name, value in kafka.variables("headrace-relay").items():
        monkeypatch.setenv(name, value)
    eventually(lambda: (REPEAT_TOPIC, "READ") in allowed(kafka, "relay"), 120)
    denials = kafka.denials_of("headrace-relay")
    write(kafka, REPEAT_TOPIC, "device-0001", {f"{TOPIC}/0": [7]})
    log = LedgerLog(JobSettings(), FLOW)
    log.go_on_from({})
    heard = log.hear(log.ends_of_lanes())
    assert (Position(TOPIC, 0, 7), Verdict.KNOWN_REPEAT) in heard.told
    assert heard.all
    for at, end in log.ends_of_payloads().items():
        assert log.start_of(at) == 0
        assert (log.first_at(at, 0) is None) == (end == 0)
    for job in ("persist", "fold"):
        assert log.ends_of_events(job).keys() == log.progress(job).keys()
    assert log.progress("enrich").keys() == log.ends_of_payloads().keys()
    log.close()
    assert kafka.denials_of("headrace-relay") == denials


def waiting(kafka: SecureKafka) -> set[str]:
    records = read_topic(kafka.mtls("admin"), "retry.enrich.v1")
    return {record.key.decode() for record in records if record.key}


def job_says(kafka: SecureKafka) -> dict[str, Any]:
    said = [
        orjson.loads(r.value or b"{}") for r in read_topic(kafka.mtls("admin"), JOB_STATUS_TOPIC)
    ]
    return said[-1] if said else {}


def test_an_operator_looks_with_a_plain_login(kafka: SecureKafka) -> None:
    kafka.allow(acls_of("operator"))
    variables = kafka.variables("headrace-operator")
    del variables["HEADRACE_KAFKA_SASL_PASSWORD_FILE"]
    variables["HEADRACE_KAFKA_SASL_MECHANISM"] = "PLAIN"
    variables["HEADRACE_KAFKA_SASL_PASSWORD"] = PLAIN_PASSWORD
    run(variables, "local_stack", "credentials", "add", "--operator")
    assert "headrace" not in run(variables, "local_stack", "tail", "credential.v1")
    assert run(variables, "local_stack", "credentials", "list").count("operator") == 1
    ran = subprocess.run(
        [sys.executable, "-m", "local_stack", "doctor"],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"all {len(FLOW.topics())} there" in ran.stdout
    assert PLAIN_PASSWORD not in ran.stdout + ran.stderr
    assert kafka.denials_of("headrace-operator") == 0


def test_each_user_can_do_its_list_and_no_more(kafka: SecureKafka) -> None:
    """As the broker itself judges it."""
    applications = {acl.application for acl in acls(FLOW)}
    kafka.allow(acls_of(*applications))
    for application in applications:
        listed = {
            (acl.name, operation)
            for acl in acls_of(application)
            if acl.kind == "topic"
            for operation in (acl.operation, *IMPLIED.get(acl.operation, ["DESCRIBE"]))
        }
        eventually(lambda who=application, of=listed: allowed(kafka, who) == of, 120)


# the others let a topic be seen
IMPLIED = {"ALTER_CONFIGS": ["DESCRIBE_CONFIGS"], "DESCRIBE_CONFIGS": [], "CREATE": []}


def allowed(kafka: SecureKafka, application: str) -> set[tuple[str, str]]:
    admin = AdminClient({**kafka.mtls(f"headrace-{application}"), "log_level": 0})
    every = TopicCollection([topic.name for topic in FLOW.topics()])
    found: set[tuple[str, str]] = set()
    for name, asked in admin.describe_topics(every, include_authorized_operations=True).items():
        try:
            operations = asked.result(60).authorized_operations
        except KafkaException as error:
            assert error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED, error
        else:
            found |= {(name, operation.name) for operation in operations}
    return found
