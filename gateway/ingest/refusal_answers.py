"""What a client is told of a payload that was not written, or may not have been."""

import logging
from collections.abc import Callable

from gateway.effects.wait import Wait
from gateway.http.problems import UNKNOWN_OUTCOME, Problem, internal_fault, refused, retry_after
from gateway.kafka_writer.outcome import NotWritten, OutcomeUnknown

log = logging.getLogger(__name__)


def problem_of(outcome: NotWritten | OutcomeUnknown, again: str = "send it again") -> Problem:
    if isinstance(outcome, OutcomeUnknown):
        return Problem(
            503,
            UNKNOWN_OUTCOME,
            "Kafka did not confirm the payload in time; it may have been written (with the same "
            f"Idempotency-Key it has one effect), so {again}",
            outcome="unknown",
            headers=retry_after(1),
        )
    if outcome.code == "record_too_large":
        return Problem(413, outcome.code, outcome.detail, outcome="definite")
    return refused(
        503,
        outcome.code,
        f"{outcome.detail}; the payload was not written, {again}",
        retry_after(1),
    )


def put_for(wait: Wait, put: Callable[[], None], respond: Callable[[Problem], None]) -> None:
    """Whoever calls it may have others to tell: what goes wrong is this one's answer."""
    try:
        put()
    except Exception as error:
        wait.refused()
        if not isinstance(error, Problem):
            log.exception("a fault in taking a payload")
        respond(error if isinstance(error, Problem) else internal_fault("POST"))


def batch_waits() -> Problem:
    return refused(
        400,
        "batch_waits",
        "a batch waits for nothing: leave out ?wait=, or post its payloads one by one; GET "
        "/state/<id>?after=<id of a receipt> waits for one of them",
    )
