"""What an operator wants of a job: a record that stands until it is taken back. Pure."""

from enum import StrEnum
from typing import Annotated, Self

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shared.mistakes import words_of
from shared.model import VIEW_JOB
from shared.timestamps import FIRST_MS, LAST_MS, to_rfc3339

_REBUILT = ("fold", "aggregate")
WHY_MAX = 500


class Wanted(StrEnum):
    PAUSE = "pause"
    REBUILD = "rebuild"


class JobOrder(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    order: Wanted
    by: str
    at_ms: Annotated[int, Field(ge=FIRST_MS, le=LAST_MS)]
    why: Annotated[str, Field(max_length=WHY_MAX)] = ""
    # the rebuild that was ordered before a pause: the job may not have looked, and does it when it
    # goes on
    then: "JobOrder | None" = None

    @property
    def told(self) -> str:
        why = f": {self.why}" if self.why else ""
        return f"by {self.by}, since {to_rfc3339(self.at_ms)}{why}"

    def to_record(self) -> bytes:
        return orjson.dumps(self.model_dump())

    @classmethod
    def from_record(cls, raw: bytes) -> Self:
        """ValueError where it is none."""
        try:
            return cls.model_validate_json(raw)
        except ValidationError as error:
            raise ValueError(f"it is no order: {words_of(error.errors()[0])}") from error


def can_be_rebuilt(job: str) -> bool:
    """What it keeps is made of topics that are still there."""
    return job in _REBUILT or job.startswith(VIEW_JOB)
