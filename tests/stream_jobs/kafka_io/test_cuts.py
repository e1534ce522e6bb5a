"""Where batches are cut, on logs in memory."""

from bisect import bisect_right

from hypothesis import given
from hypothesis import strategies as some

from clients.kafka.records import Partition
from stream_jobs.kafka_io.cuts import CUT, cut_of, idle_pause_ms, next_cut

Times = dict[Partition, list[int]]


def cuts(logs: Times, records_max: int, now_ms: int, guess_ms: int) -> list[tuple[int, int]]:
    """Each with how many records are before it; all of them up to now."""
    found: list[tuple[int, int]] = []
    reached, before_ms = dict.fromkeys(logs, 0), 0
    while before_ms < now_ms:
        cut_ms, reached = next_cut(
            reached,
            lambda ms: {at: bisect_right(times, ms) for at, times in logs.items()},
            before_ms,
            max(before_ms + 1, guess_ms),
            now_ms,
            records_max,
        )
        assert cut_ms > before_ms
        assert reached == {at: bisect_right(times, cut_ms) for at, times in logs.items()}
        before_ms = cut_ms
        found.append((cut_ms, sum(reached.values())))
    return found


@given(
    some.lists(some.lists(some.integers(1, 10_000)), min_size=1, max_size=3),
    some.integers(1, 20),
    some.integers(1, 20_000),
)
def test_batches_have_all_records_in_their_times_and_none_is_too_large(
    logs: list[list[int]], records_max: int, guess_ms: int
) -> None:
    times = {("t", number): sorted(one) for number, one in enumerate(logs)}
    every = sorted(time for one in logs for time in one)
    found = cuts(times, records_max, 10_000, guess_ms)
    assert found[-1] == (10_000, len(every))
    done = 0
    for cut_ms, so_far in found:
        is_one_moment = every[done:so_far].count(cut_ms) == so_far - done
        assert so_far - done <= records_max or is_one_moment
        done = so_far


def test_batches_of_a_backlog_are_nearly_full_after_two_looks_each() -> None:
    """A view pays for each batch, whatever is in it."""
    times = range(1_000_000, 1_200_000)
    looked_at: list[int] = []

    def up_to(ms: int) -> dict[Partition, int]:
        looked_at.append(ms)
        return {("t", 0): bisect_right(times, ms)}

    done, before_ms, span_ms, sizes = 0, times[0] - 1, 4_000, list[int]()
    while done < len(times):
        guess_ms = before_ms + 4 * span_ms
        cut_ms, reached = next_cut(
            {("t", 0): done}, up_to, before_ms, guess_ms, times[-1], records_max=10_000
        )
        sizes.append(reached["t", 0] - done)
        done, span_ms, before_ms = reached["t", 0], cut_ms - before_ms, cut_ms
    assert min(sizes[:-1]) > 8_500
    assert len(looked_at) <= 2 * len(sizes)


def test_what_is_little_goes_up_to_now_at_once() -> None:
    assert cuts({("t", 0): [5, 6, 7]}, 10, 100, 100) == [(100, 3)]


def test_without_records_time_goes_on_ever_seldomer() -> None:
    assert [idle_pause_ms(s * 1000) for s in (0, 60, 300, 900)] == [5_000, 6_000, 30_000, 60_000]


def test_who_has_noted_no_cut_begins_with_the_first() -> None:
    assert cut_of({"t": {"0": 7}}) == 0
    assert cut_of({"t": {"0": 7}, CUT: {"0": 9}}) == 9
