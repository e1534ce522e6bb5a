from collections.abc import Iterator
from hashlib import sha256

import pytest

from gateway.auth import token
from gateway.auth.credentials import Credentials
from gateway.http.problems import Problem
from tests.gateway.auth.support import device, given, table

NOW_MS = 1_800_000_000_000
ONE = device("device-0001")


def each_bit_turned(text: bytes) -> Iterator[bytes]:
    for at in range(len(text)):
        for bit in range(8):
            turned = bytearray(text)
            turned[at] ^= 1 << bit
            yield bytes(turned)


def test_a_token_is_known_as_it_was_made() -> None:
    assert token.Tokens(table(ONE)).check(ONE.token.text.encode(), NOW_MS) == ONE.credential


def test_a_token_with_one_bit_turned_is_none() -> None:
    known, text = table(ONE, device("device-0002")), ONE.token.text.encode()
    for turned in each_bit_turned(text[len(token.PREFIX) :]):
        assert token.Tokens(known).check(token.PREFIX + turned, NOW_MS) is None, turned


@pytest.mark.parametrize("wrong", [b"", b"hr_", b"hr__", b"_", b"x" * 5000, b"\xff\x00", b"hr_a_b"])
def test_what_is_no_token_is_none(wrong: bytes) -> None:
    assert token.Tokens(table(ONE)).check(wrong, NOW_MS) is None


def test_nothing_that_is_stored_is_a_token() -> None:
    for stored in (ONE.token.proof, ONE.token.proof.hex().encode()):
        presented = f"hr_{ONE.token.key_id}_".encode() + stored
        assert token.Tokens(table(ONE)).check(presented, NOW_MS) is None


def test_two_tokens_of_a_device_hold_until_one_is_revoked() -> None:
    newer = device("device-0001")
    both, only_newer = table(ONE, newer), table(newer)
    texts = [one.token.text.encode() for one in (ONE, newer)]
    assert [bool(token.Tokens(both).check(text, NOW_MS)) for text in texts] == [True, True]
    assert [bool(token.Tokens(only_newer).check(text, NOW_MS)) for text in texts] == [False, True]


def test_a_token_holds_until_its_last_millisecond() -> None:
    expiring = given(ONE.credential.caller, not_after_ms=NOW_MS)
    text = expiring.token.text.encode()
    tokens = token.Tokens(table(expiring))
    assert tokens.check(text, NOW_MS - 1)
    assert tokens.check(text, NOW_MS) is None


def test_a_token_that_was_right_is_not_after_its_revocation() -> None:
    credentials, text = table(ONE), ONE.token.text.encode()
    tokens = token.Tokens(credentials)
    assert tokens.check(text, NOW_MS)
    assert tokens.check(text, NOW_MS)
    credentials.replace({})
    assert tokens.check(text, NOW_MS) is None


def test_the_same_is_done_for_whatever_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work is counted, not timed: hashes and how many bytes they take, and comparisons."""
    done: list[tuple[str, int]] = []

    def hashed(data: bytes) -> object:
        done.append(("hash", len(data)))
        return sha256(data)

    def compared(one: bytes, other: bytes) -> bool:
        done.append(("compare", len(one) + len(other)))
        return one == other

    expired = given(ONE.credential.caller, not_after_ms=NOW_MS)
    unknown, bad = device("device-0001").token.text, ONE.token.text[:-1] + "x"
    monkeypatch.setattr(token, "sha256", hashed)
    monkeypatch.setattr(token, "compare_digest", compared)
    tokens = token.Tokens(table(ONE, expired))
    for text in (*(unknown, bad, expired.token.text) * 2, ONE.token.text):
        tokens.check(text.encode(), NOW_MS)
    a_check = [("hash", 64), ("compare", 64)]
    assert done == a_check * 7


def test_nothing_is_said_before_anything_is_known() -> None:
    with pytest.raises(Problem) as raised:
        token.Tokens(Credentials()).check(ONE.token.text.encode(), NOW_MS)
    assert (raised.value.status, raised.value.code) == (503, "credentials_unknown")
    assert raised.value.outcome == "definite"
    assert raised.value.headers == {"retry-after": "1"}
