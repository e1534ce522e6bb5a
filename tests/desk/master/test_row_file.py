from typing import Any

import pytest
from typing_extensions import TypedDict

from desk.master.row_file import BadFileError, rows_of
from shared.model import Table


class Price(TypedDict, total=False):
    sku: str
    cents: int


PRICES = Table("price", row=Price, key="sku")
GOOD = {"a": {"sku": "a", "cents": 5}, "b": {"sku": "b"}}


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("csv", b"\xef\xbb\xbfsku,cents\r\n\r\na,5\r\nb,\r\n"),
        ("csv", b'cents,sku\n"5","a"\n,b'),
        ("json", b'[{"sku": "a", "cents": 5}, {"sku": "b"}]'),
        ("ndjson", b'{"sku": "a", "cents": 5}\n\n{"sku": "b"}\n'),
    ],
)
def test_rows_are_the_same_whatever_they_are_written_in(kind: str, content: bytes) -> None:
    assert rows_of(PRICES, kind, content) == GOOD


def test_a_delimiter_may_be_chosen() -> None:
    assert rows_of(PRICES, "csv", b"sku;cents\na;5\nb;\n", ";") == GOOD


def test_a_text_may_have_lines_of_its_own() -> None:
    plain = Table("note", key="sku")
    found = rows_of(plain, "csv", b'sku,note\na,"one\ntwo"\nb,\n')
    assert found == {"a": {"sku": "a", "note": "one\ntwo"}, "b": {"sku": "b"}}


def mistakes(kind: str, content: bytes) -> list[str]:
    with pytest.raises(BadFileError) as error:
        rows_of(PRICES, kind, content)
    return str(error.value).split("\n")


@pytest.mark.parametrize(
    ("kind", "content", "says"),
    [
        ("csv", b"", ["line 1: it must name the fields, each once"]),
        ("csv", b"sku,sku\n", ["line 1: it must name the fields, each once"]),
        ("csv", b"sku,cents\na\n", ["line 2: 1 values for 2 fields"]),
        ("csv", b"sku,cents\na,5\nb,x\na,6\n", [
            "line 3: bad_value: cents: Input should be a valid integer, unable to parse string as"
            " an integer",
            "line 4: the key 'a' is there already, line 2",
        ]),
        ("csv", b"sku,cent\na,5\n", [
            "line 2: field_unknown: cent: the contract has no such field",
        ]),
        ("json", b'[{"sku": "a"},\n {"sku": }]', [
            "line 2: not JSON: unexpected character, expected a JSON value, column 10",
        ]),
        ("csv", b'sku,cents\na,"5\n', ["line 2: not CSV: unexpected end of data"]),
        ("csv", b"sku,cents\na,5\n\xff,6\n", ["line 3: not UTF-8"]),
        ("json", b'{"sku": "a"}', ["line 1: it must be a list of rows, [{…}, {…}]"]),
        ("json", b'[{"sku": "a"}, {"sku": 7}]', [
            "row 2: wrong_type: sku: Input should be a valid string"
        ]),
        ("ndjson", b'{"sku": "a"}\n{', [
            "line 2: not JSON: unexpected end of data, column 2"
        ]),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line(kind: str, content: bytes, says: Any) -> None:
    assert mistakes(kind, content) == says


def test_of_many_mistakes_the_first_are_told_and_the_others_counted() -> None:
    told = mistakes("csv", b"sku,cents\n" + b"a,x\n" * 13)
    assert [line.partition(":")[0] for line in told[:-1]] == [f"line {n}" for n in range(2, 12)]
    assert told[-1] == "and 3 more"
