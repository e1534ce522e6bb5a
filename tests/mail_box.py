"""A real mail server for tests, which takes and refuses as a test says."""

import asyncio
import re
from collections.abc import Iterator
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any, Self

from aiosmtpd.controller import Controller

from local_stack.machine.ports import free_port


class MailBox:
    """What the server has taken, and what it says in place of taking it."""

    def __init__(self, **options: Any) -> None:
        self.taken: list[EmailMessage] = []
        self.says = "250 taken"
        self.says_of_recipient = ""
        self.after_s = 0.0
        self._controller = Controller(self, hostname="127.0.0.1", port=free_port(), **options)

    def url(self, scheme: str = "smtp+plain", user: str = "") -> str:
        return f"{scheme}://{user}127.0.0.1:{self._controller.port}"

    def events(self) -> Iterator[str]:
        """The ids of all that it has got."""
        for one in list(self.taken):
            yield from re.findall(r"\(event (\S+)\)", one.get_content())

    def __enter__(self) -> Self:
        self._controller.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._controller.stop()

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
