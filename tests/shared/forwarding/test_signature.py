"""By the vector of Standard Webhooks, and by the lines that the docs give to receivers."""

import re
import time
from pathlib import Path
from typing import Any

import pytest

from shared.forwarding.signature import key_of, new_secret, signed

DOCS = Path(__file__).parents[3] / "docs" / "webhooks.md"
BODY = b'{"specversion":"1.0","id":"e-1"}'


def receivers_lines() -> Any:
    (code,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.S)
    assert len(code.strip().splitlines()) <= 16
    found: dict[str, Any] = {}
    exec(code, found)
    return found["verified"]


def test_the_signature_is_that_of_the_published_vector() -> None:
    """From the libraries of Standard Webhooks."""
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    headers = signed(
        "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}', [key_of(secret)]
    )
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_receiver_with_either_secret_takes_what_is_signed_with_both() -> None:
    verified, now_s = receivers_lines(), int(time.time())
    old, new = new_secret(), new_secret()
    headers = signed("e-1", now_s, BODY, [key_of(new), key_of(old)])
    assert verified(old, headers, BODY)
    assert verified(new, headers, BODY)
    assert not verified(new_secret(), headers, BODY)


@pytest.mark.parametrize("age_s", (-301, 301))
def test_a_receiver_refuses_what_is_old_or_of_the_future(age_s: int) -> None:
    secret = new_secret()
    headers = signed("e-1", int(time.time()) - age_s, BODY, [key_of(secret)])
    assert not receivers_lines()(secret, headers, BODY)


@pytest.mark.parametrize("name", ("webhook-id", "webhook-timestamp", "webhook-signature", ""))
def test_a_receiver_refuses_whatever_was_changed(name: str) -> None:
    secret, body = new_secret(), BODY
    headers = signed("e-1", int(time.time()), BODY, [key_of(secret)])
    if name:
        last = headers[name][-2]
        headers[name] = headers[name][:-2] + ("0" if last != "0" else "1") + headers[name][-1]
    else:
        body += b" "
    assert not receivers_lines()(secret, headers, body)


@pytest.mark.parametrize("secret", ("", "whsec_", "whsec_AAAA", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))
def test_what_is_no_secret_is_refused_and_not_shown(secret: str) -> None:
    with pytest.raises(ValueError, match="a secret is whsec_") as error:
        key_of(secret)
    assert not secret.removeprefix("whsec_") or secret not in str(error.value)


def test_new_secrets_differ() -> None:
    assert len({new_secret() for _ in range(100)}) == 100
