"""What an operator does with hooks: they are records of a topic, which the job forward follows."""

from base64 import b64encode
from collections import Counter
from collections.abc import Mapping
from heapq import nlargest
from typing import Any
from urllib.parse import urlsplit

import orjson

from clients.kafka.connect import answering
from clients.kafka.follow import whole_log
from clients.kafka.records import Outgoing
from clients.kafka.write import write_now
from desk.hooks.deliveries import deliveries
from desk.hooks.replay import Window, replayed
from desk.letters.audit import Audit, OpenBook
from desk.letters.redrive_store import Redrive, RedriveBook
from desk.letters.selection import Selection
from shared.consumer_groups import DESK
from shared.events import envelope
from shared.flow import load_flow
from shared.forwarding.address import why_not_url
from shared.forwarding.hook import Hook, Hooks, new_hook, owner_of, record, status_key
from shared.forwarding.mail import why_not_address
from shared.forwarding.signature import key_of, new_secret
from shared.ids import fresh_event_id
from shared.settings import Settings
from shared.settings.secret_box import box_of_hooks
from shared.timestamps import now_ms, to_rfc3339
from shared.topic_names import HOOK_TOPIC, again_topic, gate_topic

_READ_S = 30.0
_REDRIVEN_PER_S = 500.0
# what a hook has that its owner does not choose
_OURS = ("secrets", "made_ms", "revision", "paused")
TEST = "test"
_NOT_SIGNED = "a mail is not signed: it has no secret"


class NoHookError(Exception):
    """There is no webhook of that name."""


class BadHookError(Exception):
    """What is wrong with it, in a sentence."""


class HookDesk:
    """KafkaAwayError where Kafka does not answer. `by`: for the audit."""

    def __init__(self, settings: Settings, open_book: OpenBook) -> None:
        self._settings = settings
        self._kafka = settings.kafka
        self._open_book = open_book
        self._audit = Audit(open_book)

    def all(self) -> list[dict[str, Any]]:
        hooks, waiting = self._read()
        told = [_told(hooks, hook, waiting) for hook in hooks.all()]
        for name, why in sorted(hooks.wrong.items()):
            told.append({"name": name, "state": "wrong", "why": why, "waiting": waiting[name]})
        return told

    def show(self, name: str) -> dict[str, Any]:
        hooks, waiting = self._read()
        return _told(hooks, _known(hooks, name), waiting)

    def add(
        self, name: str, fields: Mapping[str, Any], secret: str | None = None, *, by: str
    ) -> str | None:
        """Its secret, which nobody can read again; None: mails have none."""
        hooks, _ = self._read()
        if hooks.get(name) is not None:
            raise BadHookError(f"there is a hook {name} already: choose another name, or delete it")
        hook = self._made(name, fields)
        if hook.is_of_a_tenant:
            self._check_room(hooks, owner_of(name))
        if hook.is_mail and secret is not None:
            raise BadHookError(_NOT_SIGNED)
        made = None
        if hook.is_mail:
            self._write(hook)
        else:
            made = self._with_secret(hook, secret)
        # whatever else its URL has may be a secret
        self._note(by, "add", name, reason=f"to {_host(hook)}")
        return made

    def _made(self, name: str, fields: Mapping[str, Any]) -> Hook:
        if taken := sorted({*_OURS, "name"}.intersection(fields)):
            raise BadHookError(f"{taken[0]} is not for its owner to say")
        try:
            # what was said of one that had its name before never counts for this one
            made_ms = now_ms()
            ours = {"name": name, "made_ms": made_ms, "revision": made_ms}
            tenant = fields.get("tenant")
            its = {"tenant": owner_of(name)} if tenant is None and owner_of(name) else {}
            hook = new_hook(**{**fields, **its, **ours})
        except ValueError as error:
            raise BadHookError(str(error)) from error
        if why_not := self._why_not(hook):
            raise BadHookError(f"url: {why_not}")
        flow = load_flow(self._settings.flow)
        is_state = hook.of == "states"
        what = "entity or aggregate" if is_state else "event type"
        known = [row.name for row in (flow.with_state if is_state else flow.event_types)]
        if unknown := sorted({*hook.types}.difference(known)):
            there = ", ".join(known)
            raise BadHookError(f"the flow has no {what} {unknown[0]}; there are: {there}")
        return hook

    def _check_room(self, hooks: Hooks, owner: str) -> None:
        most = self._settings.hooks_per_tenant_max
        if sum(owner_of(hook.name) == owner for hook in hooks.all()) >= most:
            raise BadHookError(f"{owner} has {most} webhooks, no more may be: delete one")

    def _why_not(self, hook: Hook) -> str | None:
        if not hook.is_mail:
            allowed = () if hook.is_of_a_tenant else self._settings.hook_hosts
            return why_not_url(hook.url, allowed)
        if self._settings.mail is None:
            return "HEADRACE_MAIL_SERVER names no mail server: set it for the jobs, too"
        return why_not_address(hook.mail_address)

    def rotate(self, name: str, secret: str | None = None, *, by: str) -> str:
        """The new secret. The one before holds for a day more."""
        hooks, _ = self._read()
        hook = _known(hooks, name)
        if hook.is_mail:
            raise BadHookError(_NOT_SIGNED)
        made = self._with_secret(hook, secret)
        self._note(by, "rotate", name)
        return made

    def _with_secret(self, hook: Hook, secret: str | None) -> str:
        secret = secret or new_secret()
        try:
            key_of(secret)
        except ValueError as error:
            raise BadHookError(f"secret: {error}") from error
        settings = self._settings
        box = box_of_hooks(settings.hooks_key_path, may_make=settings.hooks_key_file is None)
        sealed = b64encode(box.seal(hook.name.encode(), secret.encode())).decode()
        self._write(hook.with_secret(sealed, now_ms()))
        return secret

    def pause(self, name: str, *, by: str) -> None:
        self._change(name, paused=True)
        self._note(by, "pause", name)

    def resume(self, name: str, *, by: str) -> None:
        self._change(name, paused=False)
        self._note(by, "resume", name)

    def _change(self, name: str, **what: Any) -> None:
        hooks, _ = self._read()
        self._write(_known(hooks, name).changed(**what))

    def delete(self, name: str, *, by: str) -> None:
        hooks, _ = self._read()
        if name not in hooks.wrong:
            _known(hooks, name)
        keys = name.encode(), status_key(name)
        write_now(self._kafka, *(Outgoing(HOOK_TOPIC, key, None, []) for key in keys))
        self._note(by, "delete", name)

    def send_test(self, name: str, *, by: str) -> str:
        """The id of the event that it gets now."""
        hooks, _ = self._read()
        hook = _known(hooks, name)
        if not hooks.sends(hook):
            raise BadHookError(f"{name} gets nothing now: resume it first")
        event_id = fresh_event_id()
        headers = [
            (envelope.SPEC_VERSION, b"1.0"),
            (envelope.ID, event_id.encode()),
            (envelope.TYPE, TEST.encode()),
            (envelope.SOURCE, b"/hooks"),
            (envelope.SUBJECT, TEST.encode()),
            (envelope.TIME, to_rfc3339(now_ms()).encode()),
            (envelope.CONTENT_TYPE, b"application/json"),
            (envelope.HOOK, name.encode()),
        ]
        value = orjson.dumps({"id": event_id, "data": {"test": True}})
        write_now(self._kafka, Outgoing(again_topic("forward"), TEST.encode(), value, headers))
        self._note(by, "test", name)
        return event_id

    def replay(self, name: str, window: Window, *, by: str) -> int:
        """How many events it gets once more."""
        hook = self._open_to_more(name)
        if window.since_ms >= window.until_ms:
            raise BadHookError("the window is empty: its end is not after its begin")
        count = 0
        for records in replayed(self._kafka, load_flow(self._settings.flow), hook, window):
            write_now(self._kafka, *records)
            count += len(records)
        since, until = to_rfc3339(window.since_ms), to_rfc3339(window.until_ms)
        its = Selection(entity_id=window.entity, since=since, until=until)
        self._note(by, "replay", name, its, count)
        return count

    def replay_failed(self, name: str, meant: Selection, *, by: str) -> Redrive:
        """Its parked letters among those that are meant. StoreAwayError without PostgreSQL."""
        self._open_to_more(name)
        with self._open_book() as book:
            return RedriveBook(book).begin(meant._replace(hook=name), _REDRIVEN_PER_S, by)

    def _open_to_more(self, name: str) -> Hook:
        hooks, _ = self._read()
        hook = _known(hooks, name)
        if not hooks.takes(hook):
            raise BadHookError(f"{name} has ended: delete it, and add it anew")
        return hook

    def log(self, name: str, since_ms: int, limit: int) -> list[dict[str, Any]]:
        """What was tried since then, the newest last."""
        its = (one for one in deliveries(self._kafka, since_ms) if one["hook"] == name)
        return sorted(nlargest(limit, its, key=_at_ms), key=_at_ms)

    def _read(self) -> tuple[Hooks, Counter[str]]:
        """All hooks, and how much waits for each."""
        hooks, gates = Hooks(), {}
        topics = [HOOK_TOPIC, gate_topic("forward")]
        with answering(self._kafka):
            for message in whole_log(self._kafka, DESK, topics, _READ_S):
                if message.topic() == HOOK_TOPIC:
                    hooks.hear(message.key(), message.value())
                else:
                    gates[message.key()] = message.value()
        waiting: Counter[str] = Counter()
        for value in filter(None, gates.values()):
            waiting.update(orjson.loads(value)["waiting"])
        return hooks, waiting

    def _write(self, hook: Hook) -> None:
        write_now(self._kafka, Outgoing(HOOK_TOPIC, hook.name.encode(), record(hook), []))

    def _note(
        self,
        by: str,
        what: str,
        name: str,
        its: Selection | None = None,
        count: int = 1,
        reason: str = "",
    ) -> None:
        its = (its or Selection())._replace(hook=name)
        self._audit.note(by, f"{what} webhook", its, count, reason)


def _known(hooks: Hooks, name: str) -> Hook:
    hook = hooks.get(name)
    if hook is None:
        raise NoHookError(f"there is no hook {name}")
    return hook


def _told(hooks: Hooks, hook: Hook, waiting: Mapping[str, int]) -> dict[str, Any]:
    """All but its secrets."""
    status = hooks.status(hook)
    told = hook.model_dump(mode="json", exclude={"secrets", "paused", "made_ms", "revision"})
    state, why = ("paused" if hook.paused else "active"), None
    if status is not None:
        state, why = status.state, f"{status.why} (at {to_rfc3339(status.at_ms)})"
    return {
        **told,
        "made": to_rfc3339(hook.made_ms),
        "secrets": len(hook.secrets),
        "state": state,
        "why": why,
        "waiting": waiting.get(hook.name, 0),
    }


def _host(hook: Hook) -> str:
    return hook.mail_address if hook.is_mail else urlsplit(hook.url).hostname or ""


def _at_ms(told: Mapping[str, Any]) -> int:
    return int(told["at_ms"])
