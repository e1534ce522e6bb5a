"""Mails to a real mail server, which takes and refuses as a test says."""

import asyncio
import ssl
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import AuthResult

from clients.mail.send import MailServer
from shared.forwarding.answer import Answer, HookVerdict
from shared.forwarding.mail_access import MailAccess, mail_access
from tests.certificates import Authority
from tests.mail_box import MailBox

pytestmark = pytest.mark.slow


@pytest.fixture
def box() -> Iterator[MailBox]:
    with MailBox() as box:
        yield box


def _access(box: MailBox, scheme: str, user: str = "", password: str = "") -> MailAccess:
    return mail_access(box.url(scheme, user), password, "headrace@example.org")


def a_mail() -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"] = "headrace@example.org", "ops@example.org"
    message["Subject"] = "[ops] reading of device-0001"
    message.set_content("value  31.5 °C", cte="quoted-printable")
    return message


def send(box: MailBox, timeout_s: float = 5.0) -> Answer:
    return _send(_access(box, "smtp+plain"), timeout_s)


def _send(access: MailAccess, timeout_s: float = 5.0) -> Answer:
    return asyncio.run(MailServer(access).send(a_mail(), timeout_s))


def test_a_mail_that_is_taken_is_done(box: MailBox) -> None:
    answer = send(box)
    assert (answer.status, answer.verdict) == (250, HookVerdict.DONE)
    (taken,) = box.taken
    assert taken["Subject"] == "[ops] reading of device-0001"
    assert taken.get_content().strip() == "value  31.5 °C"


def test_a_refusal_is_told_in_the_words_of_the_server(box: MailBox) -> None:
    box.says = "451 try later"
    answer = send(box)
    assert (answer.status, answer.said, answer.verdict) == (451, "try later", HookVerdict.FAILED)
    box.says_of_recipient = "550 no such user"
    answer = send(box)
    assert (answer.status, answer.said) == (550, "no such user")
    assert answer.is_of_the_target
    assert not box.taken


def test_a_server_that_hangs_is_no_answer_in_time(box: MailBox) -> None:
    box.after_s = 1.5
    answer = send(box, 0.3)
    assert answer.status is None
    assert 250 <= answer.ms < 1_200


def test_a_server_that_is_away_is_no_answer() -> None:
    answer = _send(mail_access("smtp+plain://127.0.0.1:9", "", "headrace@example.org"))
    assert (answer.status, answer.verdict) == (None, HookVerdict.FAILED)
    assert "refused" in answer.said


def test_a_server_without_starttls_gets_neither_password_nor_mail(box: MailBox) -> None:
    answer = _send(_access(box, "smtp", "ops@", "secret"))
    assert answer.status is None
    assert "STARTTLS" in answer.said
    assert not box.taken


@pytest.fixture
def with_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MailBox]:
    """One that takes mails of those alone who have logged in by TLS."""
    authority = Authority(tmp_path)
    issued = authority.issue("CN=mail")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(issued.cert_file, issued.key_file)

    def logs_in(_server: Any, _session: Any, _envelope: Any, _mechanism: str, given: Any) -> Any:
        is_right = (given.login, given.password) == (b"ops", b"secret")
        return AuthResult(success=is_right, handled=is_right)

    options = {"authenticator": logs_in, "auth_required": True}
    with MailBox(tls_context=tls, require_starttls=True, **options) as box:
        yield box


def test_it_logs_in_once_the_line_is_encrypted(with_login: MailBox) -> None:
    assert _send(_access(with_login, "smtp", "ops@", "secret")).status == 250
    assert len(with_login.taken) == 1
    wrong = _send(_access(with_login, "smtp", "ops@", "wrong"))
    assert (wrong.status, wrong.verdict) == (535, HookVerdict.FAILED)


def test_a_certificate_that_nobody_trusts_gets_nothing(
    with_login: MailBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    answer = _send(_access(with_login, "smtp", "ops@", "secret"))
    assert answer.status is None
    assert "CERTIFICATE_VERIFY_FAILED" in answer.said
    assert not with_login.taken
