"""Mails to a real mail server, which takes and refuses as a test says."""

import asyncio
import ssl
from collections.abc import Iterator
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from clients.mail.send import MailServer
from shared.forwarding.answer import Answer, Verdict
from shared.mail_access import MailAccess, mail_access
from tests.certificates import Authority
from tests.gateway.support import free_port

pytestmark = pytest.mark.slow


class Box:
    """What the server has taken, and what it says in place of taking it."""

    def __init__(self) -> None:
        self.taken: list[EmailMessage] = []
        self.says = "250 taken"
        self.says_of_recipient = ""
        self.after_s = 0.0

    async def handle_RCPT(  # noqa: N802 - the library's name
        self, _server: Any, _session: Any, envelope: Any, address: str, _options: Any
    ) -> str:
        if not self.says_of_recipient:
            envelope.rcpt_tos.append(address)
        return self.says_of_recipient or "250 OK"

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
        await asyncio.sleep(self.after_s)
        if self.says.startswith("250"):
            found = message_from_bytes(envelope.content, policy=default)
            assert isinstance(found, EmailMessage)
            self.taken.append(found)
        return self.says


@pytest.fixture
def box() -> Box:
    return Box()


@pytest.fixture
def server(box: Box) -> Iterator[MailAccess]:
    controller = Controller(box, hostname="127.0.0.1", port=free_port())
    controller.start()
    yield _access("smtp+plain", controller)
    controller.stop()


def _access(scheme: str, controller: Controller, user: str = "", password: str = "") -> MailAccess:
    url = f"{scheme}://{user}127.0.0.1:{controller.port}"
    return mail_access(url, password, "headrace@example.org")


def a_mail() -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"] = "headrace@example.org", "ops@example.org"
    message["Subject"] = "[ops] reading of device-0001"
    message.set_content("value  31.5 °C", cte="quoted-printable")
    return message


def send(access: MailAccess, timeout_s: float = 5.0) -> Answer:
    return asyncio.run(MailServer(access).send(a_mail(), timeout_s))


def test_a_mail_that_is_taken_is_done(server: MailAccess, box: Box) -> None:
    answer = send(server)
    assert (answer.status, answer.verdict) == (250, Verdict.DONE)
    (taken,) = box.taken
    assert taken["Subject"] == "[ops] reading of device-0001"
    assert taken.get_content().strip() == "value  31.5 °C"


def test_a_refusal_is_told_in_the_words_of_the_server(server: MailAccess, box: Box) -> None:
    box.says = "451 try later"
    answer = send(server)
    assert (answer.status, answer.said, answer.verdict) == (451, "try later", Verdict.FAILED)
    box.says_of_recipient = "550 no such user"
    answer = send(server)
    assert (answer.status, answer.said) == (550, "no such user")
    assert answer.is_of_the_target
    assert not box.taken


def test_a_server_that_hangs_is_no_answer_in_time(server: MailAccess, box: Box) -> None:
    box.after_s = 1.5
    answer = send(server, 0.3)
    assert answer.status is None
    assert 250 <= answer.ms < 1_200


def test_a_server_that_is_away_is_no_answer() -> None:
    answer = send(mail_access("smtp+plain://127.0.0.1:9", "", "headrace@example.org"))
    assert (answer.status, answer.verdict) == (None, Verdict.FAILED)
    assert "refused" in answer.said


def test_a_server_without_starttls_gets_neither_password_nor_mail(
    server: MailAccess, box: Box
) -> None:
    access = mail_access(f"smtp://ops@127.0.0.1:{server.port}", "secret", "headrace@example.org")
    answer = send(access)
    assert answer.status is None
    assert "STARTTLS" in answer.said
    assert not box.taken


@pytest.fixture
def with_login(
    box: Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Controller]:
    """One that takes mails of those alone who have logged in by TLS."""
    authority = Authority(tmp_path)
    issued = authority.issue("CN=mail")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(issued.cert_file, issued.key_file)

    def logs_in(_server: Any, _session: Any, _envelope: Any, _mechanism: str, given: Any) -> Any:
        is_right = (given.login, given.password) == (b"ops", b"secret")
        return AuthResult(success=is_right, handled=is_right)

    controller = Controller(
        box,
        hostname="127.0.0.1",
        port=free_port(),
        tls_context=tls,
        require_starttls=True,
        authenticator=logs_in,
        auth_required=True,
    )
    controller.start()
    yield controller
    controller.stop()


def test_it_logs_in_once_the_line_is_encrypted(with_login: Controller, box: Box) -> None:
    assert send(_access("smtp", with_login, "ops@", "secret")).status == 250
    assert len(box.taken) == 1
    wrong = send(_access("smtp", with_login, "ops@", "wrong"))
    assert (wrong.status, wrong.verdict) == (535, Verdict.FAILED)


def test_a_certificate_that_nobody_trusts_gets_nothing(
    with_login: Controller, box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    answer = send(_access("smtp", with_login, "ops@", "secret"))
    assert answer.status is None
    assert "CERTIFICATE_VERIFY_FAILED" in answer.said
    assert not box.taken
