"""Who sent a request, and what that one may do. Every rule of it stands here."""

from typing import Literal, NamedTuple, get_args

from gateway.http.problems import Problem, refused
from shared.ids import NO_TENANT, full_id, tenant_of
from shared.model import Aggregate, Entity

Role = Literal["anyone", "device", "gateway", "operator"]
# of an operator at the desk; each may also what stands before it
May = Literal["look", "operate", "administer"]


class Signed(NamedTuple):
    """What a signature says of its request. The same key, time and nonce are the same request, at
    whichever gateway it arrives again. A nonce alone may come again: a device may count from 1 each
    time it starts."""

    request: str  # those three, with spaces between them
    body_sha256: str

    def key(self, number: int = 0) -> tuple[str, ...]:
        """The key of one payload in it. No Idempotency-Key is like it: those have no spaces."""
        return ("signed request", self.request, str(number))


class Caller(NamedTuple):
    """A device writes and reads its own id, a gateway those of its tenant; an operator reads, and
    one of no tenant looks at the gateway itself. Without authentication all are `anyone`."""

    role: Role
    tenant: str = NO_TENANT
    device: str | None = None
    all_tenants: bool = False
    signed: Signed | None = None
    may: May = "administer"

    def has(self, needed: May) -> bool:
        """At the desk."""
        rights = get_args(May)
        return rights.index(self.may) >= rights.index(needed)

    @property
    def may_operate(self) -> bool:
        """/health, /metrics and /docs tell of all tenants at once."""
        return self.role in ("operator", "anyone") and self.tenant == NO_TENANT

    @property
    def may_write(self) -> bool:
        return self.role != "operator"

    def is_own(self, entity_id: str) -> bool:
        return self.device is None or self.device == entity_id

    def tenant_to_read(self, of: Entity | Aggregate, tenant: str | None) -> str | None:
        """`tenant`: the one that the request names. None: for this caller it has nothing of it."""
        if tenant is not None and tenant != self.tenant and not self.all_tenants:
            return None
        if self.role in ("device", "gateway") and isinstance(of, Aggregate):
            return None
        return self.tenant if tenant is None else tenant

    def may_see(self, full: str) -> bool:
        """What this entity has sent, and what has become of it."""
        its = tenant_of(full)
        if its != self.tenant and not self.all_tenants:
            return False
        return self.is_own(full.removeprefix(f"{its}/") if its else full)

    def full_id_to_read(
        self, of: Entity | Aggregate, entity_id: str, tenant: str | None
    ) -> str | None:
        """None: for this caller there is no such id."""
        its = self.tenant_to_read(of, tenant)
        if its is None or not self.is_own(entity_id):
            return None
        return full_id(its, entity_id)


ANYONE = Caller("anyone", all_tenants=True)


def operators_only() -> Problem:
    return Problem(
        403,
        "operators_only",
        "this route tells of all tenants: it needs the credential of an operator without a tenant",
    )


def may_not(caller: Caller, needed: May) -> Problem:
    return Problem(
        403,
        "may_not",
        f"this needs an operator who may {needed}, and your credential may {caller.may} "
        "(docs/security.md#what-an-operator-may)",
    )


def writers_only() -> Problem:
    return refused(
        403,
        "writers_only",
        "an operator's credential reads; payloads come with a device's or a gateway's",
    )


def not_your_id(caller: Caller) -> Problem:
    return refused(
        403,
        "not_your_id",
        f"this credential is that of {caller.device}, which writes its own id alone",
    )


def other_body() -> Problem:
    return refused(
        401,
        "other_body",
        "the body is not the one whose sha256 was signed; send it again as it was signed",
        {"www-authenticate": 'Headrace-HMAC realm="headrace"'},
    )
