"""A fresh secret, as its owner gets it and as the topic does."""

from typing import Literal, NamedTuple

from gateway.auth.secret_box import SecretBox
from gateway.auth.signature import make_signing_key
from gateway.auth.token import make_token
from local_stack.machine.settings_check import gateway_settings
from local_stack.terminal.errors import StackError
from shared.settings import WrongSetting


class NewSecret(NamedTuple):
    key_id: str
    name: str
    text: str
    proof: bytes
    use: str


def new_secret(kind: Literal["token", "hmac"]) -> NewSecret:
    if kind == "token":
        token = make_token()
        use = f"Send it as:  Authorization: Bearer {token.text}"
        return NewSecret(token.key_id, "token", token.text, token.proof, use)
    key = make_signing_key(_box())
    return NewSecret(
        key.key_id, "secret", key.secret, key.proof, "docs/security.md shows how to sign with it."
    )


def _box() -> SecretBox:
    settings = gateway_settings()
    if not (settings.credentials_key or settings.credentials_key_file):
        raise StackError(
            "a signing secret is sealed before it is written, and there is no key for that",
            "set HEADRACE_CREDENTIALS_KEY or HEADRACE_CREDENTIALS_KEY_FILE as for the gateway",
        )
    try:
        return SecretBox.of(settings)
    except WrongSetting as error:
        raise StackError(str(error), "use the gateway's own key") from error
