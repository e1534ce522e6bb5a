"""The settings of the desk, where they are not the gateway's."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal, NamedTuple, Self, cast, get_args
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, model_validator

from shared.settings.access import AccessSettings, has_host, is_loopback
from shared.settings.wrong_setting import WrongSetting, variable

_May = Literal["look", "operate", "administer"]
ANYBODY = "*"  # in place of a group: all whom the provider knows
_URL = re.compile(r"https?://[^/\s?#@]+(/[^\s?#]*)?")


def _url(text: str | None) -> str | None:
    if text is not None and not (_URL.fullmatch(text) and has_host(text)):
        raise ValueError("write a URL such as http://gateway:8080/health, without user or query")
    return text


def _roles(text: str) -> str:
    roles_of(text)
    return text


def roles_of(text: str) -> Mapping[str, _May]:
    found: dict[str, _May] = {}
    for one in () if text == "none" else text.split(","):
        group, equals, may = one.strip().rpartition("=")
        if not (group and equals) or may not in get_args(_May):
            raise ValueError(
                "write none, or GROUP=look, GROUP=operate, GROUP=administer with commas; "
                f"{ANYBODY}=look is for everybody whom the provider knows"
            )
        found[group] = cast(_May, may)
    return found


class SignIn(NamedTuple):
    """At an identity provider."""

    issuer: str
    client_id: str
    client_secret: str
    desk_url: str
    scopes: str
    claim: str
    roles: Mapping[str, _May]
    hold_s: float


class DeskSettings(AccessSettings):
    READ_BY: ClassVar[str] = "desk"

    desk_host: str = Field("127.0.0.1", description="Address that the desk's pages listen on")
    desk_port: int = Field(8081, ge=0, le=65535, description="Port of the desk's pages")
    desk_health_url: Annotated[str | None, AfterValidator(_url)] = Field(
        None,
        description="Where the desk asks for the gateway's `/health`, which its page of the flow "
        "shows. Without it: on its own machine, by the gateway's settings",
    )
    desk_health_token: SecretStr | None = Field(
        None,
        description="An operator's token for that, in place of the one of whoever looks; an "
        "operator who has signed in at a provider has none",
    )
    desk_health_token_file: Path | None = Field(None, description="File that contains that token")
    # sign-in at an identity provider (docs/security.md#signing-in-with-openid-connect)
    desk_url: Annotated[str | None, AfterValidator(_url)] = Field(
        None,
        description="Where browsers reach the desk, such as `https://desk.example.org`; sign-in at "
        "a provider needs it",
    )
    oidc_issuer: Annotated[str | None, AfterValidator(_url)] = Field(
        None,
        description="OpenID Connect provider that operators may sign in at, as it calls itself",
    )
    oidc_client_id: str | None = Field(None, description="What the desk is called there")
    oidc_client_secret: SecretStr | None = Field(None, description="The desk's secret there")
    oidc_client_secret_file: Path | None = Field(None, description="File that contains it")
    oidc_scopes: str = Field(
        "openid,email,profile", description="Scopes, with commas, that the desk asks for"
    )
    oidc_claim: str = Field("groups", description="Claim of the ID token that has the groups")
    oidc_roles: Annotated[str, AfterValidator(_roles)] = Field(
        "none",
        description="Which group may what: `headrace-admins=administer,ops=operate,*=look`. Of "
        "several the most counts; who is in none does not come in",
    )
    oidc_session_s: float = Field(
        28_800.0, gt=0, description="How long who has signed in there is in"
    )

    @property
    def sign_in(self) -> SignIn | None:
        """WrongSetting where the file of its secret cannot be read, which only the desk has."""
        if self.oidc_issuer is None:
            return None
        return SignIn(
            self.oidc_issuer,
            self.oidc_client_id or "",
            self._secret_of_desk("oidc_client_secret"),
            (self.desk_url or "").rstrip("/"),
            self.oidc_scopes.replace(",", " "),
            self.oidc_claim,
            roles_of(self.oidc_roles),
            self.oidc_session_s,
        )

    @property
    def health_token(self) -> str:
        """Empty: that of whoever looks. WrongSetting as above."""
        return self._secret_of_desk("desk_health_token")

    def _secret_of_desk(self, name: str) -> str:
        try:
            return self._secret(name)
        except ValueError as error:
            raise WrongSetting(str(error)) from error

    @model_validator(mode="after")
    def _operators_can_sign_in(self) -> Self:
        if self.oidc_issuer is None:
            if self.oidc_client_id or self.oidc_roles != "none":
                raise ValueError(f"{variable('oidc_issuer')} is not set: who knows the operators?")
            return self
        for name in ("oidc_client_id", "desk_url"):
            if not getattr(self, name):
                raise ValueError(f"{variable(name)} is not set, and sign-in needs it")
        if not self.ways_to_ask:
            raise ValueError(
                f"{variable('oidc_issuer')} is set, and HEADRACE_AUTH=none lets everybody in "
                "without it: set HEADRACE_AUTH=token"
            )
        if not roles_of(self.oidc_roles):
            raise ValueError(f"{variable('oidc_roles')} lets nobody in: say which group may what")
        for name in ("oidc_issuer", "desk_url"):
            parts = urlsplit(getattr(self, name))
            if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
                raise ValueError(
                    f"{variable(name)} cannot be: it would be read in transit: https://"
                )
        if "openid" not in self.oidc_scopes.split(","):
            raise ValueError(f"{variable('oidc_scopes')} needs `openid`")
        return self
