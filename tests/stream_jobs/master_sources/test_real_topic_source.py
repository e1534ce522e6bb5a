"""Tariffs from a topic, as Debezium fills it, of a real broker."""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest

from clients.postgres.store import Connection
from shared.master_data import TopicSource
from shared.model import Table
from shared.settings import JobSettings
from tests.job_process import JobProcess
from tests.kafka_log import eventually
from tests.stream_jobs.master_sources.conftest import Known, Topic, reading, said
from tests.stream_jobs.sourced_flow import TARIFF, Tariff

pytestmark = pytest.mark.stack


class TimedTariff(Tariff):
    from_ms: int


def table(topic: Topic, **changes: Any) -> Table:
    return replace(TARIFF, source=replace(TopicSource(topic.name, debezium=True), **changes))


def test_what_debezium_tells_of_rows_comes(
    topic: Topic, job_settings: JobSettings, tariffs: Known
) -> None:
    topic.send("a", "r", 1)
    topic.send("b", "r", 2, wrap=True)
    with reading(job_settings, table(topic)):
        tariffs.becomes({"a": 1, "b": 2})
        assert tariffs.rows()["a"] == {"zone": "a", "cents": 1}
        topic.send("a", "u", 3)
        topic.send("b", "d")
        topic.send("c", "c", 4, wrap=True)
        topic.flush()
        tariffs.becomes({"a": 3, "c": 4})
        topic.send("c", "d", wrap=True)
        topic.flush()
        tariffs.becomes({"a": 3})


def test_a_record_that_is_wrong_is_refused_and_nothing_stops(
    topic: Topic, job_settings: JobSettings, tariffs: Known
) -> None:
    topic.send("a", "c", 1)
    topic.send("b", "c", "expensive")
    topic.flush()
    with reading(job_settings, table(topic)):
        tariffs.becomes({"a": 1})
        topic.send("a", "u", None)
        topic.put(b'{"zone": "x"}', b"\xff{")
        topic.flush()
        tariffs.refuses({"a": "cents", "b": "cents", "x": "not JSON"})
        topic.send("c", "c", 5)
        topic.flush()
        tariffs.becomes({"a": 1, "c": 5})
        topic.send("a", "u", 2)
        topic.send("b", "d")
        topic.flush()
        tariffs.refuses({"x": "not JSON"})
        tariffs.becomes({"a": 2, "c": 5})


def test_a_row_that_postgresql_does_not_take_holds_up_no_other(
    topic: Topic, job_settings: JobSettings, tariffs: Known
) -> None:
    its = replace(table(topic, debezium=False), row=None)
    numbers = orjson.dumps({"zone": "a", "cents": 1, "numbers": [1e300] * 4000})
    for _ in range(2):
        topic.put(b"a", numbers)
        topic.put(b"b", b'{"zone": "b", "cents": 2}')
        topic.flush()
        with reading(job_settings, its):
            tariffs.refuses({"a": "PostgreSQL does not take it"})
            tariffs.becomes({"b": 2})
        topic.put(b"b", None)
        topic.flush()


def test_a_topic_that_is_not_there_is_told_until_it_is(
    topic: Topic, job_settings: JobSettings, tariffs: Known
) -> None:
    topic.name += "_later"
    with reading(job_settings, table(topic)):
        eventually(lambda: "no such topic" in said(job_settings, "tariff").get("detail", ""))
        topic.make()
        topic.send("a", "c", 1)
        topic.flush()
        tariffs.becomes({"a": 1})


def test_of_plain_values_a_null_takes_the_row_away(
    topic: Topic, job_settings: JobSettings, tariffs: Known
) -> None:
    topic.put(b"a", b'{"zone": "a", "cents": 1}')
    topic.put(b"b", b'{"cents": 2}')
    topic.flush()
    with reading(job_settings, table(topic, debezium=False)):
        tariffs.becomes({"a": 1, "b": 2})
        topic.put(b"a", None)
        topic.flush()
        tariffs.becomes({"b": 2})


def test_it_goes_on_where_it_was_and_reads_a_topic_anew_that_is_another(
    topic: Topic, job_settings: JobSettings, tariffs: Known
) -> None:
    its = table(topic, compacted=True)
    for number in range(20):
        topic.send(f"z{number}", "c", number)
    topic.flush()
    with reading(job_settings, its):
        tariffs.becomes({f"z{number}": number for number in range(20)})
    topic.send("z0", "d")
    topic.send("z1", "u", 100)
    topic.flush()
    with reading(job_settings, its):
        tariffs.becomes({"z1": 100, **{f"z{number}": number for number in range(2, 20)}})
    topic.make_anew()
    topic.send("z1", "r", 7)
    topic.flush()
    with reading(job_settings, its):
        tariffs.becomes({"z1": 7})


def test_rows_whose_records_were_deleted_stay_where_the_topic_does_not_keep_all(
    topic: Topic, job_settings: JobSettings, tariffs: Known
) -> None:
    topic.send("a", "c", 1)
    topic.send("b", "c", 2)
    topic.flush()
    with reading(job_settings, table(topic)):
        tariffs.becomes({"a": 1, "b": 2})
    topic.send("a", "u", 3)
    topic.flush()
    topic.cut()
    topic.send("c", "c", 4)
    topic.flush()
    with reading(job_settings, table(topic)):
        tariffs.becomes({"a": 1, "b": 2, "c": 4})


def test_rows_that_count_from_a_time_on_are_told_one_by_one(
    topic: Topic, job_settings: JobSettings, tariffs: Known
) -> None:
    its = replace(table(topic), row=TimedTariff, valid_from="from_ms")
    for from_ms in (100, 200):
        key, row = {"zone": "a", "from_ms": from_ms}, {"zone": "a", "from_ms": from_ms, "cents": 1}
        topic.put(orjson.dumps(key), orjson.dumps({"op": "c", "after": row}))
    topic.flush()
    with reading(job_settings, its):
        tariffs.becomes({"a@100": 1, "a@200": 1})
        topic.put(orjson.dumps({"zone": "a", "from_ms": 100}), None)
        topic.put(b"{}", orjson.dumps({"op": "d", "before": {"zone": "a", "from_ms": 200}}))
        topic.flush()
        tariffs.becomes({})


@pytest.mark.parametrize("lacking", ["master_row", "master_source"])
def test_rows_and_how_far_they_were_read_are_kept_together_or_not_at_all(
    lacking: str,
    topic: Topic,
    job_settings: JobSettings,
    tariffs: Known,
    connection: Connection,
) -> None:
    def position() -> list[Any]:
        return connection.execute("SELECT position FROM headrace.master_source").fetchall()

    topic.send("a", "c", 1)
    topic.flush()
    with reading(job_settings, table(topic)):
        tariffs.becomes({"a": 1})
    read = position()
    connection.execute(
        f"""CREATE FUNCTION headrace.away() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN RAISE EXCEPTION '{lacking} is away' USING ERRCODE = '55P03'; END $$;
            CREATE TRIGGER away BEFORE INSERT OR UPDATE ON headrace.{lacking}
                FOR EACH ROW EXECUTE FUNCTION headrace.away()""".encode()
    )
    topic.send("a", "u", 2)
    topic.send("b", "c", 3)
    topic.flush()
    with reading(job_settings, table(topic)):
        eventually(lambda: f"{lacking} is away" in said(job_settings, "tariff")["detail"])
        assert (tariffs.cents(), position()) == ({"a": 1}, read)
        connection.execute("DROP FUNCTION headrace.away() CASCADE")
        tariffs.becomes({"a": 2, "b": 3})
        assert position() != read


def test_a_relay_that_is_killed_loses_and_doubles_nothing(
    topic: Topic,
    job_settings: JobSettings,
    tariffs: Known,
    tmp_path: Path,
) -> None:
    settings = job_settings.model_copy(update={"flow": "tests.stream_jobs.sourced_flow:FLOW"})
    process = JobProcess(
        "relay",
        settings,
        tmp_path / "log",
        {
            "HEADRACE_POSTGRES_URL": settings.postgres_url.get_secret_value(),
            "HEADRACE_TEST_TARIFFS": topic.name,
        },
    )
    random, expected, writes = Random(1), dict[str, int](), 0
    with process:
        for _ in range(5):
            first = f"once {writes}"
            for _ in range(6000):
                zone, cents = f"z{random.randint(1, 2000)}", random.randint(0, 1000)
                if writes % 2 == 0:
                    zone = f"once {writes}"  # no later record makes good what was passed over
                writes += 1
                if random.random() < 0.1 and zone in expected:
                    topic.send(zone, "d")
                    del expected[zone]
                else:
                    topic.send(zone, "u", cents)
                    expected[zone] = cents
            topic.flush()
            # in the midst of them: thousands more are to be read
            eventually(lambda first=first: first in tariffs.rows(), 60, 0.02)
            process.kill()
            process.start()
        tariffs.becomes(expected)
    assert tariffs.refused() == {}
    assert sum(tariffs.revisions().values()) <= writes
