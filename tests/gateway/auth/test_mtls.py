"""Devices that are known by their certificates, which are made here, over real sockets."""

import contextlib
import os
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.auth.setup import known_callers
from gateway.http import tls
from gateway.http.tls import ServerTls
from gateway.server.server import server_config
from shared.settings import WRONG_SETTINGS, GatewaySettings, WrongSetting, explain
from tests.certificates import Authority, Issued
from tests.gateway.support import FakeLog, Gateway, Served, built, serving, until

SPOOFED = {
    name: value
    for value in ("CN=device-0002",)
    for name in ("x-client-cert", "x-client-cert-subject", "x-ssl-client-s-dn", "x-forwarded-user")
}


class Secure:
    def __init__(self, served: Served, log: FakeLog, authority: Authority, crl: Path) -> None:
        self.served = served
        self.log = log
        self.authority = authority
        self.crl = crl

    def url(self, path: str) -> str:
        host, port = self.served
        return f"https://{host}:{port}{path}"

    def client(self, device: Issued | None) -> httpx.Client:
        context = ssl.create_default_context(cafile=self.authority.file)
        if device is not None:
            context.load_cert_chain(device.cert_file, device.key_file)
        return httpx.Client(base_url=self.url(""), verify=context, timeout=10)

    def post(self, device: Issued | None, entity_id: str, **headers: str) -> httpx.Response:
        with self.client(device) as client:
            return client.post(f"/v1/telemetry/{entity_id}", content=b"{}", headers=headers)

    def refuses_the_handshake_of(self, device: Issued) -> bool:
        try:
            self.post(device, "device-0001")
        except httpx.TransportError:
            return not self.log.records
        return False


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def secure_settings(settings: GatewaySettings, authority: Authority) -> GatewaySettings:
    server = authority.issue("CN=gateway", name="server")
    return GatewaySettings(
        state_dir=settings.state_dir,
        auth="token,mtls",
        tls_cert_file=server.cert_file,
        tls_key_file=server.key_file,
        tls_client_ca_file=authority.file,
        tls_crl_file=authority.revoke(),
    )


@pytest.fixture
def secure(
    secure_settings: GatewaySettings, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Secure]:
    monkeypatch.setattr(tls, "_LOOK_EVERY_S", 0.1)
    who, kept = known_callers(secure_settings)
    who._own_tokens._credentials.replace({})
    gateway = built(secure_settings, background=[kept], who=who)
    assert secure_settings.tls_crl_file
    with serving(gateway, secure_settings) as served:
        yield Secure(served, gateway.log, authority, secure_settings.tls_crl_file)
    gateway.health.view.close()


def test_a_device_is_who_its_certificate_names(secure: Secure) -> None:
    device = secure.authority.issue("CN=device-0001")
    assert secure.post(device, "device-0001").status_code == 202
    refused = secure.post(device, "device-0002")
    assert (refused.status_code, refused.json()["code"]) == (403, "not_your_id")
    assert [record.key for record in secure.log.records] == [b"device-0001"]


def test_its_organization_is_its_tenant(secure: Secure) -> None:
    assert secure.post(secure.authority.issue("CN=device-0001,O=acme"), "device-0001").is_success
    assert [record.key for record in secure.log.records] == [b"acme/device-0001"]
    assert secure.log.records[0].headers["ce_tenant"] == b"acme"


def test_no_header_says_who_it_is(secure: Secure) -> None:
    device = secure.authority.issue("CN=device-0001")
    token = {"authorization": "Bearer hr_0_0"}
    assert secure.post(device, "device-0002", **SPOOFED).status_code == 403
    assert secure.post(device, "device-0001", **SPOOFED, **token).status_code == 202
    assert secure.post(None, "device-0002", **SPOOFED).status_code == 401


def test_without_a_certificate_nobody_is_known_but_the_probes_answer(secure: Secure) -> None:
    refused = secure.post(None, "device-0001")
    assert (refused.status_code, refused.json()["outcome"]) == (401, "definite")
    with secure.client(None) as client:
        assert client.get("/livez").status_code == 200
        assert client.get("/state/device-0001").status_code == 401


def test_an_expired_a_foreign_and_a_homemade_certificate_end_the_handshake(
    secure: Secure, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    foreign = Authority(tmp_path / "other")  # of the same name
    assert secure.refuses_the_handshake_of(secure.authority.issue("CN=device-0001", ended=True))
    assert secure.refuses_the_handshake_of(foreign.issue("CN=device-0001"))
    assert not secure.refuses_the_handshake_of(secure.authority.issue("CN=device-0001"))


@pytest.mark.parametrize(
    "subject", ["O=acme", "CN=a b", "CN=one,CN=two", "CN=device-0001,O=Acme Inc.", "CN=acme/one"]
)
def test_a_certificate_that_names_no_device_is_nobody_s(secure: Secure, subject: str) -> None:
    odd = secure.authority.issue(subject, name="odd")
    assert secure.post(odd, "device-0001").status_code == 401


def test_a_revoked_certificate_ends_the_handshake_and_what_is_open_already(secure: Secure) -> None:
    device, other = (secure.authority.issue(f"CN=device-000{n}") for n in (1, 2))
    with secure.client(device) as client:

        def answer() -> int:
            return client.post("/v1/telemetry/device-0001", content=b"{}").status_code

        assert answer() == 202
        secure.authority.revoke(device)
        until(lambda: answer() == 401, 10)
    secure.log.records.clear()
    until(lambda: secure.refuses_the_handshake_of(device), 10)
    assert secure.post(other, "device-0002").status_code == 202


def test_a_certificate_that_ends_ends_what_is_open(
    secure: Secure, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = secure.authority.issue("CN=device-0001")
    with secure.client(device) as client:
        assert client.post("/v1/telemetry/device-0001", content=b"{}").status_code == 202
        two_days_on_ns = time.time_ns() + 2 * 86_400 * 10**9
        monkeypatch.setattr("gateway.auth.authenticate.time.time_ns", lambda: two_days_on_ns)
        assert client.post("/v1/telemetry/device-0001", content=b"{}").status_code == 401


def test_a_renewed_certificate_is_shown_without_a_restart_and_a_broken_one_is_not(
    secure: Secure, secure_settings: GatewaySettings, caplog: pytest.LogCaptureFixture
) -> None:
    cert, key = secure_settings.tls_cert_file, secure_settings.tls_key_file
    assert cert
    assert key

    def shown() -> bytes:
        host, port = secure.served
        context = ssl.create_default_context(cafile=secure.authority.file)
        with (
            socket.create_connection((host, port), 10) as plain,
            context.wrap_socket(plain, server_hostname=host) as tls,
        ):
            return tls.getpeercert(binary_form=True) or b""

    first = shown()
    secure.authority.issue("CN=gateway", name="server")
    until(lambda: shown() != first, 10)
    renewed = shown()
    key.write_text("no key")
    os.utime(cert)
    until(lambda: shown() == renewed and "the changed ones fail" in caplog.text, 10)


class Resuming:
    """A device that goes on with the session that it had."""

    def __init__(self, secure: Secure, device: Issued, version: ssl.TLSVersion) -> None:
        self._context = ssl.create_default_context(cafile=secure.authority.file)
        self._context.minimum_version = self._context.maximum_version = version
        self._context.load_cert_chain(device.cert_file, device.key_file)
        self._at = secure.served
        self._session: ssl.SSLSession | None = None

    def is_a_stranger(self) -> bool:
        """Whether a session of its own, from the start, comes to nothing."""
        kept = self._session
        try:
            return self.post(None)[0] != b"202"
        except OSError:
            return True
        finally:
            self._session = kept

    def go_on(self) -> tuple[bytes, bool]:
        return self.post(self._session)

    def post(self, session: ssl.SSLSession | None) -> tuple[bytes, bool]:
        """The answer's status, and whether the session is that one."""
        host, port = self._at
        with (
            socket.create_connection((host, port), 10) as plain,
            self._context.wrap_socket(plain, server_hostname=host, session=session) as tls,
        ):
            tls.sendall(
                b"POST /v1/telemetry/device-0001 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
                b"Content-Length: 2\r\n\r\n{}"
            )
            answer = b"".join(iter(lambda: tls.recv(4096), b""))
            self._session = tls.session
            return answer[9:12], bool(tls.session_reused)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("changed", ["the CA", "the revocation list"])
def test_a_session_of_before_is_not_resumed_once_the_files_have_changed(
    secure: Secure, tmp_path: Path, version: ssl.TLSVersion, changed: str
) -> None:
    """A resumed one brings its certificate along, and nobody verifies it again."""
    device = secure.authority.issue("CN=device-0001")
    resuming = Resuming(secure, device, version)
    assert resuming.post(None) == (b"202", False)
    assert resuming.go_on() == (b"202", True)  # so the test would see it
    if changed == "the CA":
        (tmp_path / "other").mkdir()
        secure.authority.file.write_bytes(Authority(tmp_path / "other", "other").file.read_bytes())
    else:
        secure.authority.revoke(device)
    until(resuming.is_a_stranger, 10)
    secure.log.records.clear()
    found: object = None
    with contextlib.suppress(OSError):  # where it hears of it before the end
        found = resuming.go_on()
    assert found in (None, (b"", False))
    assert secure.log.records == []


def test_large_bodies_and_refusals_of_them_pass_through_tls(secure: Secure) -> None:
    device = secure.authority.issue("CN=device-0001")
    with secure.client(device) as client:
        for size_bytes, status in ((1_000_000, 202), (3_000_000, 413), (1_000_000, 202)):
            body = b"x" * size_bytes
            answer = client.post("/v1/telemetry/device-0001", content=body)
            assert answer.status_code == status
    assert [len(record.value) for record in secure.log.records] == [1_000_000] * 2


def test_tls_1_2_is_spoken_and_nothing_older(
    secure: Secure, secure_settings: GatewaySettings
) -> None:
    context = ssl.create_default_context(cafile=secure.authority.file)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with httpx.Client(verify=context, timeout=10) as client:
        assert client.get(secure.url("/livez")).status_code == 200
    handshake = ServerTls(secure_settings).context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), True)
    assert handshake.context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_a_handshake_that_does_not_come_ends_the_connection(
    secure_settings: GatewaySettings, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.server.server._HANDSHAKE_S", 0.3)
    with serving(gateway, secure_settings) as served, served.connect() as silent:
        assert silent.recv(1) == b""


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"tls_cert_file": "a"}, "HEADRACE_TLS_CERT_FILE is set, and is of no use without HEADR"),
        ({"tls_crl_file": "a"}, "HEADRACE_TLS_CRL_FILE is set, and is of no use without HEADRACE"),
        ({"auth": "mtls"}, "HEADRACE_AUTH=mtls and HEADRACE_TLS_CLIENT_CA_FILE go together"),
        (
            {"tls_cert_file": "a", "tls_key_file": "a", "tls_client_ca_file": "a"},
            "HEADRACE_AUTH=mtls and HEADRACE_TLS_CLIENT_CA_FILE go together",
        ),
    ],
)
def test_settings_that_do_not_go_together_are_told(given: dict[str, Any], says: str) -> None:
    with pytest.raises(WRONG_SETTINGS) as raised:
        GatewaySettings(**given)
    assert isinstance(raised.value, Exception)
    assert explain(raised.value).startswith(says)


def test_files_that_tls_cannot_use_are_told(
    secure_settings: GatewaySettings, tmp_path: Path
) -> None:
    odd = secure_settings.model_copy(update={"tls_key_file": tmp_path / "nowhere"})
    app: Any = None
    with pytest.raises(WrongSetting, match=r"HEADRACE_TLS_KEY_FILE.*: TLS cannot use them"):
        server_config(app, odd)
