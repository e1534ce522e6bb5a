"""What devices would have written, by the libraries themselves."""

from io import BytesIO
from typing import Any

import fastavro
import orjson
from google.protobuf import descriptor_pb2, message_factory, timestamp_pb2


def avro_written(schema: str, datum: Any) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(orjson.loads(schema)), datum)
    return stream.getvalue()


def report_descriptors() -> descriptor_pb2.FileDescriptorSet:
    """What protoc makes of

    enum State { OFF = 0; ON = 1; }
    message Report {
      message Place { sint32 x = 1; }
      string device = 1;  int64 count = 2;  repeated double kwh = 3;  State state = 4;
      map<string, int32> tags = 5;  Place place = 6;  google.protobuf.Timestamp at = 7;
    }
    message Many { repeated Report reports = 1; }
    """
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="meters.proto", package="meters", syntax="proto3",
        dependency=["google/protobuf/timestamp.proto"],
    )  # fmt: skip
    state = file.enum_type.add(name="State")
    state.value.add(name="OFF", number=0)
    state.value.add(name="ON", number=1)
    report = file.message_type.add(name="Report")
    report.nested_type.add(name="Place").field.add(
        name="x", number=1, type=kinds.TYPE_SINT32, label=kinds.LABEL_OPTIONAL
    )
    entry = report.nested_type.add(name="TagsEntry")
    entry.options.map_entry = True
    for name, number, kind in (("key", 1, kinds.TYPE_STRING), ("value", 2, kinds.TYPE_INT32)):
        entry.field.add(name=name, number=number, type=kind, label=kinds.LABEL_OPTIONAL)
    for name, number, kind, of in (
        ("device", 1, kinds.TYPE_STRING, None),
        ("count", 2, kinds.TYPE_INT64, None),
        ("kwh", 3, kinds.TYPE_DOUBLE, None),
        ("state", 4, kinds.TYPE_ENUM, ".meters.State"),
        ("tags", 5, kinds.TYPE_MESSAGE, ".meters.Report.TagsEntry"),
        ("place", 6, kinds.TYPE_MESSAGE, ".meters.Report.Place"),
        ("at", 7, kinds.TYPE_MESSAGE, ".google.protobuf.Timestamp"),
    ):
        many = name in ("kwh", "tags")
        label = kinds.LABEL_REPEATED if many else kinds.LABEL_OPTIONAL
        report.field.add(name=name, number=number, type=kind, type_name=of, label=label)
    file.message_type.add(name="Many").field.add(
        name="reports",
        number=1,
        type=kinds.TYPE_MESSAGE,
        type_name=".meters.Report",
        label=kinds.LABEL_REPEATED,
    )
    stamp = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(stamp)
    return descriptor_pb2.FileDescriptorSet(file=[stamp, file])


def report_class(name: str = "meters.Report") -> Any:
    return message_factory.GetMessages(report_descriptors().file)[name]
