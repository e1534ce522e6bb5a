"""A receipt or a refusal for each payload of a batch."""

from collections.abc import Sequence
from typing import Any

import orjson

from gateway.http.problems import Problem
from gateway.ingest.refusal_answers import problem_of
from gateway.kafka_writer.outcome import Outcome
from gateway.node.payload_counts import Line

# a line alone is known under the batch's key only as long as no other line equals it
_AGAIN = "send it again: with its whole batch where an Idempotency-Key stands for that, else alone"


def batch_answer(lines: Sequence[Line], outcomes: Sequence[Outcome], received_at: str) -> bytes:
    """The body of a 207. Raises Problem where nothing at all was accepted: many a client looks at
    the status alone, and 207 would tell it that all went well."""
    receipts: list[dict[str, Any]] = []
    problems: list[Problem] = []
    ends = iter(outcomes)
    for number, line in enumerate(lines):
        if line is None:
            continue
        if isinstance(line, Problem):
            problem = line
        else:
            outcome = next(ends)
            if not isinstance(outcome, Exception):
                receipts.append({"line": number, "status": 202, "id": line, **outcome.fields()})
                continue
            problem = problem_of(outcome, _AGAIN)
        problems.append(problem)
        receipt = {
            "line": number,
            "status": problem.status,
            "code": problem.code,
            "detail": problem.detail,
            "outcome": problem.outcome,
        }
        if (wait_s := problem.headers.get("retry-after")) is not None:
            receipt["retry_after_s"] = int(wait_s)
        receipts.append(receipt)
    if len(problems) == len(receipts):
        raise _all_refused(problems)
    return orjson.dumps(
        {
            "accepted": len(receipts) - len(problems),
            "refused": len(problems),
            "received_at": received_at,
            "receipts": receipts,
        }
    )


def _all_refused(problems: Sequence[Problem]) -> Problem:
    if not problems:
        return Problem(400, "empty_body", "there is no payload in the batch", outcome="definite")
    # what may be better next time comes first, what nobody can tell before all
    worst = max(problems, key=lambda problem: (problem.outcome == "unknown", problem.status))
    return Problem(
        worst.status,
        worst.code,
        f"nothing was accepted: {worst.detail}",
        outcome=worst.outcome,
        headers=worst.headers,
        payloads=0,  # each was counted for itself
    )
