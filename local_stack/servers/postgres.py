"""A real PostgreSQL 18 in the foreground, on 127.0.0.1 only, its data kept in the state folder.

Each part has a role of its own; their passwords stand in files that the user alone can read.
"""

import secrets
import shutil
import signal
import time
from collections.abc import Mapping
from pathlib import Path

import psycopg
from psycopg import sql

from clients.postgres.grants import ROLES
from local_stack.machine.downloads import Downloads
from local_stack.machine.log_files import log_path
from local_stack.machine.paths import CHECKOUT
from local_stack.machine.processes import Service, run_to_the_end
from local_stack.machine.without_root import without_root
from local_stack.servers.postgres_address import (
    DATABASE,
    SUPERUSER,
    pass_file,
    password_file,
    postgres_url,
)
from local_stack.terminal.errors import StackError

_MAKE_ROLES = CHECKOUT / "clients" / "postgres" / "roles.sql"


def prepare_postgres(
    downloads: Downloads, state_dir: Path, environment: Mapping[str, str], *, port: int
) -> Service:
    """Makes the database folder once; the password lives beside it."""
    binaries, data = downloads.postgres_bin, state_dir / "postgres" / "data"
    wrapper = without_root()
    plain = {**environment, "LC_ALL": "C"}
    if not data.exists():
        _init(binaries, data, wrapper, plain, log_path(state_dir, "postgres-init"))
    url = postgres_url(state_dir, port, SUPERUSER)
    if url is None:
        raise StackError(
            f"the password beside {data} is gone", "start anew: ./headrace reset --yes"
        )
    _keep_password(data.parent, SUPERUSER, password_file(data.parent).read_text())
    settings = {
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": "",  # the state folder's path may be too long for a socket
        "timezone": "UTC",
        "log_timezone": "UTC",
        "log_line_prefix": "%m [%p] ",
    }
    command = [str(binaries / "postgres"), "-D", str(data), "-p", str(port)]
    command += [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
    return Service(
        "postgres",
        command,
        plain,
        stage=0,
        is_up=lambda: postgres_answers(url, "postgres"),
        wrapper=wrapper,
        stop_signal=signal.SIGINT,  # SIGTERM would wait for the clients to leave
        crash_signal=signal.SIGQUIT,
        orphan_signal=signal.SIGINT,
        before_start=lambda: _clear_stale_pid_file(data, binaries / "postgres"),
    )


def prepare_database(state_dir: Path, port: int) -> None:
    """The database and its roles; what is there already stays. Only this is done as superuser."""
    folder = state_dir / "postgres"
    url = postgres_url(state_dir, port, SUPERUSER) or ""
    with psycopg.connect(url, dbname="postgres", autocommit=True, connect_timeout=5) as connection:
        query = "SELECT 1 FROM pg_database WHERE datname = %s"
        if connection.execute(query, (DATABASE,)).fetchone() is None:
            connection.execute(f"CREATE DATABASE {DATABASE}")
    with psycopg.connect(url, connect_timeout=5) as connection:
        connection.execute(_MAKE_ROLES.read_bytes())
        for role in ROLES:
            if not pass_file(folder, role).exists():
                password = secrets.token_urlsafe(24)
                _set_password(connection, role, password)
                connection.commit()  # the file says that it is set
                _keep_password(folder, role, password)


def _set_password(connection: psycopg.Connection, role: str, password: str) -> None:
    """Only its proof travels, so no log of the server can hold it."""
    proof = connection.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256")
    connection.execute(
        sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(role), proof.decode())
    )


def postgres_answers(url: str, database: str | None = None) -> bool:
    try:
        psycopg.connect(url, dbname=database, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def _init(
    binaries: Path, data: Path, wrapper: list[str], environment: Mapping[str, str], log: Path
) -> None:
    half = data.with_name("data.partial")
    shutil.rmtree(half, ignore_errors=True)
    data.parent.mkdir(parents=True, exist_ok=True)
    password = password_file(data.parent)
    password.touch(mode=0o600)
    password.write_text(secrets.token_urlsafe(24))
    command = [*wrapper, str(binaries / "initdb"), "-D", str(half), "-U", SUPERUSER]
    command += [f"--pwfile={password}", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"]
    run_to_the_end("making the database folder", command, environment, log)
    half.rename(data)


def _keep_password(folder: Path, role: str, password: str) -> None:
    half = folder / f"{role}.partial"
    half.unlink(missing_ok=True)
    half.touch(mode=0o600)
    half.write_text(f"*:*:*:{role}:{password}\n")
    half.replace(pass_file(folder, role))


def _clear_stale_pid_file(data: Path, binary: Path) -> None:
    """After a hard kill, the number in the file may by now belong to an unrelated process."""
    file = data / "postmaster.pid"
    deadline = time.monotonic() + 10
    while file.exists():
        words = file.read_text().split()
        if not words or not _runs(int(words[0]), binary):
            file.unlink(missing_ok=True)
        elif time.monotonic() > deadline:
            raise StackError(
                f"another PostgreSQL (pid {words[0]}) still uses {data}", "stop that process"
            )
        else:
            time.sleep(0.1)


def _runs(pid: int, binary: Path) -> bool:
    try:
        return Path(f"/proc/{pid}/exe").resolve(strict=True) == binary.resolve()
    except OSError:
        return False
