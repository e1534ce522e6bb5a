"""Rows of Parquet files that cannot be are refused with a sentence."""

from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import TypedDict

from shared.flow import FLOW
from shared.flow_table import Flow
from shared.model import EventType, ParquetFiles

ROW = ParquetFiles("readings", ("reading",), "s3a://lake/events")


def flow(*rows: ParquetFiles, types: tuple[EventType, ...] = ()) -> Flow:
    return replace(FLOW, parquet_files=rows, event_types=(*FLOW.event_types, *types))


def test_a_flow_without_such_a_row_has_no_such_job() -> None:
    assert "parquet" not in [job.name for job in FLOW.jobs()]
    (job,) = [job for job in flow(ROW).jobs() if job.name == "parquet"]
    assert job.ignited_by == ("event.reading.v1",)


@pytest.mark.parametrize(
    "folder",
    ["file:///srv/lake", "hdfs:///lake/", "hdfs://name:8020/lake", "s3a://lake", "gs://l/a"],
)
def test_folders_of_hadoop_are_taken(folder: str) -> None:
    flow(replace(ROW, folder=folder))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"of": ("heat",)}, "'heat', which is no event type"),
        ({"of": "reading"}, "needs a comma"),
        ({"of": ()}, "needs a comma"),
        ({"folder": "/srv/lake"}, "no URI"),
        ({"folder": "s3://lake/a"}, "s3a://"),
        ({"folder": "http://host/a"}, "one of file"),
        ({"folder": "file://srv/lake"}, "three slashes"),
        ({"folder": "s3a:///lake"}, "no bucket"),
        ({"folder": "s3a://lake/day={x}"}, "no URI"),
        ({"folder": "s3a://lake/_x"}, "underscore"),
        ({"every_s": 0}, "from 1 to"),
        ({"name": "No Name"}, "lower-case"),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        flow(replace(ROW, **change))


def test_no_two_rows_write_to_one_place() -> None:
    flow(ROW, replace(ROW, name="more"))  # each has a folder of its own in there
    with pytest.raises(ValueError, match="declared twice"):
        flow(ROW, replace(ROW, folder="s3a://other"))
    with pytest.raises(ValueError, match="would read both"):
        flow(ROW, replace(ROW, name="more", folder=f"{ROW.place}/"))


class Text(TypedDict):
    value: str


class Twins(TypedDict):
    Value: str
    value: str


def test_types_that_share_a_table_agree_on_its_columns() -> None:
    text, twins = EventType("text", data=Text), EventType("twins", data=Twins)
    with pytest.raises(ValueError, match="double in one of its event types and string in text"):
        flow(replace(ROW, of=("reading", "text")), types=(text,))
    with pytest.raises(ValueError, match="one column"):
        flow(replace(ROW, of=("twins",)), types=(twins,))
