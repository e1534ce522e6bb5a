"""POST /v1/{endpoint}/{entity_id} -> ingest topic, byte for byte; POST /v1/{endpoint}: a batch.

A plain ASGI app, mounted beside FastAPI's router and not in it: routing a request there costs as
much as all that is done here.
"""

import time

import orjson
from starlette.types import Receive, Scope, Send

from gateway import batch
from gateway.admission import Admission
from gateway.auth import writing
from gateway.auth.caller import Caller
from gateway.auth.mtls import certified_in
from gateway.auth.who import Who, target_of
from gateway.batch_answer import batch_answer
from gateway.counts import Counts
from gateway.ingest_record import Item, RequestHead, read_head, record_of
from gateway.outcomes import Log, Receipt, Spooled, append, append_all
from gateway.payload import ClientGone, Limit, Payload, send_problem
from gateway.problems import INTERNAL_FAULT, Problem, instance_of, problem_of, retry_after
from gateway.rate_limits import DeviceLimit, RateLimits
from gateway.tracing import NO_SPAN, PostSpan, Tracing
from shared.ids import ENTITY_ID, ENTITY_ID_RULE
from shared.model import Endpoint
from shared.settings import GatewaySettings
from shared.timestamps import to_rfc3339
from shared.topology import Flow

CLIENT_GONE = "client_gone"


class Ingest:
    def __init__(
        self,
        flow: Flow,
        log: Log,
        admission: Admission,
        settings: GatewaySettings,
        who: Who,
        counts: Counts,
        limits: RateLimits | None,
        tracing: Tracing,
    ) -> None:
        self._who = who
        self._counts = counts
        self._limits = limits
        self._tracing = tracing
        self._flow = flow
        self._log = log
        self._admission = admission
        self._body_limit = Limit(settings.body_bytes_max, "HEADRACE_BODY_BYTES_MAX")
        self._batch_limit = Limit(settings.batch_bytes_max, "HEADRACE_BATCH_BYTES_MAX")
        self._batch_payloads_max = settings.batch_payloads_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = Payload(receive, self._admission)
        span: PostSpan = NO_SPAN
        try:
            caller, endpoint, entity_id, head = self._admit(scope)
            span = self._tracing.begin(endpoint, entity_id, head)
            head = span.instead_of_given(head)
            limit = None if self._limits is None else self._limits.of(caller.tenant, scope)
            if batch.is_batch(entity_id, head):
                payloads = await self._accept_batch(
                    caller, endpoint, entity_id, head, body, send, limit
                )
                span.accepted(payloads)
            else:
                if limit and (refusal := limit(entity_id)):
                    raise refusal
                await self._accept(caller, endpoint, entity_id, head, body, send)
                span.accepted()
        except ClientGone:
            self._counts.refused(self._endpoint_named_by(scope), CLIENT_GONE)
            span.failed(CLIENT_GONE)
        except Problem as problem:
            span.refused(problem)
            self._counts.refused(self._endpoint_named_by(scope), problem.code, problem.payloads)
            if not body.is_complete and (b"expect", b"100-continue") in scope["headers"]:
                # whether the refused body follows or not is the client's choice: nobody can tell
                # where its next request would begin
                problem.ends_connection = True
            await send_problem(problem, instance_of(scope), send)
        except Exception:
            self._counts.refused(self._endpoint_named_by(scope), INTERNAL_FAULT)
            span.failed(INTERNAL_FAULT)
            raise
        finally:
            body.release()
            span.end()

    def _admit(self, scope: Scope) -> tuple[Caller, Endpoint, str, RequestHead]:
        caller = self._who.is_asking(
            scope["method"], target_of(scope), scope["headers"], certified_in(scope)
        )
        endpoint_name, slash, entity_id = _path_of(scope).partition("/")
        endpoint = self._flow.endpoint(endpoint_name)
        if endpoint is None:
            known = ", ".join(e.name for e in self._flow.endpoints)
            raise _refused(404, "unknown_endpoint", f"no such endpoint; there are: {known}")
        if scope["method"] != "POST":
            raise Problem(405, "method_not_allowed", "payloads come by POST", headers=_ALLOW)
        if slash and not ENTITY_ID.fullmatch(entity_id):
            raise _refused(400, "bad_entity_id", ENTITY_ID_RULE)
        writing.refuse_others(caller, entity_id)
        return caller, endpoint, entity_id, read_head(scope["headers"])

    async def _accept(
        self,
        caller: Caller,
        endpoint: Endpoint,
        entity_id: str,
        head: RequestHead,
        body: Payload,
        send: Send,
    ) -> None:
        payload = await body.read(head.declared_bytes, self._body_limit)
        writing.refuse_other_body(caller, payload)
        if not payload:
            raise _refused(400, "empty_body", "an empty body is no payload")
        received_ms = time.time_ns() // 1_000_000
        key = None if head.idempotency_key is None else (head.idempotency_key,)
        item = writing.item_of(caller, Item(entity_id, payload, key))
        event_id, record = record_of(item, endpoint.name, received_ms, head.kept, caller.tenant)
        self._enter(1)
        begun_s = time.perf_counter()
        try:
            outcome = await append(self._log, endpoint.topic, record)
        finally:
            self._admission.leave()
        self._counts.produced(endpoint.name, time.perf_counter() - begun_s)
        if isinstance(outcome, Exception):
            raise problem_of(outcome)
        self._counts.accepted(endpoint.name, outcome)
        await _send_receipt(event_id, entity_id, outcome, received_ms, send)

    async def _accept_batch(
        self,
        caller: Caller,
        endpoint: Endpoint,
        entity_id: str,
        head: RequestHead,
        body: Payload,
        send: Send,
        limit: DeviceLimit | None,
    ) -> int:
        """How many payloads it had."""
        whole = await body.read(head.declared_bytes, self._batch_limit)
        writing.refuse_other_body(caller, whole)
        items = batch.split(
            whole, entity_id, head, self._body_limit.bytes_max, self._batch_payloads_max
        )
        items = writing.items_of(caller, items)
        if limit is not None:
            items = [_within(limit, item) for item in items]
        received_ms = time.time_ns() // 1_000_000
        kept = batch.kept_headers(entity_id, head)
        made = [
            record_of(item, endpoint.name, received_ms, kept, caller.tenant)
            for item in items
            if isinstance(item, Item)
        ]
        self._enter(len(made))
        begun_s = time.perf_counter()
        try:
            outcomes = await append_all(self._log, [(endpoint.topic, record) for _, record in made])
        finally:
            self._admission.leave(len(made))
        self._counts.produced(endpoint.name, time.perf_counter() - begun_s)
        self._counts.batch(endpoint.name, items, outcomes)
        ids = [event_id for event_id, _ in made]
        answer = batch_answer(items, ids, outcomes, to_rfc3339(received_ms))
        await _send(207, [(b"content-type", b"application/json")], answer, send)
        return len(items) - items.count(None)

    def _enter(self, payloads: int) -> None:
        if not self._admission.enter(payloads):
            raise Problem(
                503,
                "too_many_requests_in_flight",
                "the gateway is full; nothing was written, send it again",
                outcome="definite",
                headers=retry_after(1),
                payloads=payloads,
            )

    def _endpoint_named_by(self, scope: Scope) -> str:
        endpoint = self._flow.endpoint(_path_of(scope).partition("/")[0])
        return "none" if endpoint is None else endpoint.name


def _path_of(scope: Scope) -> str:
    # behind the mount, `path` still holds the whole path and `root_path` the mount's
    path: str = scope["path"]
    return path.removeprefix(scope["root_path"]).removeprefix("/")


async def _send_receipt(
    event_id: str, entity_id: str, accepted: Receipt | Spooled, received_ms: int, send: Send
) -> None:
    answer = orjson.dumps(
        {"id": event_id, **accepted.told(), "received_at": to_rfc3339(received_ms)}
    )
    headers = [
        (b"content-type", b"application/json"),
        (b"location", b"/state/" + entity_id.encode()),
    ]
    await _send(202, headers, answer, send)


async def _send(status: int, headers: list[tuple[bytes, bytes]], body: bytes, send: Send) -> None:
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _within(limit: DeviceLimit, item: Item | Problem | None) -> Item | Problem | None:
    return (limit(item.entity_id) if isinstance(item, Item) else None) or item


_ALLOW = {"allow": "POST"}


def _refused(status: int, code: str, detail: str) -> Problem:
    return Problem(status, code, detail, outcome="definite")
