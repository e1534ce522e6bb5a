import hmac
import os
import subprocess
import sys
from collections.abc import Iterable
from errno import ENOSPC
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography.hazmat.primitives.hmac import HMAC

from gateway.auth import signature
from gateway.auth.caller import Caller
from gateway.auth.credentials import Credential, Credentials
from gateway.auth.nonces import Nonces
from gateway.auth.signature import Signatures, SigningKey, make_signing_key
from shared.settings.secret_box import SecretBox
from tests.gateway.auth.support import signature_of
from tests.gateway.auth.test_token import each_bit_turned

NOW_S = 1_800_000_000
BOX = SecretBox(b"\x07" * 32)
KEY = make_signing_key(BOX)
DEVICE = Caller("device", "acme", "device-0001")
Headers = list[tuple[bytes, bytes]]


class Request(NamedTuple):
    method: str = "POST"
    target: bytes = b"/v1/telemetry/device-0001"
    headers: Headers = [(b"content-type", b"application/json")]  # noqa: RUF012 - never changed
    ts: bytes = str(NOW_S).encode()
    nonce: bytes = b"nonce-0001"
    body_sha256: bytes = sha256(b"{}").hexdigest().encode()
    content_type: bytes = b"application/json"
    idempotency_key: bytes = b""

    def signature(self, key: SigningKey = KEY) -> bytes:
        method, target, _, ts, nonce, body, content_type, idempotency_key = self
        return signature_of(
            key.secret.encode(), method, target, ts, nonce, body, content_type, idempotency_key
        )

    def given(self, key: SigningKey = KEY) -> bytes:
        return b"key=%s, ts=%s, nonce=%s, body=%s, signature=%s" % (
            *(key.key_id.encode(), self.ts, self.nonce, self.body_sha256),
            self.signature(key),
        )


def signatures(*keys: SigningKey, box: SecretBox = BOX, until_ms: int | None = None) -> Signatures:
    credentials = Credentials()
    credentials.replace(
        {k.key_id.encode(): Credential(DEVICE, "hmac", k.proof, until_ms) for k in keys}
    )
    return Signatures(credentials, box, Nonces())


def check(
    known: Signatures, request: Request, given: bytes | None = None, now_s: float = NOW_S
) -> Caller | None:
    given = request.given() if given is None else given
    headers = dict(request.headers)
    return known.check(request.method, request.target, headers, given, int(now_s * 1000))


def test_a_signed_request_is_its_device_s_and_known_again() -> None:
    caller = check(signatures(KEY), Request())
    assert caller is not None
    assert caller[:3] == ("device", "acme", "device-0001")
    assert caller.signed is not None
    assert caller.signed.body_sha256 == sha256(b"{}").hexdigest()
    assert caller.signed.key(3) == ("signed request", f"{KEY.key_id} {NOW_S} nonce-0001", "3")


def test_a_signature_as_it_is_documented() -> None:
    body = sha256(b"{}").hexdigest()
    lines = ["POST", "/v1/telemetry/device-0001", "1800000000", "nonce-0001", body]
    lines += ["application/json", "key-1"]
    by_hand = hmac.new(KEY.secret.encode(), "\n".join(lines).encode(), sha256).hexdigest()
    request = Request(idempotency_key=b"key-1")
    request = request._replace(headers=[*request.headers, (b"idempotency-key", b"key-1")])
    head = f"key={KEY.key_id}, ts=1800000000, nonce=nonce-0001, body={body}, signature="
    assert check(signatures(KEY), request, f"{head}{by_hand}".encode()) is not None
    assert check(signatures(KEY), Request(), f"{head}{by_hand}".encode()) is None


OTHERS: list[dict[str, Any]] = [
    {"method": "PUT"},
    {"method": "post"},
    {"target": b"/v1/telemetry/device-0002"},
    {"target": b"/v1/telemetry/device-0001?"},
    {"target": b"/v1/telemetry/device-0001?x=1"},
    {"target": b"/v1/telemetry/device%2d0001"},
    {"target": b"/v1/telemetry//device-0001"},
    {"headers": []},
    {"headers": [(b"content-type", b"application/x-ndjson")]},
    {"headers": [(b"content-type", b"application/json"), (b"idempotency-key", b"k")]},
]


@pytest.mark.parametrize("other", OTHERS, ids=str)
def test_what_was_signed_for_one_request_is_not_for_another(other: dict[str, Any]) -> None:
    assert check(signatures(KEY), Request()._replace(**other), Request().given()) is None


def test_a_header_with_one_bit_turned_is_refused() -> None:
    known, request = signatures(KEY, make_signing_key(BOX)), Request()
    turned = list(each_bit_turned(request.given()))
    assert len(turned) > 1500
    for given in turned:
        assert check(known, request, given) is None, given
    assert check(known, request) is not None


@pytest.mark.parametrize(("off_s", "is_taken"), [(0, 1), (300, 1), (-300, 1), (301, 0), (-301, 0)])
def test_a_clock_may_be_off_by_300_seconds(off_s: int, is_taken: int) -> None:
    request = Request(ts=str(NOW_S + off_s).encode())
    assert (check(signatures(KEY), request) is not None) == bool(is_taken)


def test_a_request_comes_once() -> None:
    known = signatures(KEY, other := make_signing_key(BOX))
    assert check(known, Request()) is not None
    assert check(known, Request()) is None
    assert check(known, Request(nonce=b"nonce-0002")) is not None
    assert check(known, Request(), Request().given(other)) is not None  # another key's nonce


def test_a_wrong_signature_uses_no_nonce_up() -> None:
    known = signatures(KEY)
    wrong = Request().given()[:-64] + b"0" * 64
    assert check(known, Request(), wrong) is None
    assert check(known, Request()) is not None


def test_two_keys_of_a_device_hold_until_one_is_revoked_or_expires() -> None:
    newer = make_signing_key(BOX)
    first, second = Request(nonce=b"nonce-0001"), Request(nonce=b"nonce-0002")
    both, only_newer = signatures(KEY, newer), signatures(newer)
    assert check(both, first, first.given(KEY))
    assert check(both, second, second.given(newer))
    assert check(only_newer, first, first.given(KEY)) is None
    assert check(only_newer, second, second.given(newer))
    expired = signatures(KEY, until_ms=NOW_S * 1000)
    assert check(expired, first) is None
    assert check(expired, first, now_s=NOW_S - 0.001)


FORMLESS = [b"", b"key=", b"\xff", b"x" * 5000, Request().given() + b", signature=" + b"0" * 64]
FORMLESS += [Request().given().replace(b", ", b";"), Request().given().upper()]
FORMLESS += [Request().given().replace(b"ts=", b"ts=-"), Request().given() + b"\n"]


@pytest.mark.parametrize("given", FORMLESS, ids=range(len(FORMLESS)))
def test_what_has_not_the_form_is_refused(given: bytes) -> None:
    assert check(signatures(KEY), Request(), given) is None


def test_the_same_is_done_for_whatever_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple[str, int]] = []
    box, real = SecretBox(b"\x07" * 32), signature._signed

    def opened(key_id: bytes, sealed: bytes) -> bytes | None:
        done.append(("open", len(sealed)))
        return SecretBox.open(box, key_id, sealed)

    def signed(key: HMAC, *parts: Any) -> bytes:
        done.append(("sign", sum(map(len, parts))))
        return real(key, *parts)

    def compared(one: bytes, other: bytes) -> bool:
        done.append(("compare", len(one) + len(other)))
        return one == other

    monkeypatch.setattr(box, "open", opened)
    known = signatures(KEY, box=box)
    request, unknown = Request(), make_signing_key(box)
    bad = request.given()[:-64] + b"0" * 64
    monkeypatch.setattr(signature, "_signed", signed)
    monkeypatch.setattr(signature, "compare_digest", compared)
    for first in (True, False):  # an opened secret is kept, that of nobody, too
        for given in (request.given(unknown), bad):
            done.clear()
            check(known, request, given)
            assert [what for what, _ in done] == [*["open"] * first, "sign", "compare"]
            assert not first or done[0][1] == len(KEY.proof)


def test_another_box_lets_nobody_in_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    known = signatures(KEY, box=SecretBox(b"\x08" * 32))
    assert check(known, Request()) is None
    assert check(known, Request()) is None
    (said,) = caplog.messages
    assert "HEADRACE_CREDENTIALS_KEY" in said
    assert KEY.secret not in said


def test_a_sealed_secret_is_of_its_key_id_alone() -> None:
    other = make_signing_key(BOX)
    assert BOX.open(KEY.key_id.encode(), KEY.proof) == KEY.secret.encode()
    assert BOX.open(other.key_id.encode(), KEY.proof) is None
    assert KEY.secret.encode() not in KEY.proof
    for wrong in (b"", b"x" * 5, KEY.proof[:-1], *each_bit_turned(KEY.proof)):
        assert BOX.open(KEY.key_id.encode(), wrong) is None


def test_a_nonce_counts_until_its_request_is_too_old() -> None:
    nonces = Nonces()
    assert nonces.is_first(b"k", b"n", 600_000, 1_000)
    for now_ms in (1_000, 599_999, 600_000):
        assert not nonces.is_first(b"k", b"n", 900_000, now_ms)
        assert nonces.is_first(b"k", str(now_ms).encode(), 600_000, now_ms)
    assert nonces.is_first(b"k", b"n", 1_200_000, 600_001)
    assert not nonces.is_first(b"k", b"n", 1_200_000, 600_002)
    assert nonces.is_first(b"k2", b"n", 1_200_000, 600_002)


_IS_FIRST = """
import pathlib, sys
from gateway.auth.nonces import Nonces
nonces = Nonces.kept_in(pathlib.Path(sys.argv[1]))
for line in sys.stdin:
    print(nonces.is_first(b"k", line.strip().encode(), 600_000, 1_000), flush=True)
"""


class Process:
    """Another one that takes signed requests."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-c", _IS_FIRST, str(folder)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = subprocess.Popen(command, text=True, bufsize=1, **pipes)

    def is_first(self, nonce: str) -> bool:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(nonce + "\n")
        return self._process.stdout.readline() == "True\n"

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.mark.slow
def test_nonces_are_known_to_all_processes_of_a_node_and_after_a_restart(tmp_path: Path) -> None:
    one, other = (Process(tmp_path / "state") for _ in range(2))
    assert one.is_first("a")
    assert not other.is_first("a")
    assert other.is_first("b")
    assert not one.is_first("b")
    one.kill()
    other.kill()
    restarted = Process(tmp_path / "state")
    assert [restarted.is_first(nonce) for nonce in "abc"] == [False, False, True]
    restarted.kill()


def test_nonces_without_room_on_the_disk_are_known_to_their_process_and_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: int) -> None:
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    nonces = Nonces.kept_in(tmp_path)
    assert nonces.is_first(b"k", b"n", 600_000, 1_000)
    assert not nonces.is_first(b"k", b"n", 600_000, 1_000)
    assert "No space left on device" in caplog.text


def test_of_two_hundred_thousand_nonces_hardly_one_is_forgotten() -> None:
    nonces = Nonces()

    def firsts(numbers: Iterable[int]) -> int:
        return sum(nonces.is_first(b"k", b"nonce-%d" % n, 600_000, 1_000) for n in numbers)

    assert firsts(range(200_000)) == 200_000
    # the newest first: one that was forgotten takes the place of an older one
    assert firsts(reversed(range(200_000))) < 600
