"""How gateways among which states are divided reach and know each other."""

import re
from pathlib import Path
from ssl import VERIFY_X509_PARTIAL_CHAIN, SSLContext, create_default_context
from typing import Annotated, ClassVar, NoReturn
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr
from pydantic.config import JsonDict

from shared.settings.access import AccessSettings, has_host, is_loopback
from shared.settings.all_parts import READ_BY
from shared.settings.wrong_setting import WrongSetting, variable

ORIGIN = re.compile(r"https?://[a-z0-9.\-\[\]:]*[a-z0-9\]]")
PEER_TOKEN = "peers.token"  # in the state folder of a local stack
_VISIBLE = re.compile(r"[!-~]+")
_GATEWAY: JsonDict = {READ_BY: "gateway"}


def _peer(url: str | None) -> str | None:
    if url is not None and not (ORIGIN.fullmatch(url) and has_host(url)):
        raise ValueError("write http:// or https://, a host in lower case, a port, and no path")
    return url


class PeerSettings(AccessSettings):
    READ_BY: ClassVar[str] = "gateway, desk"  # which asks gateways for states

    state_copies: int = Field(
        0,
        ge=0,
        description="By how many gateways each state is held; the others ask these. 0: each one "
        "holds all states (docs/operations.md#states-on-several-gateways)",
    )
    peer_url: Annotated[str | None, AfterValidator(_peer)] = Field(
        None,
        description="How other gateways reach this one, such as `http://10.0.0.5:8000`, where "
        "states are divided",
        json_schema_extra=_GATEWAY,
    )
    peer_token: SecretStr | None = Field(
        None,
        description="Token, the same for all gateways, by which they know each other",
    )
    peer_token_file: Path | None = Field(None, description="File that contains that token")
    peer_ca_file: Path | None = Field(
        None,
        description="PEM file with the CA of the gateways' certificates; without it, the machine's "
        "CAs are trusted",
    )

    @property
    def peer_secret(self) -> str:
        """WrongSetting where there is none, or its file cannot be read."""
        made = self.state_dir / PEER_TOKEN
        try:
            secret = self._secret("peer_token").strip()
            if not secret and made.exists():
                secret = made.read_text().strip()
        except UnicodeDecodeError as error:
            raise WrongSetting(f"{variable('peer_token')}: {str(made)!r} is no text") from error
        except (OSError, ValueError) as error:
            raise WrongSetting(str(error)) from error
        if not secret:
            self._needed("peer_token")
        if not _VISIBLE.fullmatch(secret):
            raise WrongSetting(f"{variable('peer_token')} has more than ASCII without spaces")
        return secret

    @property
    def own_peer_url(self) -> str:
        """WrongSetting where there is none."""
        return self.peer_url or self._needed("peer_url")

    def check_peers(self, *, is_gateway: bool) -> None:
        """WrongSetting where what states that are divided need is not there."""
        if self.state_copies:
            _ = self.peer_secret, self.peer_tls(self.own_peer_url if is_gateway else "")

    @property
    def host_names(self) -> frozenset[str]:
        """Other gateways may call this one by a name."""
        names = super().host_names
        host = urlsplit(self.peer_url).hostname if self.peer_url else None
        return names | {host} if host else names

    def _needed(self, name: str) -> NoReturn:
        raise WrongSetting(
            f"{variable('state_copies')} divides states among gateways, which ask each other: set "
            f"{variable(name)}, too"
        )

    def peer_tls(self, url: str = "") -> SSLContext:
        """For gateways at such an address. On this machine they may have the certificate of this
        one, whatever name it is for. WrongSetting where a file cannot be read."""
        file, is_own = self.peer_ca_file, False
        if file is None and is_loopback(urlsplit(url).hostname or ""):
            file, is_own = self.tls_cert_file, self.tls_cert_file is not None
        try:
            context = create_default_context(cafile=file)
        except OSError as error:
            name = variable("tls_cert_file" if is_own else "peer_ca_file")
            raise WrongSetting(f"{name}={str(file)!r} cannot be read: {error}") from error
        if is_own:
            context.check_hostname = False
            context.verify_flags |= VERIFY_X509_PARTIAL_CHAIN
        return context
