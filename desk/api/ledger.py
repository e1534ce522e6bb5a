"""The ledger for programs."""

from fastapi import APIRouter
from starlette.responses import Response

from desk.api.answers import json
from desk.ledger.service import LedgerDesk
from gateway.http.problems import Problem, retry_after


def ledger_api(ledger: LedgerDesk) -> APIRouter:
    router = APIRouter(prefix="/api/ledger")

    @router.get("")
    def now() -> Response:
        """Show what became of all payloads."""
        found = ledger.now()
        if found is None:
            said = "who keeps the ledger, which is the relay's process, has not said a word lately"
            raise Problem(503, "ledger_unknown", said, headers=retry_after(5))
        return json(found)

    return router
