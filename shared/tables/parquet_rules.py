"""What makes a row of Parquet files one that does not add up, told with what to do. Pure."""

import re
from collections.abc import Sequence

from shared.model import EventType, ParquetFiles
from shared.tables.columns import columns_of

_FILE_SYSTEMS = "file", "hdfs", "viewfs", "s3a", "gs", "abfs", "abfss"
# a name Hadoop would take for a pattern, or a reader for a partition
_FOLDER = re.compile(r"([a-z0-9]+)://([^/?#]*)((?:/[A-Za-z0-9_.@+-]+)*)/?")
_EVERY_S_MAX = 86_400


def refuse_bad_parquet_files(
    rows: Sequence[ParquetFiles], event_types: Sequence[EventType]
) -> None:
    types = {row.name: row for row in event_types}
    for row in rows:
        who = f"ParquetFiles {row.name}"
        if not isinstance(row.of, tuple) or not row.of:
            raise ValueError(f"{who}: `of` is a tuple of event types: one alone needs a comma, too")
        for name in row.of:
            if name not in types:
                raise ValueError(f"{who} is of {name!r}, which is no event type of this flow")
        if why_not := _bad_folder(row.folder):
            raise ValueError(f"{who}: its folder {row.folder!r} cannot be: {why_not}")
        if not 1 <= row.every_s <= _EVERY_S_MAX:
            raise ValueError(f"{who}: every_s is {row.every_s}: from 1 to {_EVERY_S_MAX}")
        try:
            columns_of(tuple(types[name] for name in row.of))
        except ValueError as error:
            raise ValueError(f"{who}: {error}") from error
    for row in rows:
        for other in rows:
            if row is not other and f"{other.place}/".startswith(f"{row.place}/"):
                raise ValueError(
                    f"ParquetFiles {other.name} would be written to {other.place}, which is in the "
                    f"folder of {row.name}: whoever reads that would read both"
                )


def _bad_folder(folder: str) -> str:
    its = _FOLDER.fullmatch(folder)
    if its is None:
        return (
            "it is no URI of a folder, such as s3a://bucket/events, with names of letters, digits "
            "and _ . @ + -"
        )
    scheme, host, path = its.groups()
    if scheme == "s3":
        return "Hadoop's name of it is s3a://"
    if scheme not in _FILE_SYSTEMS:
        return f"its file system is one of {', '.join(_FILE_SYSTEMS)}"
    if scheme == "file" and (host or not path):
        return "a folder of this machine has three slashes, file:///…"
    if scheme not in ("file", "hdfs") and not host:
        return "it names no bucket or host"
    if any(part.startswith((".", "_")) for part in path.split("/")):
        return "readers pass over names that begin with a dot or an underscore"
    return ""
