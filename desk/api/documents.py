"""What programs say in JSON. No text in it may hold what can be stored nowhere: Kafka would take
it, and PostgreSQL or whoever reads the record would not."""

from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, model_validator

from shared.formats.text import holds_nul


def storable(given: Any) -> Any:
    """ValueError where it is not."""
    if isinstance(given, bytes):
        raise ValueError("send it as JSON, with content-type: application/json")
    try:
        written = orjson.dumps(given)
    except TypeError as error:
        raise ValueError(f"it cannot be stored as JSON: {error}") from error
    if holds_nul(written):
        raise ValueError(r"\u0000 can be stored nowhere as text")
    return given


class Document(BaseModel):
    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _is_storable(cls, given: Any) -> Any:
        return storable(given)
