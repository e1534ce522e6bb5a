import base64
import hmac
import json
import os
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from gateway.auth.caller import Caller
from gateway.auth.json_web_token import JsonWebTokens
from gateway.auth.jwt_keys import JwtKeys
from shared.settings import WrongSetting
from tests.gateway.auth.test_token import each_bit_turned

RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())
STRANGER = rsa.generate_private_key(65537, 2048)
SECRET = os.urandom(32)
ALGORITHMS = ("RS256", "ES256")
DEVICE = {"role": "device", "tenant": "acme", "device": "device-0001"}


def check(known: JsonWebTokens, token: bytes, now_s: float | None = None) -> Caller | None:
    return known.check(token, int((time.time() if now_s is None else now_s) * 1000))


def jwk(private: Any, kid: str) -> dict[str, Any]:
    algorithm = jwt.algorithms.RSAAlgorithm if hasattr(private, "decrypt") else EC_JWK
    return {**algorithm.to_jwk(private.public_key(), as_dict=True), "kid": kid}


EC_JWK = jwt.algorithms.ECAlgorithm
OCT = {"kty": "oct", "k": base64.urlsafe_b64encode(SECRET).rstrip(b"=").decode(), "kid": "oct"}


def pem(private: Any) -> str:
    public = private.public_key()
    return str(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keys": [jwk(RSA, "rsa-1"), jwk(EC, "ec-1"), OCT]}))
    return path


@pytest.fixture
def known(file: Path) -> JsonWebTokens:
    return tokens(JwtKeys(file, ALGORITHMS))


def tokens(keys: JwtKeys) -> JsonWebTokens:
    return JsonWebTokens(keys, "https://issuer.example", "headrace")


def claims(**changes: Any) -> dict[str, Any]:
    now_s = int(time.time())
    own = {"iss": "https://issuer.example", "aud": "headrace", "exp": now_s + 600, **DEVICE}
    return {name: value for name, value in {**own, **changes}.items() if value is not None}


def sign(said: dict[str, Any], key: Any = RSA, algorithm: str = "RS256", **header: Any) -> bytes:
    return jwt.encode(said, key, algorithm, headers={"kid": "rsa-1", **header}).encode()


def test_a_token_says_who_it_is(known: JsonWebTokens) -> None:
    device = Caller("device", "acme", "device-0001")
    assert check(known, sign(claims())) == device
    assert check(known, sign(claims(aud=["other", "headrace"]))) == device
    assert check(known, sign(claims(), EC, "ES256", kid="ec-1")) == device
    gateway = claims(role="gateway", device=None)
    assert check(known, sign(gateway)) == Caller("gateway", "acme")
    operator = claims(role="operator", tenant="", device=None, all_tenants=True)
    assert check(known, sign(operator)) == Caller("operator", all_tenants=True)
    looks = claims(role="operator", tenant="", device=None, may="look")
    assert check(known, sign(looks)) == Caller("operator", may="look")


NOW_S = int(time.time())
WRONG_CLAIMS: list[dict[str, Any]] = [
    {"exp": NOW_S - 100},
    {"exp": None},
    {"exp": "soon"},
    {"nbf": NOW_S + 86_400},  # a whole run of the tests may lie between
    {"iss": "https://issuer.example.evil"},
    {"iss": None},
    {"iss": ["https://issuer.example"]},
    {"aud": "other"},
    {"aud": None},
    {"aud": []},
    {"tenant": None},
    {"tenant": "Acme"},
    {"tenant": ["acme"]},
    {"tenant": {"a": 1}},
    {"role": None},
    {"role": "anyone"},
    {"role": "root"},
    {"role": ["device"]},
    {"role": "gateway"},  # with a device
    {"device": None},
    {"device": "beta/device-0001"},
    {"device": 7},
    {"may": "look"},  # of a device
    {"role": "operator", "device": None, "may": "all"},
    {"role": "operator", "device": None, "may": ["look"]},
    {"all_tenants": True},
    {"role": "operator", "device": None, "all_tenants": True},  # with a tenant
]


@pytest.mark.parametrize("wrong", WRONG_CLAIMS, ids=str)
def test_claims_that_are_not_those_of_a_caller_are_refused(
    known: JsonWebTokens, wrong: dict[str, Any]
) -> None:
    assert check(known, by_hand({"alg": "RS256", "kid": "rsa-1"}, claims(**wrong))) is None


def test_the_way_in_which_the_test_above_signs_is_good(known: JsonWebTokens) -> None:
    assert check(known, by_hand({"alg": "RS256", "kid": "rsa-1"}, claims())) is not None


def by_hand(header: dict[str, Any], said: dict[str, Any]) -> bytes:
    """As PyJWT would refuse to."""
    signed = b".".join(part(json.dumps(p).encode()) for p in (header, said))
    return (
        signed
        + b"."
        + part(jwt.algorithms.RSAAlgorithm(jwt.algorithms.RSAAlgorithm.SHA256).sign(signed, RSA))
    )


def part(raw: bytes) -> bytes:
    return base64.urlsafe_b64encode(raw).rstrip(b"=")


def test_a_token_that_signs_nothing_is_refused(known: JsonWebTokens) -> None:
    body = part(json.dumps(claims()).encode())
    for algorithm in ("none", "None", "NONE", ""):
        for end in (b"", b".", b"." + part(b"x")):
            header = part(json.dumps({"alg": algorithm, "kid": "rsa-1"}).encode())
            assert check(known, header + b"." + body + end) is None


def test_a_public_key_is_no_shared_secret(file: Path, known: JsonWebTokens) -> None:
    """The old confusion: HS256 under what everybody knows."""
    for secret in (pem(RSA).encode(), file.read_bytes(), b"", SECRET):
        for kid in ("rsa-1", "ec-1", "oct", None):
            header = {"alg": "HS256", "typ": "JWT", **({"kid": kid} if kid else {})}
            signed = b".".join(part(json.dumps(p).encode()) for p in (header, claims()))
            mac = hmac.digest(secret, signed, "sha256")
            assert check(known, signed + b"." + part(mac)) is None


def test_a_key_is_looked_up_in_the_set_and_nowhere_else(
    known: JsonWebTokens, tmp_path: Path
) -> None:
    (tmp_path / "evil.pem").write_text(pem(STRANGER))
    strange = jwk(STRANGER, "rsa-1")
    address = (tmp_path / "evil.pem").as_uri()
    headers: list[dict[str, Any]] = [
        {},
        {"kid": "nobody"},
        {"kid": str(tmp_path / "evil.pem")},
        {"kid": "../evil.pem"},
        {"kid": "rsa-1\0"},
        {"kid": "' OR 1=1 --"},
        {"jwk": strange},
        {"jku": address},
        {"x5u": address},
        {"x5c": ["AAAA"]},
    ]
    for header in headers:
        assert check(known, sign(claims(), STRANGER, **header)) is None, header
        # and what the header says beside a good kid changes nothing
    assert check(known, sign(claims(), RSA, jku=address, jwk=strange)) is not None
    for kid in ("ec-1", "nobody"):
        assert check(known, sign(claims(), RSA, kid=kid)) is None


@pytest.mark.parametrize("kid", [1, ["rsa-1"], {"a": 1}, True])
def test_a_key_id_is_text(known: JsonWebTokens, kid: Any) -> None:
    assert check(known, by_hand({"alg": "RS256", "kid": kid}, claims())) is None


def test_what_a_token_says_must_be_understood_it_is_not(known: JsonWebTokens) -> None:
    header = {"alg": "RS256", "kid": "rsa-1", "crit": ["exp"]}
    assert check(known, by_hand(header, claims())) is None


def test_an_algorithm_that_is_not_allowed_is_refused_though_its_key_is_there(
    known: JsonWebTokens,
) -> None:
    assert check(known, sign(claims(), SECRET, "HS256", kid="oct")) is None
    assert check(known, sign(claims(), RSA, "PS256")) is None
    assert check(known, sign(claims(), RSA, "RS512")) is None


def test_a_token_has_one_form(known: JsonWebTokens) -> None:
    token = sign(claims())
    for other in (token + b"=", token[:-5] + b"\xff" + token[-5:], b" " + token, token + b"\n"):
        assert check(known, other) is None
    assert check(known, token)


def test_a_token_with_one_bit_turned_is_refused(known: JsonWebTokens) -> None:
    token = sign(claims(), EC, "ES256", kid="ec-1")
    # the last character of a part has bits that no decoder looks at
    head, body, end = token.split(b".")
    for turned in each_bit_turned(head[:-1]):
        assert check(known, turned + head[-1:] + b"." + body + b"." + end) is None
    for turned in each_bit_turned(body[:-1]):
        assert check(known, head + b"." + turned + body[-1:] + b"." + end) is None
    for turned in each_bit_turned(end[:-1]):
        assert check(known, head + b"." + body + b"." + turned + end[-1:]) is None


DEEP = part(b'{"alg":' + b"[" * 5000 + b"]" * 5000 + b"}")
SHAPELESS = [
    b"",
    b".",
    b"..",
    b"...",
    b"a.b.c",
    b"\xff.\xff.\xff",
    b"x" * 100_000,
    DEEP + b".e30.x",
]
SHAPELESS += [part(b"[]") + b".e30.x", part(b"null") + b".e30.x", part(b"\xff") + b".e30.x"]
SHAPELESS += [DEEP[:8000] + b".e30.x", part(b"[" * 5900) + b".e30.x"]


@pytest.mark.parametrize("given", SHAPELESS, ids=range(len(SHAPELESS)))
def test_what_is_no_token_is_refused(known: JsonWebTokens, given: bytes) -> None:
    assert check(known, given) is None


def test_a_changed_file_changes_who_is_known(file: Path) -> None:
    keys = JwtKeys(file, ALGORITHMS)
    known, newer = tokens(keys), sign(claims(), STRANGER, kid="rsa-2")
    older = sign(claims())
    assert (check(known, newer), bool(check(known, older))) == (None, True)
    file.write_text(json.dumps({"keys": [jwk(RSA, "rsa-1"), jwk(STRANGER, "rsa-2")]}))
    keys.look()
    assert check(known, newer)
    assert check(known, older)
    file.write_text(json.dumps({"keys": [jwk(STRANGER, "rsa-2")]}))
    keys.look()
    assert check(known, newer)
    assert check(known, older) is None
    file.write_text('{"keys": [')  # half of it
    keys.look()
    assert check(known, newer)
    file.unlink()
    keys.look()
    assert check(known, newer)


def test_a_token_that_was_checked_before_ends_when_it_says(
    known: JsonWebTokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = int(time.time())
    token = sign(claims(exp=now_s + 600))
    assert check(known, token)

    def refuse(_: bytes) -> None:
        raise ValueError

    monkeypatch.setattr(known, "_claims", refuse)
    assert check(known, token, now_s + 600 + 29.9)
    assert check(known, token, now_s + 600 + 30) is None


@pytest.mark.parametrize(
    ("private", "algorithm"),
    [(RSA, "RS256"), (EC, "ES256"), (ed25519.Ed25519PrivateKey.generate(), "EdDSA")],
    ids=["RSA", "EC", "Ed25519"],
)
def test_a_single_public_key_needs_no_name(tmp_path: Path, private: Any, algorithm: str) -> None:
    file = tmp_path / "key.pem"
    file.write_text(pem(private))
    known = tokens(JwtKeys(file, [algorithm]))
    token = jwt.encode(claims(), private, algorithm).encode()
    assert check(known, token) is not None
    assert check(known, jwt.encode(claims(), private, algorithm, {"kid": "x"}).encode()) is None
    assert check(known, jwt.encode(claims(), SECRET, "HS256").encode()) is None


PRIVATE = RSA.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
NO_KEYS = ["", "x", "[]", "{}", '{"keys": []}', '{"keys": [1]}', '{"keys": [{"kty": "x"}]}']
NO_KEYS += [json.dumps({"keys": [OCT]}), json.dumps({"keys": [jwk(RSA, "a")] * 2}), PRIVATE]
NO_KEYS += [pem(ed25519.Ed25519PrivateKey.generate())]  # not allowed here


@pytest.mark.parametrize("text", NO_KEYS, ids=range(len(NO_KEYS)))
def test_a_file_without_keys_is_told_by_its_variable(tmp_path: Path, text: str) -> None:
    file = tmp_path / "keys"
    file.write_text(text)
    with pytest.raises(
        WrongSetting, match=r"^HEADRACE_JWT_KEYS_FILE: .*keys has no keys"
    ) as raised:
        JwtKeys(file, ALGORITHMS)
    assert "PRIVATE" not in str(raised.value)


def test_a_file_that_is_not_there_is_told_by_its_variable(tmp_path: Path) -> None:
    with pytest.raises(WrongSetting, match=r"^HEADRACE_JWT_KEYS_FILE: "):
        JwtKeys(tmp_path / "nothing", ALGORITHMS)
