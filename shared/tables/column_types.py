"""What the contract of a view's rows has beside JSON's own types: texts that are times."""

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
Date = Annotated[str, Field(json_schema_extra={"format": "date"})]


class Window(TypedDict):
    start: Time
    end: Time
