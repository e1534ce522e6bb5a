"""Each way to ask, on the routes; and what each mode leaves out."""

import json
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from gateway.auth import setup
from gateway.auth.caller import Caller
from gateway.auth.credentials import Credential, Credentials
from gateway.auth.setup import known_callers
from gateway.auth.signature import SigningKey, make_signing_key
from shared.settings import GatewaySettings, WrongSetting
from shared.settings.secret_box import SecretBox
from tests.gateway.auth.support import device, given, signature_of
from tests.gateway.auth.test_json_web_token import claims, jwk, sign
from tests.gateway.support import Gateway, built

BOX_KEY = "07" * 32
KEY = make_signing_key(SecretBox(bytes.fromhex(BOX_KEY)))
EDGE_KEY = make_signing_key(SecretBox(bytes.fromhex(BOX_KEY)))
ISSUER = ec.generate_private_key(ec.SECP256R1())
TOKEN, OPERATOR = device("device-0001", "acme"), given(Caller("operator"))
PATH = "/v1/telemetry/device-0001"
Make = Callable[..., Gateway]


@pytest.fixture
def make(settings: GatewaySettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A gateway that asks in these ways, with a token, two signing keys and a JWT's key known."""
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": [jwk(ISSUER, "ec-1")]}))
    known = {
        **{one.token.key_id.encode(): one.credential for one in (TOKEN, OPERATOR)},
        KEY.key_id.encode(): Credential(TOKEN.credential.caller, "hmac", KEY.proof),
        EDGE_KEY.key_id.encode(): Credential(Caller("gateway", "acme"), "hmac", EDGE_KEY.proof),
    }

    class Table(Credentials):
        def __init__(self) -> None:
            super().__init__()
            self.replace(known)

    monkeypatch.setattr(setup, "Credentials", Table)

    def make(ways: str, node: str = "one") -> Gateway:
        chosen = settings.model_copy(
            update={
                "state_dir": tmp_path / node,
                "auth": ways,
                "credentials_key": None,
                "credentials_key_file": tmp_path / "box",
                "jwt_keys_file": file,
                "jwt_issuer": "https://issuer.example",
                "jwt_audience": "headrace",
            }
        )
        (tmp_path / "box").write_text(BOX_KEY + "\n")
        who, _ = known_callers(chosen)
        return built(chosen, who=who)

    return make


def signed(
    path: str = PATH,
    body: bytes = b'{"value": 21.5}',
    key: SigningKey = KEY,
    nonce: str = "nonce-0001",
    method: str = "POST",
    **headers: str,
) -> dict[str, str]:
    ts, digest = str(int(time.time())), sha256(body).hexdigest()
    signature = signature_of(
        key.secret.encode(),
        method,
        path.encode(),
        ts.encode(),
        nonce.encode(),
        digest.encode(),
        headers.get("content-type", "").encode(),
        headers.get("idempotency-key", "").encode(),
    ).decode()
    form = f"key={key.key_id}, ts={ts}, nonce={nonce}, body={digest}, signature={signature}"
    return {"authorization": f"Headrace-HMAC {form}", **headers}


def bearer(token: bytes) -> dict[str, str]:
    return {"authorization": f"Bearer {token.decode()}"}


def jwt_of(**changes: Any) -> dict[str, str]:
    return bearer(sign(claims(**changes), ISSUER, "ES256", kid="ec-1"))


@pytest.mark.parametrize("ways", ["token", "hmac", "jwt", "token,hmac,jwt"])
def test_a_mode_takes_what_it_names_and_an_operator_s_token(make: Make, ways: str) -> None:
    gateway = make(ways)
    taken = {
        "token": gateway.post(headers=TOKEN.headers).status_code == 202,
        "hmac": gateway.post(headers=signed()).status_code == 202,
        "jwt": gateway.post(headers=jwt_of()).status_code == 202,
    }
    assert {way for way, is_taken in taken.items() if is_taken} == set(ways.split(","))
    assert {record.key for record in gateway.log.records} == {b"acme/device-0001"}
    assert gateway.ask("GET", "/health", headers=OPERATOR.headers).status_code != 401
    assert gateway.post(headers=OPERATOR.headers).json()["code"] == "writers_only"
    assert gateway.ask("GET", "/health").status_code == 401


def test_a_signed_request_that_comes_again_is_refused(make: Make) -> None:
    gateway, request = make("hmac"), signed()
    assert gateway.post(headers=request).status_code == 202
    again = gateway.post(headers=request)
    assert (again.status_code, again.json()["code"]) == (401, "unauthenticated")
    assert again.headers["www-authenticate"] == 'Headrace-HMAC realm="headrace"'
    assert len(gateway.log.records) == 1


def test_neither_does_another_process_of_the_node_take_it_nor_one_that_was_restarted(
    make: Make,
) -> None:
    request = signed()
    assert make("hmac").post(headers=request).status_code == 202
    assert make("hmac").post(headers=request).json()["code"] == "unauthenticated"


def test_a_nonce_that_is_used_again_later_is_another_event(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device may count from 1 each time it starts: what is acknowledged must not be taken for a
    repeat of yesterday's."""
    first = make("hmac").post(headers=signed())
    tomorrow_s = time.time() + 86_400
    monkeypatch.setattr(time, "time", lambda: tomorrow_s)
    monkeypatch.setattr("gateway.auth.authenticate.time.time_ns", lambda: int(tomorrow_s * 1e9))
    second = make("hmac").post(headers=signed())
    assert [answer.status_code for answer in (first, second)] == [202, 202]
    assert first.json()["id"] != second.json()["id"]


def test_at_another_node_it_is_the_same_event(make: Make) -> None:
    one, other, request = make("hmac"), make("hmac", "other"), signed()
    ids = [gateway.post(headers=request).json()["id"] for gateway in (one, other)]
    assert ids[0] == ids[1]
    assert one.post(headers=signed(nonce="nonce-0002")).json()["id"] != ids[0]


def test_so_is_each_payload_of_a_batch(make: Make) -> None:
    frames = b"device-0001 2\n{}\ndevice-0002 2\n{}\ndevice-0001 2\n{}\n"
    media_type = {"content-type": "application/vnd.headrace.frames"}
    request = signed("/v1/telemetry", frames, EDGE_KEY, **media_type)

    def ids(node: str) -> list[str]:
        answer = make("hmac", node).post("/v1/telemetry", content=frames, headers=request)
        return [receipt["id"] for receipt in answer.json()["receipts"]]

    assert ids("one") == ids("another")
    assert len(set(ids("a third"))) == 3


def test_a_key_of_the_client_s_own_goes_before_the_nonce(make: Make) -> None:
    gateway = make("hmac")
    ids = {
        gateway.post(headers=signed(nonce=nonce, **{"idempotency-key": "k"})).json()["id"]
        for nonce in ("nonce-0001", "nonce-0002")
    }
    assert len(ids) == 1


CHANGED: list[dict[str, Any]] = [
    {"idempotency-key": "another"},
    {"content-type": "application/x-ndjson"},
]


@pytest.mark.parametrize("changed", CHANGED, ids=str)
def test_what_decides_over_an_event_s_id_cannot_be_changed(
    make: Make, changed: dict[str, str]
) -> None:
    assert make("hmac").post(headers={**signed(), **changed}).status_code == 401


@pytest.mark.parametrize(
    "media_type", ["application/json", "application/x-ndjson", "application/vnd.headrace.frames"]
)
def test_another_body_than_the_signed_one_is_refused(make: Make, media_type: str) -> None:
    path = "/v1/telemetry" if "frames" in media_type else PATH
    gateway, request = make("hmac"), signed(path, **{"content-type": media_type})
    answer = gateway.post(path, content=b'{"value": 22.5}', headers=request)
    assert (answer.status_code, answer.json()["code"]) == (401, "other_body")
    assert answer.json()["outcome"] == "definite"
    assert gateway.log.records == []


def test_a_read_is_signed_with_its_query(make: Make) -> None:
    gateway, path = make("hmac"), "/state/device-0001?meta=true"

    def ask(signed_path: str) -> httpx.Response:
        request = signed(
            signed_path, b"", method="GET", nonce=sha256(signed_path.encode()).hexdigest()
        )
        return gateway.ask("GET", path, headers=request)

    assert ask(path).json()["code"] == "warming"
    assert ask("/state/device-0001").json()["code"] == "unauthenticated"
    assert ask("/state/device-0001?meta=false").json()["code"] == "unauthenticated"


def test_the_refusal_of_a_wrong_clock_comes_with_the_gateway_s(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = time.time() - 301
    with monkeypatch.context() as then:
        then.setattr(time, "time", lambda: late)
        request = signed()
    answer = make("hmac").post(headers=request)
    assert answer.status_code == 401
    assert "Date header" in answer.json()["detail"]  # which the server adds to every answer


def test_a_tenant_of_a_jwt_is_as_strict_as_another(make: Make) -> None:
    gateway = make("jwt")
    assert gateway.post(headers=jwt_of(device="device-0002")).json()["code"] == "not_your_id"
    assert gateway.post(headers=jwt_of(tenant="acme/beta")).status_code == 401
    assert gateway.ask("GET", "/health", headers=jwt_of()).json()["code"] == "operators_only"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"auth": "hmac"}, "HEADRACE_AUTH=hmac needs the key"),
        ({"auth": "jwt"}, "HEADRACE_JWT_KEYS_FILE is not set"),
        ({"auth": "jwt", "jwt_keys_file": "k"}, "HEADRACE_JWT_ISSUER is not set"),
        ({"auth": "none,token"}, "write none, or one or more of token, hmac, jwt"),
        ({"auth": ""}, "write none, or one or more of token, hmac, jwt"),
        ({"auth": "tokens"}, "write none, or one or more of token, hmac, jwt"),
    ],
)
def test_a_mode_without_what_it_needs_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        GatewaySettings(**changes)


@pytest.mark.parametrize("key", ["", "x", "07" * 31, "07" * 33, "zz" * 32])
def test_a_wrong_key_is_told_by_its_variable_and_never_shown(key: str, tmp_path: Path) -> None:
    file = tmp_path / "box"
    file.write_text(key)
    for chosen, variable in (
        ({"credentials_key": key or " "}, "HEADRACE_CREDENTIALS_KEY: "),
        ({"credentials_key_file": file}, "HEADRACE_CREDENTIALS_KEY_FILE: "),
    ):
        with pytest.raises(WrongSetting) as raised:
            SecretBox.of(GatewaySettings(**chosen))  # type: ignore[arg-type]
        assert str(raised.value).startswith(variable)
        assert len(key) < 2 or key not in str(raised.value)


def test_no_signing_secret_is_ever_logged_or_shown(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    gateway = make("token,hmac,jwt")
    for headers in (signed(), signed(), jwt_of(), TOKEN.headers, {**signed(), "x": "y"}):
        answer = gateway.post(headers=headers)
        seen = caplog.text + answer.text + str(answer.headers)
        for secret in (KEY.secret, KEY.proof.hex(), BOX_KEY, TOKEN.token.text):
            assert secret not in seen
        assert headers["authorization"].split()[-1] not in seen
