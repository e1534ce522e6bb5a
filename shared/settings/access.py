"""Who may reach the gateway and the desk, how they show who they are, and TLS."""

import re
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, model_validator
from pydantic.config import JsonDict

from shared.settings.all_parts import READ_BY, Settings
from shared.settings.wrong_setting import variable

_GATEWAY_AND_CREDENTIALS: JsonDict = {READ_BY: "gateway, desk, `credentials`"}
_WAYS_TO_ASK = ("token", "hmac", "jwt", "mtls")


def _ways(text: str) -> str:
    ways = text.split(",")
    if ways != ["none"] and not set(ways) <= set(_WAYS_TO_ASK):
        raise ValueError(f"write none, or one or more of {', '.join(_WAYS_TO_ASK)} with commas")
    return text


_NAME = r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?"
_HOST_NAME = re.compile(rf"{_NAME}(\.{_NAME})*")


def _hosts(text: str) -> str:
    names = text.lower()
    if names != "none" and not all(map(_HOST_NAME.fullmatch, names.split(","))):
        raise ValueError("write none, or names such as gateway.example with commas, without a port")
    return names


def is_loopback(host: str) -> bool:
    """Nobody but this machine reaches it. Any other name than localhost may be another's."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def has_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


class AccessSettings(Settings):
    READ_BY: ClassVar[str] = "gateway, desk"

    auth: Annotated[str, AfterValidator(_ways)] = Field(
        "none",
        description="Ways to authenticate: `token`, `hmac`, `jwt`, `mtls`, or several of them "
        "with commas (docs/security.md)",
    )
    open: Literal["no", "yes-anyone-may-write"] = Field(
        "no",
        description="`yes-anyone-may-write` lets other machines reach a gateway or desk without "
        "authentication; otherwise it does not start on such an address",
    )
    hosts: Annotated[str, AfterValidator(_hosts)] = Field(
        "none",
        description="Without authentication: names, with commas, that the `Host` header may have "
        "besides `localhost` and addresses",
    )
    credentials_key: SecretStr | None = Field(
        None,
        description="64 hex digits that seal the signing secrets; `hmac` needs this or the file",
        json_schema_extra=_GATEWAY_AND_CREDENTIALS,
    )
    credentials_key_file: Path | None = Field(
        None, description="File that contains that key", json_schema_extra=_GATEWAY_AND_CREDENTIALS
    )
    jwt_keys_file: Path | None = Field(
        None,
        description="Keys that JWTs may be signed with: a JWK set, or a public key as PEM. `jwt` "
        "needs it; changes take effect within seconds",
    )
    jwt_issuer: str | None = Field(None, description="`iss` that a JWT must have; `jwt` needs it")
    jwt_audience: str | None = Field(None, description="`aud` that a JWT must have; `jwt` needs it")
    jwt_algorithms: str = Field("RS256,ES256", description="Algorithms that the keys may be for")
    # TLS of its own ports
    tls_cert_file: Path | None = Field(
        None,
        description="PEM certificate with its chain; the ports then speak TLS 1.2 or newer "
        "(docs/security.md#tls-and-device-certificates)",
    )
    tls_key_file: Path | None = Field(None, description="PEM key of that certificate")
    tls_client_ca_file: Path | None = Field(
        None,
        description="PEM file with the CA of the devices' certificates; goes with "
        "`HEADRACE_AUTH=mtls`",
    )
    tls_crl_file: Path | None = Field(None, description="PEM file with the revocation lists")

    @property
    def ways_to_ask(self) -> frozenset[str]:
        """Empty: nobody is asked for a credential."""
        return frozenset(self.auth.split(",")) - {"none"}

    @model_validator(mode="after")
    def _who_is_asking_can_be_known(self) -> Self:
        for name in ("jwt_keys_file", "jwt_issuer", "jwt_audience"):
            if "jwt" in self.ways_to_ask and not getattr(self, name):
                raise ValueError(f"{variable(name)} is not set, and HEADRACE_AUTH=jwt needs it")
        if "hmac" in self.ways_to_ask and not (self.credentials_key or self.credentials_key_file):
            raise ValueError(
                "HEADRACE_AUTH=hmac needs the key that its secrets are sealed with: set "
                "HEADRACE_CREDENTIALS_KEY or HEADRACE_CREDENTIALS_KEY_FILE"
            )
        return self

    @property
    def host_names(self) -> frozenset[str]:
        return frozenset(self.hosts.split(",")) - {"none"}

    @model_validator(mode="after")
    def _certificates_can_be_asked_for(self) -> Self:
        for one, needed in (
            ("tls_key_file", "tls_cert_file"),
            ("tls_cert_file", "tls_key_file"),
            ("tls_client_ca_file", "tls_cert_file"),
            ("tls_crl_file", "tls_client_ca_file"),
        ):
            if getattr(self, one) and not getattr(self, needed):
                raise ValueError(
                    f"{variable(one)} is set, and is of no use without {variable(needed)}"
                )
        if ("mtls" in self.ways_to_ask) != (self.tls_client_ca_file is not None):
            raise ValueError(
                "HEADRACE_AUTH=mtls and HEADRACE_TLS_CLIENT_CA_FILE go together: one of them is "
                "missing"
            )
        return self
