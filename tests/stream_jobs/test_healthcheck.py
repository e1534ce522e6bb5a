import pytest

from clients.kafka import last_words
from clients.kafka.create_topics import ensure_topics
from local_stack.run.stack import Stack
from shared.flow import FLOW
from shared.settings import JobSettings
from stream_jobs import healthcheck
from stream_jobs.supervision.status import StatusReporter
from tests.kafka_log import eventually


@pytest.fixture
def kafka(parts: Stack, monkeypatch: pytest.MonkeyPatch) -> JobSettings:
    monkeypatch.setenv("HEADRACE_KAFKA_BOOTSTRAP", parts.kafka_bootstrap)
    settings = JobSettings()
    ensure_topics(FLOW, settings)
    return settings


def says(settings: JobSettings, job: str, state: str, detail: str = "") -> None:
    reporter = StatusReporter(settings, job)
    reporter.report(state, detail)
    reporter.flush()


@pytest.mark.stack
def test_the_last_word_of_a_job_is_its_health(
    kafka: JobSettings, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(*jobs: str) -> tuple[int, str]:
        return healthcheck.main(*jobs), capsys.readouterr().out.strip()

    says(kafka, "healthy", "restarting")
    says(kafka, "healthy", "running")
    says(kafka, "patient", "waiting", "PostgreSQL: away")
    says(kafka, "broken", "running")
    says(kafka, "broken", "failed", "data_loss")
    eventually(lambda: ask("healthy") == (0, "healthy is running"))  # the topic is new
    assert ask("patient") == (0, "patient is waiting: PostgreSQL: away")
    assert ask("broken") == (1, "broken is failed: data_loss")
    assert ask("silent") == (1, "silent has not said a word for 15 s")
    assert ask("healthy", "patient")[0] == 0
    both = "healthy is running\nbroken is failed: data_loss"
    assert ask("healthy", "broken") == (1, both)  # one of them that is not well is enough
    # what was said before then no longer counts
    monkeypatch.setattr(last_words, "RECENT_MS", 0)
    assert ask("healthy") == (1, "healthy has not said a word for 15 s")


def test_without_kafka_it_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_KAFKA_BOOTSTRAP", "127.0.0.1:1")
    monkeypatch.setattr(last_words, "_ANSWER_S", 0.2)
    assert healthcheck.main("fold") == 1
    assert capsys.readouterr().out.startswith("Kafka at 127.0.0.1:1 ")
