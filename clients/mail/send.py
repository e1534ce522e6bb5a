"""Hands a mail to the server.

By the standard library's client, whose calls block: in threads of their own, so that a mail server
that hangs holds up no request of a webhook. A connection a mail: there are few.
"""

import asyncio
import smtplib
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from email.message import EmailMessage

from shared.forwarding.answer import Answer
from shared.forwarding.mail_access import MailAccess

_AT_ONCE = 8
_SAID_MAX = 256
_TAKEN = 250


class MailServer:
    def __init__(self, access: MailAccess) -> None:
        self._access = access
        self._tls = ssl.create_default_context()
        self._threads = ThreadPoolExecutor(_AT_ONCE, "mail")

    async def send(self, message: EmailMessage, timeout_s: float) -> Answer:
        """Its status is that of SMTP: 250 where the mail is taken."""
        began_s = time.monotonic()
        sending = asyncio.get_running_loop().run_in_executor(
            self._threads, self._send, message, timeout_s
        )
        try:
            # beside the time of each call: a server may be slow at all of them
            status, said = await asyncio.wait_for(sending, timeout_s)
        except TimeoutError:
            status, said = None, f"no answer within {timeout_s:g} s"
        return Answer(status, int((time.monotonic() - began_s) * 1000), said)

    def _send(self, message: EmailMessage, timeout_s: float) -> tuple[int | None, str]:
        try:
            with closing(self._client(timeout_s)) as client:
                self._log_in(client)
                client.send_message(message)
                client.putcmd("quit")  # nobody waits for its answer: the mail is taken
        except smtplib.SMTPRecipientsRefused as error:
            ((status, said),) = error.recipients.values()
            return status, _text(said)
        except smtplib.SMTPResponseException as error:
            return error.smtp_code, _text(error.smtp_error)
        except (smtplib.SMTPException, OSError, ValueError) as error:
            return None, f"{type(error).__name__}: {error}"[:_SAID_MAX]
        return _TAKEN, "taken"

    def _client(self, timeout_s: float) -> smtplib.SMTP:
        host, port = self._access.host, self._access.port
        if self._access.security == "smtps":
            return smtplib.SMTP_SSL(host, port, timeout=timeout_s, context=self._tls)
        return smtplib.SMTP(host, port, timeout=timeout_s)

    def _log_in(self, client: smtplib.SMTP) -> None:
        if self._access.security == "smtp":
            client.starttls(context=self._tls)
        if self._access.user:
            client.login(self._access.user, self._access.password)


def _text(said: bytes | str) -> str:
    text = said.decode(errors="replace") if isinstance(said, bytes) else said
    return text[:_SAID_MAX]
