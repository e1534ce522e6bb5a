"""POST /v1/{endpoint}/{entity_id} -> ingest topic, byte for byte; POST /v1/{endpoint}: a batch.

Called by the connection itself (`post_request.py`) with neither FastAPI nor ASGI between: either
costs more than all that is done here.
"""

import time
from functools import lru_cache, partial
from hashlib import sha256

import orjson

from gateway.auth.authenticate import Authenticator
from gateway.effects.wait import Wait
from gateway.effects.wait_request import Asked
from gateway.effects.waiting_posts import WaitingPosts
from gateway.http.message import Answer, Request
from gateway.http.problems import Problem, refused, retry_after
from gateway.http.request_rules import PAYLOADS, payloads_come_by_post
from gateway.ingest import split_batch, write_permission
from gateway.ingest.admission import Admission
from gateway.ingest.batch_receipts import batch_answer
from gateway.ingest.body import Body, Limit
from gateway.ingest.reception import Reception, Respond
from gateway.ingest.record import (
    Item,
    common_headers,
    event_id_of,
    read_head,
    record_of,
)
from gateway.ingest.refusal_answers import batch_waits, problem_of, put_for
from gateway.ingest.span import Tracing
from gateway.kafka_writer.outcome import Log, OnWritten, Outcome, Record, put_all
from gateway.node.payload_counts import Counts, Line
from gateway.node.rate_limits import DeviceLimit, RateLimits
from shared.flow_table import Flow
from shared.ids import ENTITY_ID, ENTITY_ID_RULE, fresh_event_ids
from shared.model import Endpoint
from shared.settings import GatewaySettings
from shared.timestamps import to_rfc3339

CLIENT_GONE = "client_gone"
_PLACES_MOST = 50_000
_PLACE_BYTES_MAX = 256
_TRY = ":try"  # an id could end so, but who sends it wants an answer, and no entity of that name


class Ingest:
    def __init__(
        self,
        flow: Flow,
        log: Log,
        admission: Admission,
        settings: GatewaySettings,
        who: Authenticator,
        counts: Counts,
        limits: RateLimits | None,
        tracing: Tracing,
        waiting: WaitingPosts,
    ) -> None:
        self._waiting = waiting
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
        # by the target, as it was sent
        self._places: dict[bytes, tuple[Endpoint, str, Asked | None]] = {}

    def is_for(self, request: Request) -> bool:
        return request.target.startswith(PAYLOADS) or request.path().startswith(PAYLOADS.decode())

    def admit(self, request: Request) -> Reception:
        """Problem where the head alone says that nothing will come of it."""
        caller = self._who.is_asking(
            request.method, request.target, request.by_name, request.certified
        )
        endpoint, entity_id, asked = self._places.get(request.target) or self._find_place(request)
        if request.method != "POST":
            raise payloads_come_by_post()
        write_permission.refuse_others(caller, entity_id)
        head = read_head(request.by_name)
        span = self._tracing.begin(endpoint, entity_id, head)
        try:
            is_batch = split_batch.is_batch(entity_id, head)
            if asked is not None and is_batch:
                raise batch_waits()
            limit = None
            if self._limits is not None:
                limit = self._limits.of(caller.tenant, request.address, request.headers)
                if not is_batch and (refusal := limit(entity_id)):
                    raise refusal
            most = self._batch_limit if is_batch else self._body_limit
            body = Body(head.declared_bytes, most, self._admission, caller, request)
        except Problem as problem:
            span.refused(problem)
            span.end()
            raise
        head = span.instead_of_given(head)
        if not is_batch and (prefer := request.by_name.get(b"prefer")) is not None:
            asked = self._waiting.with_preferences(asked, prefer)
        return Reception(caller, endpoint, entity_id, head, body, is_batch, limit, span, asked)

    def _find_place(self, request: Request) -> tuple[Endpoint, str, Asked | None]:
        """The endpoint, and the entity id if there is one; remembered, since devices send to the
        same place again and again."""
        endpoint_name, slash, entity_id = _name(request).partition("/")
        endpoint = self._flow.endpoint(endpoint_name)
        if endpoint is None:
            known = ", ".join(e.name for e in self._flow.open_endpoints)
            raise refused(404, "unknown_endpoint", f"no such endpoint; there are: {known}")
        if slash and not ENTITY_ID.fullmatch(entity_id):
            raise refused(400, "bad_entity_id", ENTITY_ID_RULE)
        if entity_id.endswith(_TRY):
            at = f"/api/try/{endpoint_name}/{entity_id.removesuffix(_TRY)}"
            raise refused(
                400, "ask_the_desk", f"nothing is tried here: POST it to {at} of the desk"
            )
        asked = self._waiting.asked_by_query(request.target.partition(b"?")[2])
        if len(request.target) <= _PLACE_BYTES_MAX:
            if len(self._places) >= _PLACES_MOST:
                self._places.clear()
            self._places[request.target] = endpoint, entity_id, asked
        return endpoint, entity_id, asked

    def accept(self, reception: Reception, respond: Respond) -> Wait | None:
        """The body is whole. `respond` is called once, unless a Problem is raised. What waits can
        be told to wait no longer."""
        payload = reception.body.whole()
        if reception.is_batch:
            self._accept_batch(reception, payload, respond)
            return None
        return self._accept_one(reception, payload, respond)

    def end_waiting(self) -> None:
        """The server ends: who waits is answered now."""
        self._waiting.end()

    def refused(self, request: Request, code: str, payloads: int = 1) -> None:
        endpoint = self._flow.endpoint(_name(request).partition("/")[0])
        self._counts.refused("none" if endpoint is None else endpoint.name, code, payloads)

    def _accept_one(self, reception: Reception, payload: bytes, respond: Respond) -> Wait | None:
        caller, endpoint, entity_id, head, body, _, _, span, asked = reception
        payload_sha256 = sha256(payload).hexdigest()
        write_permission.refuse_other_body(caller, payload_sha256)
        if not payload:
            raise refused(400, "empty_body", "an empty body is no payload")
        received_at = _received_at(time.time_ns() // 1_000_000)
        key = None if head.idempotency_key is None else (head.idempotency_key,)
        item = Item(entity_id, payload, write_permission.key_of(caller, key))
        event_id = event_id_of(item, endpoint.name, caller.tenant)
        common = common_headers(endpoint.name, received_at, head.kept, caller.tenant)
        record = record_of(item, event_id, common, caller.tenant, payload_sha256)
        wait = None
        if asked is not None:
            wait = self._waiting.wait(asked, caller, entity_id, payload_sha256)
        self._enter(1)
        begun_s = time.perf_counter()

        def on_written(outcomes: list[Outcome]) -> None:
            (outcome,) = outcomes
            self._admission.leave()
            self._counts.produced(endpoint.name, time.perf_counter() - begun_s)
            if isinstance(outcome, Exception):
                if wait is not None:
                    wait.refused()
                respond(problem_of(outcome))
                return
            self._counts.accepted(endpoint.name, outcome)
            span.accepted()
            receipt = {"id": event_id, **outcome.fields(), "received_at": received_at}
            if wait is not None:
                body.release()  # it is written: its place is for others
                wait.accepted(receipt, respond)
                return
            lines = b"%blocation: /state/%b\r\n" % (_JSON, entity_id.encode())
            respond(Answer(202, lines, orjson.dumps(receipt)))

        if wait is None:
            self._put(endpoint.topic, record, on_written)
        else:
            put = partial(self._put, endpoint.topic, record, on_written)
            wait.begin(event_id, partial(put_for, wait, put, respond))
        return wait

    def _put(self, topic: str, record: Record, on_written: OnWritten) -> None:
        try:
            self._log.put(topic, [record], on_written)
        except BaseException:
            self._admission.leave()
            raise

    def _accept_batch(self, reception: Reception, whole: bytes, respond: Respond) -> None:
        caller, endpoint, entity_id, head, *_ = reception
        if caller.signed is not None:
            write_permission.refuse_other_body(caller, sha256(whole).hexdigest())
        items = split_batch.split(
            whole, entity_id, head, self._body_limit.bytes_max, self._batch_payloads_max
        )
        items = write_permission.items_of(caller, items)
        if reception.limit is not None:
            items = (_within(reception.limit, item) for item in items)
        received_at = _received_at(time.time_ns() // 1_000_000)
        kept = split_batch.kept_headers(entity_id, head)
        common = common_headers(endpoint.name, received_at, kept, caller.tenant)
        fresh = fresh_event_ids().__next__
        lines: list[Line] = []
        records: list[tuple[str, Record]] = []
        for item in items:
            if not isinstance(item, Item):
                lines.append(item)
                continue
            event_id = event_id_of(item, endpoint.name, caller.tenant, fresh)
            digest = sha256(item.payload).hexdigest()
            record = record_of(item, event_id, common, caller.tenant, digest)
            lines.append(event_id)
            records.append((endpoint.topic, record))
        count = len(records)
        self._enter(count)
        begun_s = time.perf_counter()

        def on_written(outcomes: list[Outcome]) -> None:
            self._admission.leave(count)
            self._counts.produced(endpoint.name, time.perf_counter() - begun_s)
            self._counts.batch(endpoint.name, lines, outcomes)
            try:
                answer = batch_answer(lines, outcomes, received_at)
            except Problem as problem:
                respond(problem)
                return
            reception.span.accepted(len(lines) - lines.count(None))
            respond(Answer(207, _JSON, answer))

        try:
            put_all(self._log, records, on_written)
        except BaseException:
            self._admission.leave(count)
            raise

    def _enter(self, payloads: int) -> None:
        if not self._admission.enter(payloads):
            raise refused(
                503,
                "too_many_requests_in_flight",
                "the gateway is full; nothing was written, send it again",
                retry_after(1),
                payloads=payloads,
            )


def _within(limit: DeviceLimit, item: Item | Problem | None) -> Item | Problem | None:
    return (limit(item.entity_id) if isinstance(item, Item) else None) or item


# many come in the same millisecond
_received_at = lru_cache(4)(to_rfc3339)


def _name(request: Request) -> str:
    return request.path().removeprefix(PAYLOADS.decode())


_JSON = b"content-type: application/json\r\n"
