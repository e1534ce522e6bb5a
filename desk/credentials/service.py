"""What an operator does with credentials: records of a topic, which the gateways follow."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Self, cast, get_args

from desk.letters.audit import Audit, OpenBook
from desk.letters.selection import Selection
from gateway.auth import credential_topic
from gateway.auth.caller import Caller, May
from gateway.auth.credentials import Credential, Kind, refuse_unfit
from gateway.auth.signature import make_signing_key
from gateway.auth.token import make_token
from shared.settings import GatewaySettings, WrongSetting
from shared.settings.secret_box import SecretBox
from shared.timestamps import now_ms, to_rfc3339

DAY_MS = 86_400_000
DAYS_MAX = 36_500
Owner = Literal["device", "gateway", "operator"]
_USES = {
    "token": "Send it as:  Authorization: Bearer {}",
    "secret": "docs/security.md shows how to sign with it.",
}
_COLUMNS = ("key_id", "kind", "role", "may", "tenant", "device", "made", "not_after")


class NoCredentialError(Exception):
    """There is no credential with this key id."""


class BadCredentialError(Exception):
    """Why there can be none like it, in a sentence."""


class Added(NamedTuple):
    """As its owner gets it, once."""

    key_id: str
    name: str  # of its secret
    text: str
    not_after: str | None
    use: str

    def told(self) -> dict[str, Any]:
        return {"key_id": self.key_id, self.name: self.text, "not_after": self.not_after}

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        """As another desk has told it."""
        name = next(name for name in _USES if name in told)
        use = _USES[name].format(told[name])
        return cls(told["key_id"], name, told[name], told["not_after"], use)


def caller_of(
    owner: str,
    device: str | None = None,
    tenant: str = "",
    *,
    all_tenants: bool = False,
    may: str = "administer",
) -> Caller:
    """BadCredentialError where nobody can be so."""
    if owner not in get_args(Owner):
        raise BadCredentialError(f"whose is it? One of {', '.join(get_args(Owner))}")
    if (owner == "device") is (device is None):
        raise BadCredentialError("a device's credential names the device, and no other one does")
    caller = Caller(cast(Owner, owner), tenant, device, all_tenants, may=cast(May, may))
    try:
        refuse_unfit(caller)
    except ValueError as error:
        raise BadCredentialError(str(error)) from error
    return caller


class CredentialDesk:
    """KafkaAwayError where Kafka does not answer. `by`: for the audit."""

    def __init__(self, settings: GatewaySettings, open_book: OpenBook) -> None:
        self._settings = settings
        self._audit = Audit(open_book)

    def all(self, device: str | None = None) -> list[dict[str, Any]]:
        """Those that hold, and those that have expired, the newest first; the revoked are gone."""
        known = credential_topic.read(self._settings.kafka).items()
        return [
            _told(key_id, its)
            for key_id, its in sorted(known, key=lambda one: one[1].made_ms if one[1] else 0)[::-1]
            if device is None or (its is not None and its.caller.device == device)
        ]

    def show(self, key_id: str) -> dict[str, Any]:
        return _told(key_id, self._known(key_id))

    def add(self, caller: Caller, kind: Kind, days: int | None, *, by: str) -> Added:
        """Two of one device hold at the same time."""
        made_ms = now_ms()
        not_after_ms = None if days is None else made_ms + days * DAY_MS
        not_after = None if not_after_ms is None else to_rfc3339(not_after_ms)
        if kind == "token":
            token = make_token()
            use = _USES["token"].format(token.text)
            proof, added = token.proof, Added(token.key_id, "token", token.text, not_after, use)
        else:
            key = make_signing_key(self._box())
            use = _USES["secret"]
            proof, added = key.proof, Added(key.key_id, "secret", key.secret, not_after, use)
        credential = Credential(caller, kind, proof, not_after_ms, made_ms)
        credential_topic.write(self._settings.kafka, added.key_id, credential)
        self._note(by, "add", added.key_id, credential)
        return added

    def revoke(self, key_id: str, *, by: str) -> None:
        """Each gateway that reaches Kafka refuses it within seconds."""
        credential = self._known(key_id)
        credential_topic.write(self._settings.kafka, key_id, None)
        self._note(by, "revoke", key_id, credential)

    def _known(self, key_id: str) -> Credential | None:
        known = credential_topic.read(self._settings.kafka)
        if key_id not in known:
            raise NoCredentialError(f"there is no credential {key_id}")
        return known[key_id]

    def _note(self, by: str, what: str, key_id: str, credential: Credential | None) -> None:
        its, whose = Selection(), ""
        if credential is not None:
            caller = credential.caller
            its = Selection(entity_id=caller.device, tenant=caller.tenant or None)
            whose = f", {caller.role}"
            if caller.role == "operator":
                whose += f" who may {caller.may}"
        self._audit.note(by, f"{what} credential", its, reason=f"key {key_id}{whose}")

    def _box(self) -> SecretBox:
        settings = self._settings
        if not (settings.credentials_key or settings.credentials_key_file):
            raise BadCredentialError(
                "a signing secret is sealed before it is written, and there is no key for that: set"
                " HEADRACE_CREDENTIALS_KEY or HEADRACE_CREDENTIALS_KEY_FILE as for the gateway"
            )
        try:
            return SecretBox.of(settings)
        except WrongSetting as error:
            raise BadCredentialError(f"{error}: use the gateway's own key") from error


def _told(key_id: str, credential: Credential | None) -> dict[str, Any]:
    """All but its proof."""
    if credential is None:
        return {**dict.fromkeys(_COLUMNS, "?"), "key_id": key_id}
    caller, until = credential.caller, credential.not_after_ms
    return {
        "key_id": key_id,
        "kind": credential.kind,
        "role": caller.role,
        "may": caller.may if caller.role == "operator" else None,
        "tenant": "(all)" if caller.all_tenants else caller.tenant or None,
        "device": caller.device,
        "made": to_rfc3339(credential.made_ms),
        "not_after": None if until is None else to_rfc3339(until),
    }
