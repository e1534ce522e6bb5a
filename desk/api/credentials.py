"""Credentials for programs. A secret is told where it is made, and nowhere else."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from desk.api.answers import json
from desk.api.documents import Document
from desk.credentials.service import DAYS_MAX, CredentialDesk, Owner, caller_of
from desk.web.access import by
from gateway.auth.caller import May
from gateway.auth.credentials import Kind


class ToAdd(Document):
    role: Owner = "device"
    device: str | None = None
    tenant: str = ""
    all_tenants: bool = False
    may: May = "administer"
    kind: Kind = "token"
    days: int | None = Field(None, ge=1, le=DAYS_MAX)


def credential_api(credentials: CredentialDesk) -> APIRouter:
    router = APIRouter(prefix="/api/credentials")

    @router.get("")
    def all_of_them(
        device: str | None = None, limit: Annotated[int, Query(ge=1, le=100_000)] = 1000
    ) -> Response:
        """List credentials, the newest first."""
        return json({"credentials": credentials.all(device)[:limit]})

    @router.get("/{key_id}")
    def show(key_id: str) -> Response:
        """Show a credential, but for its secret."""
        return json(credentials.show(key_id))

    @router.post("")
    def add(request: Request, wanted: ToAdd) -> Response:
        """Add a credential; its secret is told here alone."""
        caller = caller_of(
            wanted.role,
            wanted.device,
            wanted.tenant,
            all_tenants=wanted.all_tenants,
            may=wanted.may,
        )
        added = credentials.add(caller, wanted.kind, wanted.days, by=by(request))
        return json(added.told(), 201)

    @router.delete("/{key_id}")
    def revoke(request: Request, key_id: str) -> Response:
        """Revoke a credential."""
        credentials.revoke(key_id, by=by(request))
        return Response(status_code=204)

    return router
