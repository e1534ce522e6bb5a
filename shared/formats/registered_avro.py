"""Avro as clients of a schema registry write it: each payload names its schema by a number."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import orjson

from shared.formats.avro import Avro, datum_of, parsed_schema
from shared.formats.format import UndecodableError

_MAGIC = 0
_HEAD_BYTES = 5  # the magic byte and the schema's number


class UnknownSchemaError(UndecodableError):
    """This process does not know the schema, until whoever decodes has asked the registry and
    `form` has learned it."""

    def __init__(self, form: "RegisteredAvro", schema_id: int) -> None:
        super().__init__("unknown_schema", f"the registry has no schema {schema_id}")
        self.form = form
        self.schema_id = schema_id


@dataclass(frozen=True)
class RegisteredAvro:
    """A zero, four bytes with the number of the schema, and one datum. The registry is that of the
    settings (HEADRACE_SCHEMA_REGISTRY_URL). `reader`, an .avsc file or what stands in one: what the
    enrichment is given whatever the schema was that it was written with, by Avro's own rules."""

    reader: Path | str | None = None
    media_types: tuple[str, ...] = ("application/avro", "avro/binary")
    foreign_kinds: ClassVar[frozenset[str]] = Avro.foreign_kinds
    is_text: ClassVar[bool] = False
    # by number, for ever: a registry never changes what it has given a number to
    _known: dict[int, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _ = self._reader  # says now what is wrong with it

    @cached_property
    def _reader(self) -> Any:
        return None if self.reader is None else Avro(self.reader).parsed

    def learn(self, schema_id: int, answer: bytes | None) -> None:
        """What the registry says of it. None: it knows none. UndecodableError where that is no
        schema by which a payload can be read here."""
        if answer is None:
            raise UnknownSchemaError(self, schema_id)
        told = orjson.loads(answer)
        kind = told.get("schemaType", "AVRO")
        if kind != "AVRO":
            raise UndecodableError("bad_schema", f"schema {schema_id} is {kind}, and not AVRO")
        if told.get("references"):
            raise UndecodableError(
                "bad_schema",
                f"schema {schema_id} refers to others: register it with all of its types in it",
            )
        try:
            self._known[schema_id] = parsed_schema(told["schema"])
        except Exception as error:  # whatever the library finds wrong with it
            why = f"schema {schema_id} cannot be used: {error}"
            raise UndecodableError("bad_schema", why) from error

    def decode(self, value: bytes) -> Any:
        if value[0] != _MAGIC or len(value) < _HEAD_BYTES:
            raise UndecodableError(
                "not_avro",
                "byte 0: a zero and the four bytes of its schema's number should stand before it",
            )
        schema_id = int.from_bytes(value[1:_HEAD_BYTES])
        schema = self._known.get(schema_id)
        if schema is None:
            raise UnknownSchemaError(self, schema_id)
        return datum_of(value, schema, self._reader, begins_at=_HEAD_BYTES)
