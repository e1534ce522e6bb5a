"""The lane of rows that wait, as a job starts and pauses it, on a real PostgreSQL."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients.postgres import store
from shared.flow import FLOW
from shared.settings import JobSettings
from stream_jobs.persist.advisory_lock import persist_lock
from stream_jobs.persist.waiting_lane import WaitingLane
from stream_jobs.persist.waiting_rows import CHANNEL
from tests.kafka_log import eventually

pytestmark = pytest.mark.stack
# of a topic that the flow has not: it is parked as soon as it is tried
WAITS = """
    INSERT INTO headrace.waiting_row
        (topic, line, partition, "offset", key, value, headers, due_at, tried_at, reason, detail)
    VALUES ('event.gone.v1', 'a', 0, 1, 'a', 'x', '[]', now(), now(), '23503', 'x')
"""


@pytest.fixture
def settings(postgres_url: str, tmp_path: Path) -> JobSettings:
    return JobSettings(postgres_url=postgres_url, state_dir=tmp_path)


@pytest.fixture
def lane(settings: JobSettings) -> Iterator[WaitingLane]:
    lane = WaitingLane(settings, FLOW)
    yield lane
    lane.stop()


def waiting(connection: store.Connection) -> int:
    found = connection.execute(b"SELECT count(*) FROM headrace.waiting_row").fetchone()
    assert found is not None
    return int(found[0])


def sessions(connection: store.Connection) -> list[str]:
    """Of the job, in this database."""
    found = connection.execute(
        b"""SELECT application_name FROM pg_stat_activity
            WHERE application_name LIKE 'headrace-persist-l%' AND datname = current_database()"""
    )
    return sorted(str(name) for (name,) in found)


def test_while_its_job_pauses_nothing_is_tried_and_nobody_is_connected(
    lane: WaitingLane, settings: JobSettings, connection: store.Connection
) -> None:
    lane.start()
    eventually(lambda: sessions(connection) == ["headrace-persist-lines"])
    persist_lock(settings.postgres_url.get_secret_value()).hold()
    assert len(sessions(connection)) == 2
    lane.stop()
    eventually(lambda: sessions(connection) == [], within_s=10)
    connection.execute(WAITS.encode())
    connection.execute(f"NOTIFY {CHANNEL}".encode())
    time.sleep(3)
    assert waiting(connection) == 1
    lane.start()
    eventually(lambda: waiting(connection) == 0)
