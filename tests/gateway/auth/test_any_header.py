"""Whatever stands in the header, whoever sent it: an answer, and never one that lets them in."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.auth.authenticate import CredentialAuthenticator
from gateway.auth.json_web_token import JsonWebTokens
from gateway.auth.jwt_keys import JwtKeys
from gateway.auth.nonces import Nonces
from gateway.auth.signature import Signatures
from gateway.http.problems import Problem
from tests.gateway.auth.support import device, table
from tests.gateway.auth.test_json_web_token import EC, claims, jwk, sign
from tests.gateway.auth.test_signature import BOX, KEY, Request

ONE = device("device-0001")
GOOD = [
    b"Bearer " + ONE.token.text.encode(),
    b"Bearer " + sign(claims(), EC, "ES256", kid="ec-1"),
    b"Headrace-HMAC " + Request().given(KEY),
]
pieces = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"Bearer ", b"bearer\t", b"Headrace-HMAC ", b"hr_", b"_", b".", b"=", b", "]),
    st.sampled_from(
        [b"key=", b"ts=9", b"nonce=", b"body=", b"signature=", b"eyJ", b"e30", b"\xff"]
    ),
)
made_up = st.lists(pieces, max_size=12).map(b"".join)


@st.composite
def cut_and_mended(draw: st.DrawFn) -> bytes:
    one, other = draw(st.sampled_from(GOOD)), draw(st.sampled_from(GOOD))
    # of the last character of a JWT no decoder looks at all bits
    head = one[: draw(st.integers(0, len(one) - 3))]
    return head + draw(pieces) + other[draw(st.integers(1, len(other))) :]


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> CredentialAuthenticator:
    file: Path = tmp_path_factory.mktemp("keys") / "keys.json"
    file.write_text(json.dumps({"keys": [jwk(EC, "ec-1")]}))
    credentials = table(ONE)
    jwts = JsonWebTokens(JwtKeys(file, ["ES256"]), "https://issuer.example", "headrace")
    return CredentialAuthenticator(credentials, True, Signatures(credentials, BOX, Nonces()), jwts)


def given_in(header: bytes) -> bytes:
    return header.partition(b" ")[2].replace(b", ", b",")


@settings(max_examples=1000)
@given(header=st.one_of(made_up, cut_and_mended()))
def test_it_lets_nobody_in_and_never_fails(known: CredentialAuthenticator, header: bytes) -> None:
    if given_in(header) in map(given_in, GOOD):
        return  # put together again as it was
    with pytest.raises(Problem) as raised:
        known.is_asking("POST", b"/v1/telemetry/device-0001", {b"authorization": header})
    assert raised.value.code == "unauthenticated"
