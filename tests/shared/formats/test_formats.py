"""Each format on what it reads, on what is broken (with the place), and on what would hurt."""

import random
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import cbor2
import msgpack
import pytest

from shared.formats import (
    Avro,
    Cbor,
    Csv,
    Form,
    Format,
    Json,
    MessagePack,
    Protobuf,
    Raw,
    UndecodableError,
)
from tests.shared.formats.written import avro_written, report_class, report_descriptors

REPORT_AVRO = (
    '{"type": "record", "name": "Report", "fields": ['
    '{"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},'
    '{"name": "kwh", "type": {"type": "array", "items": "double"}}]}'
)
DECIMAL_AVRO = '{"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}'
REPORT = report_class()


@pytest.mark.parametrize(
    ("form", "value", "found"),
    [
        (Json(), b'{"a": 1}', {"a": 1}),
        (Json(any_type=True), b"[1, 2]", [1, 2]),
        (Json(any_type=True), b"21.5", 21.5),
        (Json(any_type=True), b"null", None),
        (Cbor(), cbor2.dumps({"a": [1.5, None, True]}), {"a": [1.5, None, True]}),
        (Cbor(), cbor2.dumps(b"\0\xff"), b"\0\xff"),
        (Cbor(), bytes.fromhex("bf6161019f0203ffff")[:4] + b"\xff", {"a": 1}),
        (Cbor(), cbor2.dumps(Decimal("1.5")), Decimal("1.5")),
        (MessagePack(), msgpack.packb({"a": [1.5, None]}), {"a": [1.5, None]}),
        (
            MessagePack(),
            msgpack.packb(datetime(2026, 1, 1, tzinfo=UTC), datetime=True),
            datetime(2026, 1, 1, tzinfo=UTC),
        ),
        (
            Csv(),
            b'at,kwh\n1,"2,5"\r\n\n3,4\n',
            [{"at": "1", "kwh": "2,5"}, {"at": "3", "kwh": "4"}],
        ),
        (Csv(("at", "kwh"), ";"), "1;2\n".encode("utf-8-sig"), [{"at": "1", "kwh": "2"}]),
        (Csv(), b'a\n"two\nlines"\n', [{"a": "two\nlines"}]),
        (Form(), b"value=21.5&unit=%C2%B0C&note=", {"value": "21.5", "unit": "°C", "note": ""}),
        (Raw(bytes.hex), b"\x01\xff", "01ff"),
        (Raw(), b"\x01\xff", b"\x01\xff"),
        (
            Avro(REPORT_AVRO),
            avro_written(REPORT_AVRO, {"at": 1_767_225_600_000, "kwh": [1.5, 2.0]}),
            {"at": datetime(2026, 1, 1, tzinfo=UTC), "kwh": [1.5, 2.0]},
        ),
        (
            Protobuf(REPORT),
            REPORT(device="m-1", kwh=[1.5], state=1, tags={"room": 7}).SerializeToString(),
            {"device": "m-1", "count": 0, "kwh": [1.5], "state": "ON", "tags": {"room": 7}},
        ),
        (
            Protobuf(REPORT),
            REPORT(count=2**60, place=REPORT.Place(x=-1), at={"seconds": 5}).SerializeToString(),
            {
                "device": "",
                "count": 2**60,
                "kwh": [],
                "state": "OFF",
                "tags": {},
                "place": {"x": -1},
                "at": "1970-01-01T00:00:05Z",
            },
        ),
    ],
)
def test_a_format_reads(form: Format, value: bytes, found: Any) -> None:
    assert form.decode(value) == found


@pytest.mark.parametrize(
    ("form", "value", "reason"),
    [
        (Json(), b'{"a": 1', "not_json: unexpected end of data: line 1 column 8 (char 7)"),
        (Json(), b"[1]", "not_an_object: a JSON object is expected, not list"),
        (Cbor(), cbor2.dumps({"a": [1, 2]})[:-1], "not_cbor: byte 5: premature end of stream"),
        (Cbor(), b"\x01\x02\x03", "not_cbor: byte 1: the value ends here, 2 bytes follow"),
        (Cbor(), b"\x61\xff", "not_cbor: byte 2: error decoding text string"),
        (Cbor(), bytes.fromhex("a2616101616102"), "not_cbor: byte 7: error decoding map"),
        (Cbor(), b"\xd9\x12\x67\x01", "not_cbor: byte 4: error decoding semantic tag 4711 (tag"),
        (MessagePack(), bytes.fromhex("82a16101"), "not_msgpack: byte 4: No more data"),
        (MessagePack(), b"\x01\x02", "not_msgpack: byte 1: the value ends here, 1 bytes follow"),
        (MessagePack(), b"\xa1\xff", "not_msgpack: byte 1: 'utf-8' codec can't decode"),
        (MessagePack(), b"\xc1", "not_msgpack: byte 0: FormatError"),
        (MessagePack(), b"\xd4\x05\x01", "not_msgpack: extension type 5 is not known here"),
        (Csv(), b"at,kwh\n1,2\n3\n", "not_csv: line 3: 1 values for 2 columns"),
        (Csv(), b'at,kwh\n1,"2\n', "not_csv: line 2: unexpected end of data"),
        (Csv(), b"at,at\n1,2\n", "not_csv: line 1: names of columns are missing or double"),
        (Csv(), b"at,\n1,2\n", "not_csv: line 1: names of columns are missing or double"),
        (Csv(), b"\n", "not_csv: there is no line that names columns"),
        (Csv(), b"a\n\xff\n", "not_csv: byte 2: not UTF-8"),
        (Form(), b"a=1&a=2", "not_form: field 2: 'a' comes twice"),
        (Form(), b"a=%ff", "not_form: 'utf-8' codec can't decode"),
        (Form(), b"just text", "not_form: bad query field: 'just text'"),
        (Form(), b"&".join([b"a=1"] * 10_001), "not_form: "),
        (Raw(bytes.decode), b"\xff", "not_decodable: UnicodeDecodeError: "),
        (Avro(REPORT_AVRO), b"\x02", "not_avro: byte 1: "),
        (Avro('"int"'), b"\x02\x02", "not_avro: byte 1: the datum ends here, 1 bytes follow"),
        (Protobuf(REPORT), b"\x0a\x03m-1\x12", "not_protobuf: byte 5: no field"),
        (Protobuf(REPORT), b"\x0a\x63m-1", "not_protobuf: byte 0: no field"),
        (Protobuf(REPORT), b"\x0a\x01\xff", "not_protobuf: in a field inside: "),
    ],
)
def test_what_it_cannot_read_is_refused_with_the_place(
    form: Format, value: bytes, reason: str
) -> None:
    with pytest.raises(UndecodableError) as refused:
        form.decode(value)
    assert str(refused.value).startswith(reason)


@pytest.mark.parametrize(
    ("form", "value"),
    [
        (Json(any_type=True), b"[" * 100_000 + b"]" * 100_000),
        (Cbor(), b"\x81" * 100_000 + b"\x01"),
        (Cbor(), b"\xc1" * 100_000 + b"\x01"),
        (Cbor(), bytes.fromhex("9bffffffffffffff")),
        (Cbor(), bytes.fromhex("7bffffffffffffff")),
        (Cbor(), bytes.fromhex("d81c81d81d00")),  # a list that holds itself
        (Cbor(), bytes.fromhex("d9010083656161616161d81900d81900")),  # references to one text
        (Cbor(), cbor2.dumps(cbor2.CBORTag(35, "(a+)+$"))),
        (Cbor(), cbor2.dumps(cbor2.CBORTag(5, [2**30, 1]))),
        (MessagePack(), b"\x91" * 100_000 + b"\x01"),
        (MessagePack(), bytes.fromhex("ddffffffff")),
        (MessagePack(), bytes.fromhex("c6ffffffff")),
        (Avro('{"type": "array", "items": "int"}'), bytes.fromhex("feffffffffffffffff01")),
        (Avro('"bytes"'), bytes.fromhex("feffffffffffffffff01")),
        (Csv(), b'a\n"' + b"x" * 200_000),
        (Csv(), b"a\n" + b"1\n" * 100_001),
        (Cbor(), cbor2.dumps(1 << 4000)),
        (Cbor(), cbor2.dumps(-(1 << 4000))),
        (Cbor(), cbor2.dumps(cbor2.CBORTag(4, [-(10**6), 1 << 4000]))),
        (Avro(DECIMAL_AVRO), avro_written('"bytes"', b"\x7f" * 100_000)),
        (Protobuf(REPORT), b"\x32\x00" * 3 + b"\x3a\x09\x08\xff\xff\xff\xff\xff\xff\xff\x7f"),
    ],
)
def test_what_would_take_all_memory_or_the_stack_is_refused(form: Format, value: bytes) -> None:
    with pytest.raises(UndecodableError):
        form.decode(value)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ('{"type": "array", "items": "null"}', "no bytes"),
        ('{"type": "array", "items": {"type": "record", "name": "e", "fields": []}}', "no bytes"),
        ('{"type": "array", "items": {"type": "fixed", "name": "f", "size": 0}}', "no bytes"),
        (
            '{"type": "record", "name": "r", "fields": ['
            '{"name": "e", "type": {"type": "record", "name": "e", "fields": []}},'
            '{"name": "all", "type": {"type": "array", "items": "e"}}]}',
            "no bytes",
        ),
        (
            '{"type": "record", "name": "n", "fields": [{"name": "x", "type": ["null", "n"]}]}',
            "holds itself",
        ),
        (
            '{"type": "record", "namespace": "a.b", "name": "n", "fields": ['
            '{"name": "x", "type": {"type": "map", "values": "a.b.n"}}]}',
            "holds itself",
        ),
        (
            '{"type": "record", "name": "com.acme.Node", "fields": ['
            '{"name": "x", "type": ["null", "Node"]}]}',
            "holds itself",
        ),
        (
            '{"type": "record", "name": "a.outer", "fields": [{"name": "o", "type":'
            '{"type": "record", "name": "inner", "fields": ['
            '{"name": "x", "type": ["null", "a.inner"]}]}}]}',
            "holds itself",
        ),
        (
            '{"type": "record", "name": "a.r", "fields": ['
            '{"name": "e", "type": {"type": "record", "name": "e", "fields": []}},'
            '{"name": "all", "type": {"type": "array", "items": "a.e"}}]}',
            "no bytes",
        ),
    ],
)
def test_an_avro_schema_by_which_few_bytes_become_endless_is_no_format(
    schema: str, why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        Avro(schema)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_bytes_come_a_format_reads_them_or_refuses_them(seed: int) -> None:
    chance = random.Random(seed)
    good = [
        cbor2.dumps({"a": [1.5, "text", None], "b": {"c": b"\0"}}),
        msgpack.packb({"a": [1.5, "text", None], "b": {"c": b"\0"}}),
        b'at,kwh\n1,"2"\n3,4\n',
        b"value=21.5&unit=%C2%B0C",
        b'{"a": [1.5, "text", null]}',
        avro_written(REPORT_AVRO, {"at": 5, "kwh": [1.5, 2.0]}),
        REPORT(device="m", count=3, kwh=[1.5], tags={"a": 1}).SerializeToString(),
    ]
    forms: list[Format] = [Cbor(), MessagePack(), Csv(), Form(), Json(any_type=True)]
    forms += [Avro(REPORT_AVRO), Protobuf(REPORT)]
    for form in forms:
        for _ in range(200):
            value = bytearray(chance.choice(good))
            for _ in range(chance.randint(1, 4)):
                value[chance.randrange(len(value))] = chance.randrange(256)
            value = value[: chance.randint(1, len(value))]
            try:
                form.decode(bytes(value))
            except UndecodableError as refused:
                assert refused.code.startswith(("not_", "empty"))


def test_a_message_is_found_in_a_file_of_descriptors(tmp_path: Path) -> None:
    file = tmp_path / "meters.desc"
    file.write_bytes(report_descriptors().SerializeToString())
    value = REPORT(device="m-1").SerializeToString()
    assert Protobuf("meters.Report", file).decode(value)["device"] == "m-1"
    with pytest.raises(ValueError, match=r"meters.desc has no message 'meters.Other'"):
        Protobuf("meters.Other", file)
    with pytest.raises(ValueError, match="is no message class"):
        Protobuf("meters.Report")


def test_an_avro_schema_may_be_a_file(tmp_path: Path) -> None:
    file = tmp_path / "report.avsc"
    file.write_text(REPORT_AVRO)
    value = avro_written(REPORT_AVRO, {"at": 5, "kwh": []})
    assert Avro(file).decode(value)["kwh"] == []


def test_a_separator_that_is_none_is_no_format() -> None:
    with pytest.raises(TypeError, match="delimiter"):
        Csv(delimiter="")
    with pytest.raises(TypeError, match="no tuple"):
        Csv("at")  # type: ignore[arg-type]


def test_big_numbers_that_are_not_too_big_are_read() -> None:
    assert Cbor().decode(cbor2.dumps(1 << 80)) == 1 << 80
    assert Cbor().decode(cbor2.dumps(-(1 << 80))) == -(1 << 80)
    assert Avro(DECIMAL_AVRO).decode(avro_written(DECIMAL_AVRO, Decimal("12.34"))) == Decimal(
        "12.34"
    )


def test_a_message_of_too_many_messages_is_refused() -> None:
    """Two bytes each become a dict of all their defaults."""
    nested = report_class("meters.Many")
    value = nested(reports=[{} for _ in range(100_000)]).SerializeToString()
    with pytest.raises(UndecodableError, match="more than 100000 messages"):
        Protobuf(nested).decode(value)
