"""The requests of a load, as bytes: payloads of 280 bytes of a thousand devices."""

import time
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path

from confluent_kafka import Producer

from gateway.auth.caller import Caller
from gateway.auth.credentials import Credential, Kind, to_record
from gateway.auth.signature import SigningKey, make_signing_key
from gateway.auth.token import Token, make_token
from shared.flow import FLOW
from shared.folding.snapshot import Snapshot, encode
from shared.settings.secret_box import SecretBox
from shared.topic_names import CREDENTIAL_TOPIC
from tests.gateway.auth.support import signature_of

DEVICES = [f"device-{number:04}" for number in range(1000)]
CREDENTIALS_KEY = "ab" * 32
LINES = 100
# a signature is good once, so there have to be more than a round sends
_SIGNED = 250_000


def write(path: Path, requests: Iterable[bytes]) -> None:
    with path.open("wb") as file:
        for request in requests:
            file.write(b"%d\n" % len(request) + request)


def plain(path: str) -> Iterator[bytes]:
    for number, device in enumerate(DEVICES):
        yield _post(f"{path}/{device}", _body(number))


def batches(path: str) -> Iterator[bytes]:
    for number, device in enumerate(DEVICES):
        lines = b"\n".join(_body(number + line) for line in range(LINES))
        yield _post(f"{path}/{device}", lines, "Content-Type: application/x-ndjson")


def with_tokens(path: str, tokens: list[Token]) -> Iterator[bytes]:
    for number, (device, token) in enumerate(zip(DEVICES, tokens, strict=True)):
        yield _post(f"{path}/{device}", _body(number), f"Authorization: Bearer {token.text}")


def signed(path: str, keys: list[SigningKey]) -> Iterator[bytes]:
    ts = b"%d" % time.time()
    bodies = [_body(number) for number in range(len(DEVICES))]
    hashes = [sha256(body).hexdigest().encode() for body in bodies]
    for number in range(_SIGNED):
        which = number % len(DEVICES)
        target, nonce = f"{path}/{DEVICES[which]}", b"bench-%08d" % number
        key = keys[which]
        signature = signature_of(
            key.secret.encode(), "POST", target.encode(), ts, nonce, hashes[which]
        )
        yield _post(
            target,
            bodies[which],
            f"Authorization: Headrace-HMAC key={key.key_id}, ts={ts.decode()}, "
            f"nonce={nonce.decode()}, body={hashes[which].decode()}, "
            f"signature={signature.decode()}",
        )


def make_tokens(bootstrap: str) -> list[Token]:
    tokens = [make_token() for _ in DEVICES]
    _publish(bootstrap, "token", tokens)
    return tokens


def make_keys(bootstrap: str) -> list[SigningKey]:
    box = SecretBox(bytes.fromhex(CREDENTIALS_KEY))
    keys = [make_signing_key(box) for _ in DEVICES]
    _publish(bootstrap, "hmac", keys)
    return keys


def reads(path: str, bootstrap: str) -> Iterator[bytes]:
    """Of the state of each device, which is made first."""
    (entity,) = FLOW.entities
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    for number, device in enumerate(DEVICES):
        state = {"value": number / 10, "status": "RUN", "unit": "celsius", "note": "x" * 200}
        snapshot = Snapshot(state=state, version=1, event_time_ms=1_700_000_000_000)
        producer.produce(entity.topic, encode(snapshot, "bench"), device)
    producer.flush(30)
    for device in DEVICES:
        yield f"GET {path}/{device} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def _publish(bootstrap: str, kind: Kind, made: list[Token] | list[SigningKey]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    for device, one in zip(DEVICES, made, strict=True):
        credential = Credential(Caller("device", device=device), kind, one.proof, made_ms=1)
        producer.produce(CREDENTIAL_TOPIC, to_record(credential), one.key_id)
    producer.flush(30)


def _body(number: int) -> bytes:
    start = b'{"value": %d.5, "seq": %d, "note": "' % (number % 100, number)
    return start + b"x" * (278 - len(start)) + b'"}'


def _post(target: str, body: bytes, *headers: str) -> bytes:
    lines = [f"POST {target} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body
