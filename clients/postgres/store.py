"""PostgreSQL: how to connect, and what its errors mean to a job."""

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from socket import SHUT_RDWR, socket
from typing import Any

import psycopg

from clients.postgres import sqlstates
from shared.errors import RowRefusedError, StoreAwayError, StoreSlowError
from shared.machine.timers import call_later

Connection = psycopg.Connection[tuple[Any, ...]]

_CONNECT_TIMEOUT_S = 5
# a peer that vanished without a word is noticed in seconds, not in hours: by the server, too, or
# its locks would stay
_SERVER_SETTINGS = (
    "-c lock_timeout=10s -c TimeZone=UTC"
    " -c tcp_keepalives_idle=5 -c tcp_keepalives_interval=2 -c tcp_keepalives_count=3"
)
_NO_TEXT = "22021"
SLOW_AFTER_S = 60.0  # where nobody says otherwise
_KEEPALIVE: dict[str, Any] = {
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}


def connect(url: str, application: str, slow_after_s: float = SLOW_AFTER_S) -> Connection:
    """A connection in autocommit mode: a transaction is where one is written out. The server ends
    a statement that takes longer than `slow_after_s`."""
    with judged_errors():
        return psycopg.connect(
            url,
            autocommit=True,
            application_name=f"headrace-{application}",
            connect_timeout=_CONNECT_TIMEOUT_S,
            options=f"{_SERVER_SETTINGS} -c statement_timeout={slow_after_s * 1000:.0f}",
            **_KEEPALIVE,
        )


def trouble(url: str) -> str | None:
    """Why the store cannot be reached, if it cannot."""
    try:
        connect(url, "probe").close()
    except StoreAwayError as away:
        return str(away)
    return None


@contextmanager
def answered_within(connection: Connection, duration_s: float) -> Iterator[None]:
    """StoreSlowError where the server neither answers nor lets go: it is frozen, or cut off by
    something that keeps the connection. libpq alone would wait for ever."""
    cut = threading.Event()

    def give_up() -> None:
        cut.set()
        with suppress(OSError, psycopg.Error), socket(fileno=os.dup(connection.fileno())) as link:
            link.shutdown(SHUT_RDWR)

    take_back = call_later(duration_s, give_up)
    try:
        yield
    except StoreAwayError as away:
        if cut.is_set():
            raise StoreSlowError(f"it did not answer within {duration_s:.0f} s") from away
        raise
    finally:
        take_back()


@contextmanager
def judged_errors() -> Iterator[None]:
    """A driver's error becomes one of the two that a job tells apart; a bug stays a bug."""
    try:
        yield
    except psycopg.Error as error:
        # the driver does not even send a text with a NUL, of which the server would say the same
        state = error.sqlstate or (_NO_TEXT if isinstance(error, psycopg.DataError) else "")
        # InterfaceError: the connection is closed
        judgement = sqlstates.judge(
            state,
            in_function=bool(error.diag.context),
            is_passing=isinstance(error, psycopg.OperationalError | psycopg.InterfaceError),
        )
        sentence = one_line(error)
        match judgement:
            case "refused" | "later":
                raise RowRefusedError(state, sentence, may_pass=judgement == "later") from error
            case "slow":
                raise StoreSlowError(sentence, state) from error
            case "away":
                raise StoreAwayError(sqlstates.advice(state) + sentence, state) from error
        raise


def save(connection: Connection, statement: str, rows: Iterable[Sequence[Any]]) -> None:
    """Runs a statement that takes many rows at once, as columns."""
    if columns := [list(column) for column in zip(*rows, strict=True)]:
        connection.execute(statement.encode(), columns)


def one_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
