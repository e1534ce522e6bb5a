"""The table of credentials, as the view on disk has it, which follows their topic.

So a gateway knows who may ask as soon as it has ever known it, with Kafka and PostgreSQL down.
"""

import logging
from pathlib import Path

from gateway.auth.credentials import Credential, Credentials, from_record
from gateway.state_view.reader import StateView
from shared.topic_names import CREDENTIAL_TOPIC

log = logging.getLogger(__name__)


class CredentialFeed:
    def __init__(self, state_dir: Path, credentials: Credentials) -> None:
        self._state_dir = state_dir
        self._credentials = credentials
        self._mark: object = None
        self._known: dict[bytes, tuple[bytes, Credential | None]] = {}

    def look(self) -> None:
        """Blocks, for as long as a million rows may take."""
        view = StateView(self._state_dir)  # a connection stays in the thread that made it
        try:
            mark = view.mark(CREDENTIAL_TOPIC)
            if mark == self._mark:
                return
            # what is written between the two reads has another mark at the next look
            values = view.values_if_warm(CREDENTIAL_TOPIC)
        finally:
            view.close()
        if values is None:
            return  # what was known before still holds
        self._known = {key: self._read(key, value) for key, value in values.items()}
        self._credentials.replace({k: found for k, (_, found) in self._known.items() if found})
        self._mark = mark

    def _read(self, key: bytes, value: bytes) -> tuple[bytes, Credential | None]:
        known = self._known.get(key)
        if known is not None and known[0] == value:
            return known
        try:
            return value, from_record(value)
        except ValueError as error:
            log.error("credential %r lets nobody in: %s", key.decode(errors="replace"), error)
            return value, None
