"""POST /v1/{endpoint}/{entity_id} -> ingest topic, byte for byte.

A plain ASGI app, mounted beside FastAPI's router and not in it: routing a request there costs as
much as all that is done here.
"""

import time

import orjson
from starlette.types import Receive, Scope, Send

from gateway.admission import Admission
from gateway.ingest_record import RequestHead, read_head, record_headers
from gateway.outcomes import Log, NotWritten, OutcomeUnknown, Receipt
from gateway.payload import ClientGone, Payload, send_problem
from gateway.problems import Problem, instance_of, retry_after
from shared.ids import ENTITY_ID, ENTITY_ID_RULE, derived_event_id, fresh_event_id
from shared.model import Endpoint
from shared.timestamps import to_rfc3339
from shared.topology import Flow

_NO_TENANT = ""


class Ingest:
    def __init__(self, flow: Flow, log: Log, admission: Admission, body_bytes_max: int) -> None:
        self._flow = flow
        self._log = log
        self._admission = admission
        self._body_bytes_max = body_bytes_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        payload = Payload(receive, self._admission, self._body_bytes_max)
        try:
            endpoint, entity_id, head = self._admit(scope)
            body = await payload.read(head.declared_bytes)
            await self._accept(endpoint, entity_id, head, body, send)
        except ClientGone:
            return
        except Problem as problem:
            if (b"expect", b"100-continue") in scope["headers"]:
                # whether the refused body follows or not is the client's choice: nobody can tell
                # where its next request would begin
                problem.ends_connection = True
            await send_problem(problem, instance_of(scope), receive, send)
        finally:
            payload.release()

    def _admit(self, scope: Scope) -> tuple[Endpoint, str, RequestHead]:
        # behind the mount, `path` still holds the whole path and `root_path` the mount's
        path: str = scope["path"].removeprefix(scope["root_path"])
        endpoint_name, _, entity_id = path.removeprefix("/").partition("/")
        endpoint = self._flow.endpoint(endpoint_name)
        if endpoint is None:
            known = ", ".join(e.name for e in self._flow.endpoints)
            raise _refused(404, "unknown_endpoint", f"no such endpoint; there are: {known}")
        if scope["method"] != "POST":
            raise Problem(405, "method_not_allowed", "payloads come by POST", headers=_ALLOW)
        if not ENTITY_ID.fullmatch(entity_id):
            raise _refused(400, "bad_entity_id", ENTITY_ID_RULE)
        return endpoint, entity_id, read_head(scope["headers"])

    async def _accept(
        self, endpoint: Endpoint, entity_id: str, head: RequestHead, body: bytes, send: Send
    ) -> None:
        if not body:
            raise _refused(400, "empty_body", "an empty body is no payload")
        received_ms = time.time_ns() // 1_000_000
        event_id = (
            fresh_event_id()
            if head.idempotency_key is None
            else derived_event_id(_NO_TENANT, endpoint.name, entity_id, head.idempotency_key)
        )
        headers = record_headers(event_id, endpoint.name, received_ms, body, head.kept)
        if not self._admission.enter():
            raise _unavailable("too_many_requests_in_flight", "the gateway is full")
        try:
            receipt = await self._log.append(endpoint.topic, entity_id.encode(), body, headers)
        except NotWritten as refusal:
            raise _refusal_of(refusal) from None
        except OutcomeUnknown:
            raise Problem(
                503,
                "outcome_unknown",
                "Kafka did not confirm the payload in time; it may have been written, so send it "
                "again (with the same Idempotency-Key it has one effect)",
                outcome="unknown",
                headers=retry_after(1),
            ) from None
        finally:
            self._admission.leave()
        await _send_receipt(event_id, entity_id, receipt, received_ms, send)


async def _send_receipt(
    event_id: str, entity_id: str, receipt: Receipt, received_ms: int, send: Send
) -> None:
    answer = orjson.dumps(
        {
            "id": event_id,
            "topic": receipt.topic,
            "partition": receipt.partition,
            "offset": receipt.offset,
            "received_at": to_rfc3339(received_ms),
        }
    )
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(answer)).encode()),
        (b"location", b"/state/" + entity_id.encode()),
    ]
    await send({"type": "http.response.start", "status": 202, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


_ALLOW = {"allow": "POST"}


def _refused(status: int, code: str, detail: str) -> Problem:
    return Problem(status, code, detail, outcome="definite")


def _unavailable(code: str, detail: str) -> Problem:
    return Problem(
        503,
        code,
        f"{detail}; nothing was written, send it again",
        outcome="definite",
        headers=retry_after(1),
    )


def _refusal_of(refusal: NotWritten) -> Problem:
    if refusal.code == "record_too_large":
        return _refused(413, refusal.code, refusal.detail)
    return _unavailable(refusal.code, refusal.detail)
