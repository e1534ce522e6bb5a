"""Credentials as their topic has them, and the table of them that every check looks into."""

import os
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

import orjson

from gateway.auth.caller import Caller, May
from gateway.http.problems import refused, retry_after
from shared.ids import ENTITY_ID, NO_TENANT, TENANT
from shared.timestamps import is_time_ms

Kind = Literal["token", "hmac"]


class Credential(NamedTuple):
    caller: Caller
    kind: Kind
    # of a token the sha256 of its secret; of a signing key the secret, sealed: a signature cannot
    # be checked without it
    proof: bytes
    not_after_ms: int | None = None
    made_ms: int = 0

    def holds(self, now_ms: int) -> bool:
        return self.not_after_ms is None or now_ms < self.not_after_ms


def to_record(credential: Credential) -> bytes:
    caller = credential.caller
    value: dict[str, Any] = {
        "kind": credential.kind,
        "role": caller.role,
        "tenant": caller.tenant,
        "proof": credential.proof.hex(),
        "made_ms": credential.made_ms,
    }
    if caller.device is not None:
        value["device"] = caller.device
    if caller.all_tenants:
        value["all_tenants"] = True
    if caller.may != "administer":
        value["may"] = caller.may
    if credential.not_after_ms is not None:
        value["not_after_ms"] = credential.not_after_ms
    return orjson.dumps(value)


def from_record(value: bytes) -> Credential:
    """ValueError where it is no credential, whoever may have written it: what cannot be understood
    in full must let nobody in."""
    try:
        found = orjson.loads(value)
        caller = Caller(
            found["role"],
            found["tenant"],
            found.get("device"),
            found.get("all_tenants", False),
            may=found.get("may", "administer"),
        )
        credential = Credential(
            caller,
            found["kind"],
            bytes.fromhex(found["proof"]),
            found.get("not_after_ms"),
            found["made_ms"],
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{type(error).__name__} {error}") from error
    refuse_unfit(caller)
    if credential.kind not in get_args(Kind):
        raise ValueError(f"{credential.kind!r} is no kind of credential")
    if not is_time_ms(credential.made_ms):
        raise ValueError("made_ms is no time")
    if credential.not_after_ms is not None and not is_time_ms(credential.not_after_ms):
        raise ValueError("not_after_ms is no time")
    return credential


def refuse_unfit(caller: Caller) -> None:
    """Also of a JWT's claims: nothing but a tenant and an id may stand where they do."""
    role, tenant, device, all_tenants, _, may = caller
    if role not in ("device", "gateway", "operator"):
        raise ValueError(f"{role!r} is no role")
    if not isinstance(tenant, str) or (tenant and not TENANT.fullmatch(tenant)):
        raise ValueError(f"{tenant!r} is no tenant")
    if (role == "device") != (device is not None):
        raise ValueError("a device's credential names the device, and no other does")
    if device is not None and not (isinstance(device, str) and ENTITY_ID.fullmatch(device)):
        raise ValueError(f"{device!r} is no entity id")
    if all_tenants and (all_tenants is not True or role != "operator" or tenant != NO_TENANT):
        raise ValueError("all_tenants is for an operator without a tenant")
    if may not in get_args(May):
        raise ValueError(f"{may!r}: an operator may {', '.join(get_args(May))}")
    if may != "administer" and role != "operator":
        raise ValueError("what it may is said of an operator's credential")


class Credentials:
    """What is known now. Never a store: it is read from memory."""

    def __init__(self) -> None:
        self._by_kind: dict[Kind, dict[bytes, Credential]] | None = None
        self.edition = 0  # what was found in an earlier one may be revoked in this

    def replace(self, known: Mapping[bytes, Credential]) -> None:
        self._by_kind = {
            kind: {key: found for key, found in known.items() if found.kind == kind}
            for kind in get_args(Kind)
        }
        self.edition += 1

    def find(self, kind: Kind, key_id: bytes) -> Credential:
        """NOBODY of that kind where there is none: it is then compared with all the same."""
        if self._by_kind is None:
            raise refused(
                503,
                "credentials_unknown",
                "who may ask is not known yet: the gateway is still reading it from Kafka; "
                "nothing was written, ask again",
                retry_after(1),
            )
        return self._by_kind[kind].get(key_id, NOBODY)


# its secret is known to none: it is only there to be compared with
NOBODY = Credential(Caller("device", device="nobody"), "token", os.urandom(32), not_after_ms=0)
