import json

import pytest

from clients.kafka.create_topics import ensure_topics
from clients.kafka.records import Outgoing
from clients.kafka.write import publish
from local_stack.run.stack import Stack
from local_stack.terminal.errors import StackError
from local_stack.terminal.output import Output
from local_stack.verbs import skew as verb
from local_stack.verbs.skew import Share, skew, told
from shared.flow import FLOW
from shared.settings import JobSettings


def _share(sizes: dict[bytes, int], unread: int = 0) -> Share:
    share = Share(unread, seconds=10.0)
    for key, size in sizes.items():
        share.add(key, size)
    return share


EVEN = {("a", number): _share({b"d-%d" % number: 100}) for number in range(4)}


def test_where_all_have_their_even_share_nothing_is_to_be_done() -> None:
    found = told(EVEN)
    assert [row["of_topic"] for row in found["partitions"]] == [0.25] * 4
    assert found["advice"] == ["No partition has twice its even share of the bytes."]


def test_a_hot_entity_is_named_with_a_way_out() -> None:
    found = told({**EVEN, ("a", 2): _share({b"hot": 900, b"d-2": 100}, unread=7)})
    (sentence,) = found["advice"]
    assert "a/2 has 77% of the topic's bytes, most of it of hot" in sentence
    assert found["entities"][0] == {
        "entity": "hot",
        "topic": "a",
        "partition": 2,
        "of_topic": 0.692,
    }
    row = found["partitions"][2]
    assert (row["hottest"], row["of_partition"], row["unread"]) == ("hot", 0.9, 7)
    assert (row["records_per_s"], row["bytes_per_s"]) == (0.2, 100.0)


def test_many_entities_of_one_partition_are_no_hot_one() -> None:
    many = {b"m-%d" % number: 100 for number in range(20)}
    (sentence,) = told({**EVEN, ("a", 2): _share(many)})["advice"]
    assert "of 20 entities, none with half of it" in sentence


def test_topics_are_compared_with_themselves_alone() -> None:
    other = {("b", 0): _share({b"x": 1_000_000})}
    assert told({**EVEN, **other})["advice"] == told(EVEN)["advice"]


def test_a_topic_without_records_has_no_shares() -> None:
    found = told({("a", 0): Share(0), ("a", 1): Share(0)})
    assert [row["of_topic"] for row in found["partitions"]] == [None, None]
    assert found["entities"] == []


def test_a_job_that_reads_no_topic_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_KAFKA_BOOTSTRAP", "127.0.0.1:1")
    with pytest.raises(StackError, match="no job 'folds' reads a topic"):
        skew(job="folds")


@pytest.mark.stack
def test_the_log_itself_is_looked_at(
    job_settings: JobSettings,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    parts: Stack,
) -> None:
    topic = "ingest.telemetry.v1"
    monkeypatch.setenv("HEADRACE_KAFKA_BOOTSTRAP", parts.kafka_bootstrap)
    monkeypatch.setattr(verb, "_reads", lambda *_: (topic,))
    hot = [Outgoing(topic, b"skewed-hot", bytes(1000), []) for _ in range(200)]
    others = [Outgoing(topic, b"skewed-%d" % number, bytes(10), []) for number in range(50)]
    ensure_topics(FLOW, job_settings)
    publish(job_settings.kafka, [*hot, *others])
    skew(job="enrich", since="1h", records=1_000, output=Output.JSON)
    found = json.loads(capsys.readouterr().out)
    assert len(found["partitions"]) == 4
    assert found["entities"][0]["entity"] == "skewed-hot"
    assert any("skewed-hot" in sentence for sentence in found["advice"])
    assert sum(row["unread"] for row in found["partitions"]) >= 250
