from shared.published.replicas import Copies, troubles

WHOLE = [(3, 3), (3, 3)]


def said(*topics: Copies, wanted: int = 3) -> list[tuple[str, str]]:
    return [(one.status, one.text) for one in troubles(topics, wanted)]


def test_topics_that_are_whole_and_safe_are_no_trouble() -> None:
    assert said(Copies("a", WHOLE, 2, False)) == []
    assert said(Copies("a", [(1, 1)], 1, False), wanted=1) == []


def test_too_few_in_sync_is_a_failure_for_nothing_can_be_written() -> None:
    ((status, text),) = said(Copies("a", [(3, 3), (3, 1)], 2, False))
    assert status == "fail"
    assert "nothing can be written to a: bring the missing brokers back" in text


def test_a_replica_that_is_behind_is_a_warning() -> None:
    assert said(Copies("a", [(3, 3), (3, 2)], 2, False)) == [
        ("warn", "not all replicas are in sync of a: look at Kafka")
    ]


def test_a_setting_that_was_raised_later_changes_no_topic() -> None:
    ((status, text),) = said(Copies("a", [(1, 1)], 1), Copies("b", WHOLE, 2))
    assert status == "warn"
    assert text.startswith("HEADRACE_REPLICATION=3, and a has 1: the setting changes no topic")


def test_what_can_lose_acknowledged_records_is_a_warning() -> None:
    ((status, text),) = said(Copies("a", WHOLE, 1, False))
    assert (status, text.split(":")[0]) == ("warn", "min.insync.replicas is 1")
    ((status, text),) = said(Copies("a", WHOLE, 2, True))
    assert (status, text.split(":")[0]) == ("warn", "unclean.leader.election.enable is true")


def test_many_topics_are_not_all_named() -> None:
    ((_, text),) = said(*(Copies(f"t{n}", WHOLE, 2, True) for n in range(9)))
    assert "t0, t1, t2 and 6 more" in text


def test_what_brokers_do_not_tell_is_no_trouble() -> None:
    assert said(Copies("a", WHOLE)) == []
