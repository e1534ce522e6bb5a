"""Requests as devices make them, and what their answers say of each payload in them. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tests.faults.client_answers import Told
from tests.faults.whole.sends import Answer, Message

Headers = Mapping[str, str]


class Post(NamedTuple):
    path: str
    headers: Headers
    body: bytes
    messages: Sequence[Message]
    places: Sequence[int] | None  # the number of each one's line; None: it is no batch


def single(message: Message) -> Post:
    path = f"/v1/{message.endpoint}/{message.device}"
    return Post(path, _key(message.key), message.body, [message], None)


def lines(messages: Sequence[Message], blank_after: int = -1) -> Post:
    """Of one device, one key for all; with a blank line somewhere, if wanted."""
    first = messages[0]
    bodies = [message.body for message in messages]
    places = list(range(len(messages)))
    if 0 <= blank_after < len(messages):
        bodies.insert(blank_after, b"")
        places = [place + (place >= blank_after) for place in places]
    headers = {"Content-Type": "application/x-ndjson", **_key(first.key)}
    path = f"/v1/{first.endpoint}/{first.device}"
    return Post(path, headers, b"\n".join(bodies) + b"\n", messages, places)


def frames(messages: Sequence[Message]) -> Post:
    """Of any devices, each with a key of its own, or none."""
    parts = []
    for message in messages:
        key = f" {message.key}" if message.key else ""
        head = f"{message.device} {len(message.body)}{key}\n"
        parts.append(head.encode() + message.body + b"\n")
    headers = {"Content-Type": "application/vnd.headrace.frames"}
    path = f"/v1/{messages[0].endpoint}"
    return Post(path, headers, b"".join(parts), messages, [*range(len(messages))])


def answers(post: Post, status: int, said: Any) -> list[Answer]:
    """One for each message. ValueError where the gateway may not answer so."""
    if status == 503:  # of a batch, too: nothing of it was accepted
        return [Answer(Told(said["outcome"]))] * len(post.messages)
    if post.places is None:
        if status != 202:
            raise ValueError(f"{status} {said}")
        return [_receipt(said)]
    if status != 207:
        raise ValueError(f"{status} {said}")
    by_line = {receipt["line"]: receipt for receipt in said["receipts"]}
    if len(said["receipts"]) != len(by_line) or by_line.keys() != {*post.places}:
        raise ValueError(f"receipts of lines {sorted(by_line)}, not {post.places}")
    found = [_of_line(by_line[place]) for place in post.places]
    accepted = sum(answer.accepts for answer in found)
    if (said["accepted"], said["refused"]) != (accepted, len(found) - accepted) or not accepted:
        raise ValueError(f"{accepted} of {len(found)} were accepted, and it says {said}")
    return found


def _of_line(receipt: Mapping[str, Any]) -> Answer:
    if receipt["status"] == 503:
        return Answer(Told(receipt["outcome"]))
    if receipt["status"] != 202:
        raise ValueError(f"a line that nothing is wrong with: {receipt}")
    return _receipt(receipt)


def _receipt(said: Mapping[str, Any]) -> Answer:
    if said.get("spooled"):
        return Answer(Told.SPOOLED, said["id"])
    return Answer(Told.WRITTEN, said["id"], (said["topic"], said["partition"], said["offset"]))


def _key(key: str | None) -> dict[str, str]:
    return {} if key is None else {"Idempotency-Key": key}
