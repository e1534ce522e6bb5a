"""A hook: who gets which events, and how; its record on the topic of hooks. Pure."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from shared.forwarding.conditions import condition
from shared.ids import ENTITY_ID, ENTITY_ID_RULE, TENANT
from shared.mistakes import words_of
from shared.retry_policy import RetryPolicy

OF = ":"  # between a tenant and the name of a hook that is its own
_NAME = re.compile(f"(?:{TENANT.pattern}{OF})?[a-z0-9][a-z0-9-]{{0,63}}")
_MAIL = "mailto:"
_STATUS = "/status"  # behind the name: the key of what the job says of a hook
_OLD_SECRET_MS = 86_400_000

Names = Annotated[tuple[str, ...], Field(max_length=200)]


class Retries(BaseModel):
    """After 5 s, 20 s, 80 s, 5 min, 21 min, 85 min, then every 3 hours; for three days."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    first_pause_s: float = Field(5.0, gt=0, le=3600)
    factor: float = Field(4.0, ge=1, le=100)
    pause_max_s: float = Field(3 * 3600.0, gt=0, le=86_400)
    age_max_s: float = Field(3 * 86_400.0, gt=0, le=30 * 86_400)

    @property
    def policy(self) -> RetryPolicy:
        return RetryPolicy(
            self.first_pause_s,
            self.factor,
            max(self.first_pause_s, self.pause_max_s),
            attempts_max=2**31,  # the age ends it
            age_max_s=self.age_max_s,
        )


class Secret(BaseModel):
    model_config = ConfigDict(frozen=True)

    sealed: str  # in base64, for the hook's name
    until_ms: int | None = None  # None: it is the one that holds


class Hook(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    url: str = Field(max_length=2000)
    secrets: tuple[Secret, ...] = Field((), max_length=5)
    of: Literal["events", "completions", "states"] = "events"
    types: Names = ()  # of states, entities; (): all
    entities: Names = ()
    tenant: str | None = None  # None: of all of them
    where: Names = ()  # conditions, all of which must hold
    shape: Literal["structured", "binary"] = "structured"
    fields: Names = ()  # of the data; (): all
    order: Literal["per entity", "none"] = "per entity"
    delivery: Literal["at least once", "at most once"] = "at least once"
    batch: int = Field(1, ge=1, le=1_000)  # events to a request, at most
    concurrency: int = Field(16, ge=1, le=256)
    per_s: float | None = Field(None, gt=0, le=100_000)
    timeout_s: float = Field(15.0, ge=0.1, le=30)
    retries: Retries = Retries()
    paused: bool = False
    made_ms: int
    revision: int = 1

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise ValueError(
                "a hook's name has 1 to 64 lower-case letters, digits and dashes, and begins with "
                "a letter or a digit; before it may stand whose it is: acme:alarms"
            )
        return name

    @field_validator("tenant")
    @classmethod
    def _is_a_tenant(cls, tenant: str | None) -> str | None:
        if tenant and not TENANT.fullmatch(tenant):
            raise ValueError("a tenant has 1 to 32 lower-case letters, digits and dashes")
        return tenant

    @field_validator("entities")
    @classmethod
    def _are_ids(cls, entities: tuple[str, ...]) -> tuple[str, ...]:
        for one in entities:
            if not ENTITY_ID.fullmatch(one):
                raise ValueError(f"{one!r}: {ENTITY_ID_RULE}")
        return entities

    @model_validator(mode="after")
    def _tenants_get_their_own(self) -> Self:
        if (owner := owner_of(self.name)) and self.tenant != owner:
            raise ValueError(f"a webhook of {owner} gets what is of {owner} alone")
        if owner and self.is_mail:
            raise ValueError("no tenant may have this installation send mails")
        return self

    @model_validator(mode="after")
    def _batches_are_structured(self) -> Self:
        if self.batch > 1 and self.shape == "binary":
            raise ValueError("a request with several events is structured: leave out the shape")
        return self

    @model_validator(mode="after")
    def _conditions_can_be_read(self) -> Self:
        for text in self.where:
            condition(text)
        return self

    @model_validator(mode="after")
    def _mails_are_text(self) -> Self:
        if self.is_mail and self.shape == "binary":
            raise ValueError("a mail has a text for people: leave out the shape")
        return self

    @property
    def is_of_a_tenant(self) -> bool:
        """Who is no operator of this installation, and chooses where it sends requests."""
        return bool(owner_of(self.name))

    @property
    def is_mail(self) -> bool:
        return self.url.startswith(_MAIL)

    @property
    def mail_address(self) -> str:
        return self.url.removeprefix(_MAIL)

    @property
    def is_at_most_once(self) -> bool:
        return self.delivery == "at most once"

    def changed(self, **what: Any) -> Self:
        """With the next revision: what the job said of this one does not count for it."""
        return self.model_validate({**self.model_dump(), **what, "revision": self.revision + 1})

    def with_secret(self, sealed: str, now_ms: int) -> Self:
        """The one before holds for a day more, so that the receiver has time to change."""
        old = (
            one if one.until_ms else one.model_copy(update={"until_ms": now_ms + _OLD_SECRET_MS})
            for one in self.secrets
        )
        kept = [one for one in old if (one.until_ms or 0) > now_ms]
        return self.changed(secrets=(Secret(sealed=sealed), *kept[:4]))


class Status(BaseModel):
    """What the job has decided of a revision of a hook."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    state: Literal["paused", "ended"]
    why: str
    at_ms: int
    revision: int


def record(hook: Hook) -> bytes:
    return hook.model_dump_json().encode()


def read_hook(value: bytes) -> Hook:
    """ValueError where it is none; the sentence names the field."""
    try:
        return Hook.model_validate_json(value)
    except ValidationError as error:
        raise ValueError(sentence(error)) from None


def new_hook(**fields: Any) -> Hook:
    try:
        return Hook.model_validate(fields)
    except ValidationError as error:
        raise ValueError(sentence(error)) from None


def sentence(error: ValidationError) -> str:
    """Its first mistake, in a sentence."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    said = words_of(first)
    return f"{place}: {said}" if place else said


def status_key(name: str) -> bytes:
    return f"{name}{_STATUS}".encode()


def owner_of(name: str) -> str:
    """The tenant; "" where it is one of the installation's operators'."""
    owner, found, _ = name.partition(OF)
    return owner if found else ""


class Hooks:
    """All of them, as their topic tells."""

    def __init__(self) -> None:
        self._hooks: dict[str, Hook] = {}
        self._status: dict[str, Status] = {}
        self._wrong: dict[str, str] = {}  # by key

    @property
    def wrong(self) -> dict[str, str]:
        """Why the record of a hook, or what the job said of it, cannot be read, by the hook's
        name."""
        return {key.removesuffix(_STATUS): why for key, why in self._wrong.items()}

    def hear(self, key: bytes | None, value: bytes | None) -> None:
        name = (key or b"").decode(errors="replace")
        self._wrong.pop(name, None)
        if name.endswith(_STATUS):
            of = name.removesuffix(_STATUS)
            self._status.pop(of, None)
            if value is not None:
                try:
                    self._status[of] = Status.model_validate_json(value)
                except ValidationError as error:
                    self._wrong[name] = sentence(error)
            return
        self._hooks.pop(name, None)
        if value is None:
            return
        try:
            hook = read_hook(value)
        except ValueError as error:
            self._wrong[name] = str(error)
        else:
            self._hooks[name] = hook

    def all(self) -> Sequence[Hook]:
        return [self._hooks[name] for name in sorted(self._hooks)]

    def get(self, name: str) -> Hook | None:
        return self._hooks.get(name)

    def status(self, hook: Hook) -> Status | None:
        found = self._status.get(hook.name)
        return found if found and found.revision == hook.revision else None

    def takes(self, hook: Hook) -> bool:
        """Events for it are kept, if not sent."""
        status = self.status(hook)
        return status is None or status.state != "ended"

    def sends(self, hook: Hook) -> bool:
        return not hook.paused and self.status(hook) is None


def status_record(status: Status) -> bytes:
    return orjson.dumps(status.model_dump())
