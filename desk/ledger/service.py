"""What became of all payloads. It is known without PostgreSQL, too: its keeper says it on Kafka."""

from typing import Any

from desk.words import statuses
from gateway.monitor.ledger_check import KEEPER, OLD_MS, seen_in
from shared.published.ledger import TERMS
from shared.settings import Settings
from shared.timestamps import now_ms, to_rfc3339


class LedgerDesk:
    """KafkaAwayError where Kafka does not answer."""

    def __init__(self, settings: Settings) -> None:
        self._kafka = settings.kafka

    def now(self) -> dict[str, Any] | None:
        """None where nobody keeps it, or has not said a word lately."""
        keeper = KEEPER.decode()
        status = statuses(self._kafka, [keeper]).get(keeper)
        seen = None if status is None else seen_in(status.said)
        if seen is None:
            return None
        each = [{"endpoint": name, **terms} for name, terms in sorted(seen.endpoints.items())]
        return {
            "as_of": to_rfc3339(seen.as_of_ms),
            "old": now_ms() - seen.as_of_ms > OLD_MS,
            "detail": seen.detail,
            **{term: sum(terms[term] for terms in seen.endpoints.values()) for term in TERMS},
            "endpoints": each,
            "derived": dict(seen.derived),
            "missing": list(seen.missing),
            "recounting": seen.recounting,
        }
