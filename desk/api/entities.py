"""An entity for programs: /api/entities."""

from fastapi import APIRouter
from starlette.responses import Response

from desk.api.answers import json
from desk.api.letters import OpenDesk
from desk.credentials.service import CredentialDesk
from desk.entities.service import Entities


def entity_api(open_desk: OpenDesk, credentials: CredentialDesk) -> APIRouter:
    router = APIRouter(prefix="/api/entities")

    @router.get("/{entity_id:path}")
    def show(entity_id: str) -> Response:
        """Show an entity with all that is known of it."""
        with open_desk() as desk:
            return json(Entities(desk, credentials).find(entity_id))

    return router
