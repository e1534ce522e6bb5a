"""TLS of the gateway's own ports, from files that may be replaced while it runs."""

import logging
import ssl
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from gateway.http.file_state import file_state
from shared.settings import GatewaySettings, WrongSetting

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 1.0
_FILES = ("tls_cert_file", "tls_key_file", "tls_client_ca_file", "tls_crl_file")


def named_files(settings: GatewaySettings, names: Iterable[str]) -> dict[str, Path]:
    """Those that the settings name."""
    files = {name: getattr(settings, name) for name in names}
    return {name: file for name, file in files.items() if file is not None}


class _ReloadingContext(ssl.SSLContext):
    """What a listener keeps: it begins each handshake with the context of that moment. That one has
    its own keys for tickets and its own sessions: one that was verified by other files is unknown
    to it, so its client shows its certificate again."""

    newest: Callable[[], ssl.SSLContext]

    def wrap_bio(self, *given: Any, **named: Any) -> ssl.SSLObject:
        return self.newest().wrap_bio(*given, **named)


class ServerTls:
    """`context` is for the listener; each handshake gets what the files hold by then."""

    def __init__(self, settings: GatewaySettings) -> None:
        """WrongSetting where TLS cannot use them."""
        self._files = named_files(settings, _FILES)
        self._seen = self._signature()
        self._looked_at_s = time.monotonic()
        try:
            self._newest = self._make()
        except (OSError, ValueError) as error:  # ssl's own are OSErrors
            names = ", ".join(f"HEADRACE_{name.upper()}" for name in self._files)
            raise WrongSetting(f"{names}: TLS cannot use them: {error}") from None
        self.context = _ReloadingContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.newest = self._choose

    def _choose(self) -> ssl.SSLContext:
        if time.monotonic() - self._looked_at_s >= _LOOK_EVERY_S:
            self._looked_at_s = time.monotonic()
            self._look()
        return self._newest

    def _look(self) -> None:
        seen = self._signature()
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._newest = self._make()
            log.info("TLS goes on with the changed files")
        except (OSError, ValueError) as error:
            log.error("TLS goes on with the files as they were; the changed ones fail: %s", error)

    def _make(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(
            self._files["tls_cert_file"], self._files.get("tls_key_file"), password=lambda: ""
        )
        client_ca = self._files.get("tls_client_ca_file")
        if client_ca is not None:
            # whoever has none may be known in another way; a wrong one ends the handshake
            context.verify_mode = ssl.CERT_OPTIONAL
            context.load_verify_locations(client_ca)
        crl = self._files.get("tls_crl_file")
        if crl is not None:
            context.load_verify_locations(crl)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        return context

    def _signature(self) -> list[Any]:
        return [file_state(file) for file in self._files.values()]
