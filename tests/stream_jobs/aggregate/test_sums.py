"""Totals of members that come late, doubled, moved and gone, against a plain sum of the latest."""

from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.errors import AddFailedError
from shared.flow import FLOW
from shared.folding import snapshot
from shared.folding.snapshot import Snapshot
from shared.model import Fields, Share
from shared.sample_domain import device
from stream_jobs.aggregate import sums
from stream_jobs.aggregate.sums import Members, MemberState, Total
from tests.oracle import expected_areas

AREA = FLOW.aggregates[0]
BUCKETS = 3


def _device(number: int, version: int, where: str | None, value: float) -> MemberState:
    seen = {"count": version, "value": value, "value_at_ms": version, "max": value, "area": where}
    name = f"device-{number}"
    return MemberState(name, version, version, {**device.initial(name), **seen})


def _gone(number: int) -> MemberState:
    return MemberState(f"device-{number}", None, None, None)


class Job:
    """Both steps, as the job runs them; what is kept between batches passes through JSON."""

    def __init__(self) -> None:
        self.members: dict[str, bytes] = {}
        self.totals: dict[str, bytes] = {}
        self.areas: dict[str, Fields] = {}
        self.versions: dict[str, list[int]] = {}

    def batch(self, records: list[MemberState]) -> None:
        by_bucket: dict[str, list[MemberState]] = {}
        for record in records:
            by_bucket.setdefault(str(int(record.id[7:]) % BUCKETS), []).append(record)
        changes: dict[str, list[tuple[str, sums.Part | None]]] = {}
        for bucket, own in by_bucket.items():
            members: Members = sums.members_from(orjson.loads(self.members.get(bucket, b"{}")))
            ids = set().union(*(sums.take(AREA, members, record) for record in own))
            self.members[bucket] = orjson.dumps(members, default=tuple)
            for of, part in sums.parts(AREA, members, ids):
                changes.setdefault(of, []).append((bucket, part))
        for of, parts in changes.items():
            stored = self.totals.get(of)
            before = sums.total_from(orjson.loads(stored)) if stored else Total(0, {})
            total = sums.renew(before, parts)
            self.totals[of] = orjson.dumps(total, default=tuple)
            self.areas[of] = sums.state_of(AREA, of, total)[1]
            self.versions.setdefault(of, []).append(total.version)


records = st.lists(
    st.one_of(
        st.builds(
            _device,
            st.integers(0, 5),
            st.integers(1, 6),
            st.sampled_from(["north", "south", None]),
            st.sampled_from([1.0, 2.0, 3.0]),
        ),
        st.builds(_gone, st.integers(0, 5)),
    ),
    max_size=40,
)


@given(records, st.data())
@settings(max_examples=200)
def test_a_total_is_the_sum_of_the_latest_of_each_however_batches_are_cut(
    log: list[MemberState], data: st.DataObject
) -> None:
    job, at = Job(), 0
    while at < len(log):
        cut = data.draw(st.integers(at + 1, len(log)))
        job.batch(log[at:cut])
        at = cut
    latest: dict[str, MemberState] = {}
    for record in log:
        known = latest.get(record.id)
        if record.version is None:
            latest.pop(record.id, None)
        elif known is None or known.version is None or record.version > known.version:
            latest[record.id] = record
    expected = expected_areas({r.id: r.state for r in latest.values() if r.state is not None})
    assert {of: area for of, area in job.areas.items() if area["devices"]} == expected
    for versions in job.versions.values():
        assert versions == list(range(1, len(versions) + 1))


def test_a_move_takes_the_share_along_and_leaves_an_empty_area() -> None:
    job = Job()
    job.batch([_device(1, 1, "north", 7.0)])
    job.batch([_device(1, 2, "south", 5.0)])
    assert (job.areas["north"]["devices"], job.areas["north"]["highest"]) == (0, None)
    assert (job.areas["south"]["devices"], job.areas["south"]["value"]) == (1, 5.0)


def test_what_does_not_change_a_share_changes_no_aggregate() -> None:
    members: Members = {}
    first = _device(1, 1, "north", 7.0)
    assert sums.take(AREA, members, first) == {"north"}
    assert sums.take(AREA, members, first._replace(version=2)) == set()
    assert members["device-1"].version == 2


@pytest.mark.parametrize("of", ["", None, 5, "a/b", "a\nb", "x" * 201])
def test_a_share_of_nothing_that_could_be_asked_for_is_refused(of: Any) -> None:
    careless = replace(AREA, share=lambda _state: Share(of, {}))
    with pytest.raises(ValueError, match="a share is of an id: text of 1 to 200"):
        sums.take(careless, {}, _device(1, 1, "north", 1.0))


@pytest.mark.parametrize("fields", [None, [1], {1: 2}, {"n": 2**70}, {"n": object()}])
def test_a_share_that_cannot_be_written_is_refused_before_it_could_stop_anything(
    fields: Any,
) -> None:
    careless = replace(AREA, share=lambda _state: Share("north", fields))
    with pytest.raises(TypeError):
        sums.take(careless, {}, _device(1, 1, "north", 1.0))


def test_who_has_a_newer_state_without_a_share_that_can_be_taken_has_left() -> None:
    members: Members = {}
    sums.take(AREA, members, _device(1, 1, "north", 7.0))
    assert sums.leave(members, _device(1, 2, "", 7.0)) == {"north"}
    assert dict(sums.parts(AREA, members, ["north"])) == {"north": None}
    assert sums.take(AREA, members, _device(1, 1, "north", 7.0)) == set()
    assert sums.leave(members, _device(1, 1, "north", 7.0)) == set()


@pytest.mark.parametrize("state", [None, [1], {"n": 2**70}])
def test_a_total_that_cannot_be_written_is_told_by_the_aggregate_s_name(state: Any) -> None:
    careless = replace(AREA, name="sums", total=lambda _id, _sum: state)
    with pytest.raises(AddFailedError, match="aggregate sums cannot be added up: TypeError"):
        sums.state_of(careless, "x", Total(1, {}))


def test_a_share_may_take_the_state_apart() -> None:
    careless = replace(AREA, share=lambda state: Share(state.pop("area"), state))
    member = _device(1, 1, "north", 7.0)
    assert sums.take(careless, {}, member) == {"north"}
    assert member.state is not None
    assert member.state["area"] == "north"


def test_a_mistake_in_adding_is_told_by_the_aggregate_s_name() -> None:
    def add(one: Fields, other: Fields) -> Fields:
        return {"sum": one["n"] + other["n"]}

    careless = replace(AREA, name="sums", add=add)
    one = sums.Part(1, {"n": 1})
    with pytest.raises(AddFailedError, match="aggregate sums cannot be added up: KeyError: 'n'"):
        sums.state_of(careless, "x", Total(1, {"a": one, "b": one, "c": one}))


def test_a_member_s_record_is_read_and_one_that_is_none_is_told() -> None:
    value = snapshot.encode(Snapshot({"a": 1}, version=3, event_time_ms=5), "f")
    assert sums.member_state(b"m", value) == MemberState("m", 3, 5, {"a": 1})
    assert sums.member_state(b"m", None) == MemberState("m", None, None, None)
    for key, broken in [(None, value), (b"\xff", value), (b"m", b"{}"), (b"m", b"[]"), (b"m", b"")]:
        with pytest.raises(ValueError):
            sums.member_state(key, broken)


def test_two_tenants_areas_of_one_name_are_two() -> None:
    ids = ("acme/device-1", "beta/device-1", "device-1")
    sent = [
        _device(1, 1, "north", value)._replace(id=member)
        for member, value in zip(ids, (1.0, 2.0, 3.0), strict=True)
    ]
    members: Members = {}
    changed = set().union(*(sums.take(AREA, members, record) for record in sent))
    assert changed == {"acme/north", "beta/north", "north"}
    values = {
        of: part.fields["value"]
        for of, part in sums.parts(AREA, members, changed)
        if part is not None
    }
    assert values == {"acme/north": 1.0, "beta/north": 2.0, "north": 3.0}
    moved = _device(1, 2, "south", 1.0)._replace(id="acme/device-1")
    assert sums.take(AREA, members, moved) == {"acme/north", "acme/south"}


@pytest.mark.parametrize(
    ("member", "of", "known_as"),
    [
        ("acme/d", "acme/north", "acme/north"),  # from an id that has the tenant already
        ("acme/d", "beta/north", None),
        ("d", "acme/north", None),
        ("acme/d", "acme/", None),
        ("acme/d", "x" * 200, "acme/" + "x" * 200),
        ("acme/d", "x" * 201, None),
    ],
)
def test_a_share_stays_in_its_member_s_tenant(member: str, of: str, known_as: str | None) -> None:
    aggregate = replace(AREA, share=lambda _: Share(of, {}))
    record, members = _device(1, 1, "north", 1.0)._replace(id=member), {}
    if known_as is None:
        with pytest.raises(ValueError, match="a share is of an id"):
            sums.take(aggregate, members, record)
    else:
        assert sums.take(aggregate, members, record) == {known_as}


def test_a_deleted_member_takes_its_share_along_and_still_guards() -> None:
    members: Members = {}
    device_1 = _device(1, 1, "north", 1.0)
    sums.take(AREA, members, device_1)
    deleted = MemberState(device_1.id, 3, 3, device.initial(device_1.id), deleted=True)
    assert sums.take(AREA, members, deleted) == {"north"}
    assert dict(sums.parts(AREA, members, {"north"})) == {"north": None}
    assert sums.take(AREA, members, _device(1, 2, "north", 1.0)) == set()
    assert sums.take(AREA, members, _device(1, 4, "south", 1.0)) == {"south"}
