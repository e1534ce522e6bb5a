from itertools import islice
from uuid import RFC_4122, UUID

import pytest

from shared.ids import (
    FULL_ID,
    derived_event_id,
    fresh_event_id,
    fresh_event_ids,
    full_id,
    tenant_of,
)


def test_fresh_ids_are_version_7_distinct_and_sorted_by_time() -> None:
    ids = [fresh_event_id() for _ in range(1000)]
    assert len(set(ids)) == 1000
    assert {UUID(i).version for i in ids} == {7}
    assert [i[:8] for i in ids] == sorted(i[:8] for i in ids)


def test_fresh_ids_of_what_comes_together_are_sorted_as_it_came_and_differ() -> None:
    """More of them than one counter counts."""
    ids = [*islice(fresh_event_ids(), 20_000)]
    assert ids == sorted(ids)
    ids += islice(fresh_event_ids(), 20_000)
    assert len(set(ids)) == len(ids)
    assert {UUID(i).version for i in ids} == {7}
    assert {UUID(i).variant for i in ids} == {RFC_4122}


def test_derived_ids_are_the_same_for_the_same_parts_only() -> None:
    assert derived_event_id("a", "b") == derived_event_id("a", "b")
    assert UUID(derived_event_id("a", "b")).version == 8
    assert len({derived_event_id(*parts) for parts in [("a", "b"), ("ab", ""), ("", "ab")]}) == 3


@pytest.mark.parametrize(("tenant", "own"), [("", "d"), ("acme", "d"), ("a-1", "A.b_c:d@e-f")])
def test_a_full_id_says_whose_it_is(tenant: str, own: str) -> None:
    full = full_id(tenant, own)
    assert FULL_ID.fullmatch(full)
    assert tenant_of(full) == tenant
    assert full.endswith(own)


@pytest.mark.parametrize("wrong", ["", "/", "/d", "acme/", "acme//d", "a/b/d", "Acme/d", "a.b/d"])
def test_what_is_no_full_id(wrong: str) -> None:
    assert not FULL_ID.fullmatch(wrong)
