"""A job and what is wanted of it, without Spark."""

from pathlib import Path

import pytest

from shared.published.job_orders import JobOrder, Wanted
from stream_jobs.guards.checkpoint_folder import CheckpointFolder
from stream_jobs.job_orders.feed import OrdersUnknownError
from stream_jobs.job_orders.standing_order import StandingOrder


class Orders:
    def __init__(self) -> None:
        self.stands: JobOrder | None = None
        self.is_known = True
        self.job = "fold"
        self.resumed = 0

    def of(self, job: str) -> JobOrder | None:
        assert job == self.job
        if not self.is_known:
            raise OrdersUnknownError
        return self.stands

    def resumes(self, job: str) -> int:
        assert job == self.job
        return self.resumed

    def give(self, order: Wanted, at_ms: int = 1) -> None:
        self.stands = JobOrder(order=order, by="ann", at_ms=at_ms, why="it moves")


class Run:
    def __init__(self) -> None:
        self.said: list[str] = []
        self.why = ""
        self.has_failed = False
        self.has_claim = True
        self.is_busy = False  # its query takes long to end

    def end(self, state: str, why: str) -> bool:
        if not self.is_busy:
            self.said.append(state)
            self.why = why
        return not self.is_busy

    def holds_claim(self) -> bool:
        return self.has_claim


@pytest.fixture
def orders() -> Orders:
    return Orders()


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    checkpoint = tmp_path / "fold"
    (checkpoint / "commits").mkdir(parents=True)
    (tmp_path / "fold.made-for.json").write_text("{}")
    return checkpoint


def standing(orders: Orders, checkpoint: CheckpointFolder) -> StandingOrder:
    return StandingOrder("fold", orders, checkpoint)


def test_without_an_order_it_works(orders: Orders, checkpoint: Path) -> None:
    run = Run()
    assert not standing(orders, checkpoint).keeps_down(run)
    assert run.said == []


def test_none_begins_before_it_is_known_whether_it_is_paused(
    orders: Orders, checkpoint: Path
) -> None:
    orders.is_known = False
    assert standing(orders, checkpoint).keeps_down(Run())


def test_a_job_whose_state_is_nowhere_else_is_not_made_anew(orders: Orders, tmp_path: Path) -> None:
    """The record may be anybody's."""
    checkpoint, run = tmp_path / "retry", Run()
    (checkpoint / "commits").mkdir(parents=True)
    orders.job = "retry"
    orders.give(Wanted.REBUILD)
    assert not StandingOrder("retry", orders, checkpoint).keeps_down(run)
    assert (checkpoint / "commits").is_dir()
    assert run.said == []


def test_it_pauses_and_goes_on_where_it_was(orders: Orders, checkpoint: Path) -> None:
    run, order = Run(), standing(orders, checkpoint)
    orders.give(Wanted.PAUSE)
    assert order.keeps_down(run)
    assert order.keeps_down(run)
    assert run.why == "by ann, since 1970-01-01T00:00:00.001Z: it moves"
    assert standing(orders, checkpoint).keeps_down(Run())  # one that is started meanwhile
    orders.stands = None
    assert not order.keeps_down(run)
    assert not order.keeps_down(run)
    assert run.said == ["paused", "paused", "restarting"]
    assert (checkpoint / "commits").exists()


def test_it_makes_its_state_anew_once(orders: Orders, checkpoint: Path) -> None:
    run, order = Run(), standing(orders, checkpoint)
    orders.give(Wanted.REBUILD)
    assert not order.keeps_down(run)
    assert not checkpoint.exists()
    checkpoint.mkdir()
    assert not order.keeps_down(run)
    assert not standing(orders, checkpoint).keeps_down(run)  # nor after a restart
    assert run.said == ["restarting"]
    assert checkpoint.exists()
    # another order may be of a machine whose clock is behind
    orders.give(Wanted.REBUILD, at_ms=0)
    assert not order.keeps_down(run)
    assert not checkpoint.exists()
    assert run.said == ["restarting", "restarting"]


def test_what_its_views_were_made_by_outlives_it(orders: Orders, checkpoint: Path) -> None:
    orders.give(Wanted.REBUILD)
    standing(orders, checkpoint).keeps_down(Run())
    assert checkpoint.with_name("fold.made-for.json").exists()


def test_a_rebuild_ends_a_pause(orders: Orders, checkpoint: Path) -> None:
    run, order = Run(), standing(orders, checkpoint)
    orders.give(Wanted.PAUSE)
    assert order.keeps_down(run)
    orders.give(Wanted.REBUILD, at_ms=2)
    assert not order.keeps_down(run)
    assert not checkpoint.exists()


def test_the_checkpoint_of_another_copy_stays(orders: Orders, checkpoint: Path) -> None:
    run, order = Run(), standing(orders, checkpoint)
    orders.give(Wanted.REBUILD)
    run.has_claim = False
    assert not order.keeps_down(run)
    assert (checkpoint.exists(), run.said) == (True, [])
    run.has_claim = True
    order.keeps_down(run)
    assert not checkpoint.exists()


def test_what_another_process_has_made_anew_meanwhile_stays(
    orders: Orders, checkpoint: Path
) -> None:
    run, order = Run(), standing(orders, checkpoint)
    assert not order.keeps_down(run)
    orders.give(Wanted.REBUILD)
    assert not standing(orders, checkpoint).keeps_down(Run())
    checkpoint.mkdir()
    assert not order.keeps_down(run)
    assert (checkpoint.exists(), run.said) == (True, [])


def test_no_checkpoint_is_removed_before_its_query_has_ended(
    orders: Orders, checkpoint: Path
) -> None:
    run, order = Run(), standing(orders, checkpoint)
    orders.give(Wanted.REBUILD)
    run.is_busy = True
    assert order.keeps_down(run)
    assert (checkpoint / "commits").exists()
    run.is_busy = False
    assert not order.keeps_down(run)
    assert not checkpoint.exists()


def test_it_stays_down_and_says_why_until_its_checkpoint_is_removed(
    orders: Orders, checkpoint: Path
) -> None:
    run, order = Run(), standing(orders, checkpoint)
    orders.give(Wanted.REBUILD)
    in_the_way = checkpoint.with_name("fold.removed")
    in_the_way.write_text("")  # a folder cannot take its name
    for _ in range(2):
        assert order.keeps_down(run)
        assert "its state is to be made anew: " in run.why
    assert (checkpoint / "commits").exists()
    in_the_way.unlink()
    # another process goes on, and the order does not stand any more
    orders.stands = None
    again = standing(orders, checkpoint)
    assert not again.keeps_down(run)
    assert not checkpoint.exists()
    checkpoint.mkdir()
    assert not again.keeps_down(run)
    assert not standing(orders, checkpoint).keeps_down(run)
    assert checkpoint.exists()


def test_who_goes_on_wakes_one_that_has_failed_and_no_other(
    orders: Orders, checkpoint: Path
) -> None:
    """Also where it has seen nothing of the pause before."""
    run, order = Run(), standing(orders, checkpoint)
    orders.resumed = 3  # long ago
    run.has_failed = True
    assert not order.keeps_down(run)
    assert run.said == []
    orders.resumed += 1
    assert not order.keeps_down(run)
    assert not order.keeps_down(run)
    assert run.said == ["restarting"]
    orders.resumed += 1
    run.has_failed = False
    assert not order.keeps_down(run)
    assert run.said == ["restarting"]


def test_a_checkpoint_that_is_a_link_keeps_its_place(orders: Orders, tmp_path: Path) -> None:
    """To a larger disk, say."""
    disk, checkpoint = tmp_path / "disk" / "own", tmp_path / "state" / "fold"
    checkpoint.parent.mkdir()
    disk.mkdir(parents=True)
    checkpoint.symlink_to(disk)
    order, run = standing(orders, checkpoint), Run()
    for at_ms in (1, 2):
        (disk / "commits").mkdir()
        (disk / "metadata").write_text("{}")
        orders.give(Wanted.REBUILD, at_ms)
        assert not order.keeps_down(run), run.why
        assert checkpoint.is_symlink()
        assert [*disk.iterdir()] == []


def test_one_whose_checkpoint_cannot_be_looked_for_says_no_word_of_a_rebuild(
    orders: Orders, checkpoint: Path
) -> None:
    run, note = Run(), checkpoint.with_name("fold.rebuilt")
    note.mkdir()  # no file that can be read
    assert standing(orders, checkpoint).keeps_down(run)
    assert run.why.startswith("its checkpoint is looked for: ")
