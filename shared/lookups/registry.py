"""The schema registry that payloads in Avro may name their schemas of, asked as any look-up: by
Confluent's protocol, which others speak, too."""

from base64 import b64encode
from typing import Any, NotRequired

from typing_extensions import TypedDict

from shared.lookups.http_lookup import KEY, HttpLookup

REGISTRY = "schema_registry"
UNSET = "HEADRACE_SCHEMA_REGISTRY_URL is not set, and the payload names its schema of a registry"
_SCHEMA_BYTES_MAX = 1024 * 1024


class Registered(TypedDict):
    schema: str
    schemaType: NotRequired[str]
    references: NotRequired[list[Any]]


def registry_lookup(url: str, username: str, password: str) -> HttpLookup:
    basic = b64encode(f"{username}:{password}".encode()).decode()
    return HttpLookup(
        REGISTRY,
        f"{url.rstrip('/')}/schemas/ids/{KEY}",
        answer=Registered,
        headers={"authorization": f"Basic {basic}"} if username else {},
        within_s=5,
        answer_bytes_max=_SCHEMA_BYTES_MAX,
    )
