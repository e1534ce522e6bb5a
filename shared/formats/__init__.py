"""The formats that payloads may have: bytes as a device sent them -> what an enrichment is given.

An endpoint's row names those that it takes (`Endpoint.formats`), and its payload's versions, if it
has several (`Endpoint.payload`). Pure, and imports its libraries when it first decodes, for the
gateway loads the flow, too, and decodes nothing."""

from shared.formats.avro import Avro
from shared.formats.binary import Cbor, MessagePack
from shared.formats.decoding import decoded, refuse_bad_formats
from shared.formats.format import Format, UndecodableError
from shared.formats.protobuf import Protobuf
from shared.formats.raw import Raw
from shared.formats.registered_avro import RegisteredAvro, UnknownSchemaError
from shared.formats.text import Csv, Form, Json
from shared.formats.versions import ByField, ByMediaType, UnknownVersionError, Versions

__all__ = [
    "Avro",
    "ByField",
    "ByMediaType",
    "Cbor",
    "Csv",
    "Form",
    "Format",
    "Json",
    "MessagePack",
    "Protobuf",
    "Raw",
    "RegisteredAvro",
    "UndecodableError",
    "UnknownSchemaError",
    "UnknownVersionError",
    "Versions",
    "decoded",
    "refuse_bad_formats",
]
