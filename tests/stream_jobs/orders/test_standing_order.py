"""A job and what is wanted of it, without Spark."""

from pathlib import Path

import pytest

from shared.published.job_orders import JobOrder, Wanted
from stream_jobs.guards.checkpoint_folder import CheckpointFolder
from stream_jobs.orders.feed import OrdersUnknownError
from stream_jobs.orders.standing_order import StandingOrder


class Orders:
    def __init__(self) -> None:
        self.stands: JobOrder | None = None
        self.is_known = True
        self.job = "fold"

    def of(self, job: str) -> JobOrder | None:
        assert job == self.job
        if not self.is_known:
            raise OrdersUnknownError
        return self.stands

    def give(self, order: Wanted, at_ms: int = 1) -> None:
        self.stands = JobOrder(order=order, by="ann", at_ms=at_ms, why="it moves")


class Run:
    def __init__(self) -> None:
        self.said: list[str] = []
        self.why = ""

    def end(self, state: str, why: str) -> None:
        self.said.append(state)
        self.why = why


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
    assert not standing(orders, checkpoint).keeps_down(run, is_the_copy=True)
    assert run.said == []


def test_none_begins_before_it_is_known_whether_it_is_paused(
    orders: Orders, checkpoint: Path
) -> None:
    orders.is_known = False
    assert standing(orders, checkpoint).keeps_down(Run(), is_the_copy=True)


def test_a_job_whose_state_is_nowhere_else_is_not_made_anew(orders: Orders, tmp_path: Path) -> None:
    """The record may be anybody's."""
    checkpoint, run = tmp_path / "retry", Run()
    (checkpoint / "commits").mkdir(parents=True)
    orders.job = "retry"
    orders.give(Wanted.REBUILD)
    assert not StandingOrder("retry", orders, checkpoint).keeps_down(run, is_the_copy=True)
    assert (checkpoint / "commits").is_dir()
    assert run.said == []


def test_it_pauses_and_goes_on_where_it_was(orders: Orders, checkpoint: Path) -> None:
    run, order = Run(), standing(orders, checkpoint)
    orders.give(Wanted.PAUSE)
    assert order.keeps_down(run, is_the_copy=True)
    assert order.keeps_down(run, is_the_copy=True)
    assert run.why == "by ann, since 1970-01-01T00:00:00.001Z: it moves"
    assert standing(orders, checkpoint).keeps_down(
        Run(), is_the_copy=True
    )  # one that is started meanwhile
    orders.stands = None
    assert not order.keeps_down(run, is_the_copy=True)
    assert not order.keeps_down(run, is_the_copy=True)
    assert run.said == ["paused", "paused", "restarting"]
    assert (checkpoint / "commits").exists()


def test_it_makes_its_state_anew_once(orders: Orders, checkpoint: Path) -> None:
    run, order = Run(), standing(orders, checkpoint)
    orders.give(Wanted.REBUILD)
    assert not order.keeps_down(run, is_the_copy=True)
    assert not checkpoint.exists()
    checkpoint.mkdir()
    assert not order.keeps_down(run, is_the_copy=True)
    assert not standing(orders, checkpoint).keeps_down(run, is_the_copy=True)  # nor after a restart
    assert run.said == ["restarting"]
    assert checkpoint.exists()
    # another order may be of a machine whose clock is behind
    orders.give(Wanted.REBUILD, at_ms=0)
    assert not order.keeps_down(run, is_the_copy=True)
    assert not checkpoint.exists()
    assert run.said == ["restarting", "restarting"]


def test_what_its_views_were_made_by_outlives_it(orders: Orders, checkpoint: Path) -> None:
    orders.give(Wanted.REBUILD)
    standing(orders, checkpoint).keeps_down(Run(), is_the_copy=True)
    assert checkpoint.with_name("fold.made-for.json").exists()


def test_a_rebuild_ends_a_pause(orders: Orders, checkpoint: Path) -> None:
    run, order = Run(), standing(orders, checkpoint)
    orders.give(Wanted.PAUSE)
    assert order.keeps_down(run, is_the_copy=True)
    orders.give(Wanted.REBUILD, at_ms=2)
    assert not order.keeps_down(run, is_the_copy=True)
    assert not checkpoint.exists()


def test_the_checkpoint_of_another_copy_stays(orders: Orders, checkpoint: Path) -> None:
    run, order = Run(), standing(orders, checkpoint)
    orders.give(Wanted.REBUILD)
    assert not order.keeps_down(run, is_the_copy=False)
    assert (checkpoint.exists(), run.said) == (True, [])
    order.keeps_down(run, is_the_copy=True)
    assert not checkpoint.exists()
