"""A batch's body -> its payloads. Split, never parsed.

Two forms. NDJSON, for one entity: a payload a line, cut at newlines and nowhere else. Frames, for
any bytes of any entity:

    <entity id> <length>[ <idempotency key>]\\n<as many bytes>\\n ...
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import islice

from gateway.http.problems import Problem, refused
from gateway.ingest.record import Item, RequestHead, is_idempotency_key
from shared.events.envelope import CONTENT_ENCODING, CONTENT_TYPE, Header
from shared.ids import ENTITY_ID, ENTITY_ID_RULE

NDJSON = b"application/x-ndjson"
FRAMES = b"application/vnd.headrace.frames"
_HEAD_BYTES_MAX = 512


Items = Iterable[Item | Problem | None]  # None: a blank line


def is_batch(entity_id: str, head: RequestHead) -> bool:
    """NDJSON to an entity; without an entity nothing else than a batch makes sense."""
    if entity_id:
        if head.media_type == FRAMES:
            raise refused(
                415,
                "frames_with_entity",
                "frames name their entities themselves: POST them to /v1/<endpoint>",
            )
        if head.media_type != NDJSON:
            return False
    elif head.media_type != FRAMES:
        raise refused(
            415,
            "no_entity",
            "POST a payload to /v1/<endpoint>/<entity id>, or here frames of several entities as "
            f"{FRAMES.decode()}",
        )
    elif head.idempotency_key is not None:
        raise refused(
            400,
            "bad_idempotency_key",
            "give each frame its own key, '<entity id> <length> <idempotency key>', and send no "
            "Idempotency-Key header with frames",
        )
    if any(name == CONTENT_ENCODING for name, _ in head.kept):
        raise refused(
            415,
            "encoded_batch",
            "a batch is not decompressed here: send it without content-encoding, or each payload "
            "compressed as a frame",
        )
    return True


def kept_headers(entity_id: str, head: RequestHead) -> list[Header]:
    """The content type is the batch's: a line of NDJSON is JSON, what a frame holds only its sender
    knows."""
    kept = [(name, value) for name, value in head.kept if name != CONTENT_TYPE]
    return [*kept, (CONTENT_TYPE, b"application/json")] if entity_id else kept


def split(
    body: bytes, entity_id: str, head: RequestHead, bytes_max: int, payloads_max: int
) -> Items:
    """Never more than may be taken: a small body can hold millions of lines or frames."""
    if entity_id:
        if body.count(b"\n") + (not body.endswith(b"\n")) > payloads_max:
            raise _too_long(f"{payloads_max} lines here, blank ones included")
        return ndjson(body, entity_id, head.idempotency_key, bytes_max)
    items = list(islice(frames(body, bytes_max), payloads_max + 1))
    if len(items) > payloads_max:
        raise _too_long(f"{payloads_max} frames here")
    return items


def ndjson(
    body: bytes, entity_id: str, key: str | None, bytes_max: int
) -> Iterator[Item | Problem | None]:
    """Line by line; None for a blank one. Under a key, a line is known by what it holds and not by
    its number: a client may send again only those lines that were refused."""
    seen: Counter[str] = Counter()
    for line in body.split(b"\n"):
        if not line.strip():
            yield None
        elif len(line) > bytes_max:
            yield _too_large(bytes_max)
        elif key is None:
            yield Item(entity_id, line, None)
        else:
            digest = sha256(line).hexdigest()
            yield Item(entity_id, line, (key, digest, str(seen[digest])))
            seen[digest] += 1


def frames(body: bytes, bytes_max: int) -> Iterator[Item | Problem]:
    """Frame by frame; the first that cannot be cut out is the last that is looked at."""
    at = 0
    while at < len(body):
        end = body.find(b"\n", at, at + _HEAD_BYTES_MAX)
        head = body[at:end].split(b" ") if end >= 0 else []
        if len(head) not in (2, 3) or not head[1].isdigit() or len(head[1]) > 9:
            yield _bad_frame(at, "it begins with '<entity id> <length>[ <idempotency key>]\\n'")
            return
        start = end + 1
        end = start + int(head[1])
        if body[end : end + 1] != b"\n":
            yield _bad_frame(at, f"no newline after its {int(head[1])} bytes")
            return
        yield _item(head, body[start:end], bytes_max)
        at = end + 1


def _item(head: list[bytes], payload: bytes, bytes_max: int) -> Item | Problem:
    entity_id = head[0].decode("ascii", errors="replace")
    if not ENTITY_ID.fullmatch(entity_id):
        return refused(400, "bad_entity_id", ENTITY_ID_RULE)
    if len(head) == 3 and not is_idempotency_key(head[2]):
        return refused(
            400, "bad_idempotency_key", "a key has 1 to 255 visible ASCII characters, no spaces"
        )
    if not payload:
        return refused(400, "empty_body", "an empty body is no payload")
    if len(payload) > bytes_max:
        return _too_large(bytes_max)
    return Item(entity_id, payload, (head[2].decode("ascii"),) if len(head) == 3 else None)


def _bad_frame(at: int, rule: str) -> Problem:
    return refused(
        400,
        "bad_frame",
        f"the frame at byte {at} cannot be cut out ({rule}); it and all after it were not written",
    )


def _too_large(bytes_max: int) -> Problem:
    return refused(413, "body_too_large", f"a payload has at most {bytes_max} bytes here")


def _too_long(most: str) -> Problem:
    return refused(413, "batch_too_long", f"a batch has at most {most}; send it in several")
