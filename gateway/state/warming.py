"""Until this node has read all states from Kafka it says nothing of them."""

from gateway.http.problems import Problem, retry_after
from gateway.state_view.reader import Progress
from shared.model import Aggregate, Entity


def refuse_while_warming(of: Entity | Aggregate, progress: Progress) -> int:
    """Up to when it has read all there is."""
    if not progress.warm or progress.caught_up_ms is None:
        raise Problem(
            503,
            "warming",
            f"the view of {of.name} is still being read from Kafka; ask again",
            headers=retry_after(1),
        )
    return progress.caught_up_ms
