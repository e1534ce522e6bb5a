"""How files come to a table, so that whoever reads its folder finds each event once.

Spark writes a batch's files beside the table. A commit says which these are, what they are to be
called in the table, and up to where of each log they go: with it the batch is written, without it
nothing is. Then they are moved, each at once. What was killed in between goes on with the moves;
where there is no commit, what was left is deleted. So the folder itself says how far it is, and no
checkpoint has to.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple
from uuid import uuid4

import orjson

from clients.kafka.records import Offsets, from_json
from stream_jobs.guards.lease import check_lease
from stream_jobs.parquet.hadoop_files import HadoopFiles
from stream_jobs.parquet.rows import STAGE

# of what is remembered to know an event by that comes again
_COMMITS_MAX = 30
_ROWS_MAX = 1_000_000
_BESIDE = "_headrace"


class Commit(NamedTuple):
    number: int
    read_to: Offsets
    topic_ids: Mapping[str, str]
    rows: int
    files: tuple[tuple[str, str], ...]  # as Spark calls it -> in the table


class Commits:
    def __init__(self, files: HadoopFiles, table: str) -> None:
        """`files`: of the folder that the table is in."""
        self._files = files
        self._table = table
        self._beside = f"{_BESIDE}/{table}"
        names = files.below(f"{self._beside}/commits")
        self._kept = [self._read(name) for name in names if name.endswith(".json")]
        if self._kept:
            self._finish(self._kept[-1])

    @property
    def last(self) -> Commit | None:
        return self._kept[-1] if self._kept else None

    def recent_files(self) -> list[str]:
        """Those of the last commits that are still there: they may have been made larger ones."""
        paths = [f"{self._table}/{name}" for one in self._kept for _, name in one.files]
        return [self._files.uri(path) for path in paths if self._files.exists(path)]

    def add(
        self, write: Callable[[str], int], read_to: Offsets, topic_ids: Mapping[str, str]
    ) -> Commit:
        """`write`: files into the folder that it is given; it returns how many rows."""
        number = self.last.number + 1 if self.last else 1
        self._files.delete(f"{self._beside}/stage")
        # a JVM may live on for a moment when its driver was killed: what it writes yet is apart
        stage = f"stage/{uuid4().hex}"
        rows = write(self._files.uri(f"{self._beside}/{stage}"))
        names = self._files.below(f"{self._beside}/{stage}")
        moves = tuple(
            (f"{stage}/{name}", f"{name.rpartition('/')[0]}/{number:09}-{order}.parquet")
            for order, name in enumerate(name for name in names if name.endswith(".parquet"))
        )
        check_lease(STAGE)
        commit = Commit(number, read_to, topic_ids, rows, moves)
        told = orjson.dumps(commit._asdict(), option=orjson.OPT_NON_STR_KEYS)
        self._files.write_new(self._name(number), told)
        self._kept.append(commit)
        self._finish(commit)
        self._forget()
        return commit

    def _finish(self, commit: Commit) -> None:
        """As often as it takes."""
        for name, its_name in commit.files:
            written, in_table = f"{self._beside}/{name}", f"{self._table}/{its_name}"
            # an object store copies, then deletes: there both may be
            if self._files.exists(written) and not self._files.exists(in_table):
                self._files.move(written, in_table)
        self._files.delete(f"{self._beside}/stage")

    def _forget(self) -> None:
        rows, kept = 0, list[Commit]()
        for commit in reversed(self._kept):
            rows += commit.rows
            is_known = commit.files and rows <= _ROWS_MAX and len(kept) < _COMMITS_MAX
            if commit is self.last or is_known:
                kept.append(commit)
            else:
                self._files.delete(self._name(commit.number))
        self._kept = kept[::-1]

    def _read(self, name: str) -> Commit:
        told = orjson.loads(self._files.read(f"{self._beside}/commits/{name}"))
        told["read_to"] = from_json(told["read_to"])
        return Commit(**told)

    def _name(self, number: int) -> str:
        return f"{self._beside}/commits/{number:09}.json"
