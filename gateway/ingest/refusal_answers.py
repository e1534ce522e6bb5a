"""What a client is told of a payload that was not written, or may not have been."""

from gateway.http.problems import UNKNOWN_OUTCOME, Problem, refused, retry_after
from gateway.kafka_writer.outcome import NotWritten, OutcomeUnknown


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
