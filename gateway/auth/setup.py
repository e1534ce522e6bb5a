"""The ways to ask that the settings choose, put together."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from gateway.auth.authenticate import CredentialAuthenticator
from gateway.auth.credential_feed import CredentialFeed
from gateway.auth.credentials import Credentials
from gateway.auth.json_web_token import JsonWebTokens
from gateway.auth.jwt_keys import JwtKeys
from gateway.auth.mtls import Revoked
from gateway.auth.nonces import Nonces
from gateway.auth.signature import Signatures
from shared.settings import GatewaySettings
from shared.settings.secret_box import SecretBox

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 1.0


class KeptUpToDate:
    """Looks again and again, in a thread: what is changed outside counts within seconds."""

    def __init__(self, looks: Sequence[Callable[[], None]]) -> None:
        self._looks = looks
        self._loop: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._look()  # before the first request
        self._loop = asyncio.create_task(self._follow())

    async def stop(self) -> None:
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.wait((self._loop,))

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            await asyncio.to_thread(self._look)

    def _look(self) -> None:
        for look in self._looks:
            try:
                look()
            except Exception:
                log.exception("could not look for changed credentials")


def known_callers(settings: GatewaySettings) -> tuple[CredentialAuthenticator, KeptUpToDate]:
    """WrongSetting where a file that they name is not what it should be."""
    credentials = Credentials()
    looks = [CredentialFeed(settings.state_dir, credentials).look]
    signatures = tokens_of_others = None
    if "hmac" in settings.ways_to_ask:
        nonces = Nonces.kept_in(settings.state_dir)
        signatures = Signatures(credentials, SecretBox.of(settings), nonces)
    if "jwt" in settings.ways_to_ask:
        assert settings.jwt_keys_file is not None
        keys = JwtKeys(settings.jwt_keys_file, settings.jwt_algorithms.split(","))
        tokens_of_others = JsonWebTokens(
            keys, settings.jwt_issuer or "", settings.jwt_audience or ""
        )
        looks.append(keys.look)
    revoked = None
    if "mtls" in settings.ways_to_ask:
        revoked = Revoked(settings.tls_crl_file)
        looks.append(revoked.look)
    tokens = "token" in settings.ways_to_ask
    known = CredentialAuthenticator(credentials, tokens, signatures, tokens_of_others, revoked)
    return known, KeptUpToDate(looks)
