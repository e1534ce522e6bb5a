from uuid import UUID

from shared.ids import derived_event_id, fresh_event_id


def test_fresh_ids_are_version_7_distinct_and_sorted_by_time() -> None:
    ids = [fresh_event_id() for _ in range(1000)]
    assert len(set(ids)) == 1000
    assert {UUID(i).version for i in ids} == {7}
    assert [i[:8] for i in ids] == sorted(i[:8] for i in ids)


def test_derived_ids_are_the_same_for_the_same_parts_only() -> None:
    assert derived_event_id("a", "b") == derived_event_id("a", "b")
    assert UUID(derived_event_id("a", "b")).version == 8
    assert len({derived_event_id(*parts) for parts in [("a", "b"), ("ab", ""), ("", "ab")]}) == 3
