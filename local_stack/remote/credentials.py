from typing import Any

from desk.credentials.service import Added
from gateway.auth.caller import Caller
from gateway.auth.credentials import Kind
from local_stack.remote.asking import RemoteDesk


class RemoteCredentials:
    """`by`: the desk knows whose token it is."""

    def __init__(self, desk: RemoteDesk) -> None:
        self._desk = desk

    def all(self) -> list[dict[str, Any]]:
        return list(self._desk.get("credentials", limit=100_000)["credentials"])

    def add(self, caller: Caller, kind: Kind, days: int | None, *, by: str) -> Added:  # noqa: ARG002
        wanted = {
            "role": caller.role,
            "device": caller.device,
            "tenant": caller.tenant,
            "all_tenants": caller.all_tenants,
            "may": caller.may,
            "kind": kind,
            "days": days,
        }
        return Added.of(self._desk.post("credentials", document=wanted))

    def revoke(self, key_id: str, *, by: str) -> None:  # noqa: ARG002
        self._desk.delete("credentials", key_id)
