"""What every test starts with."""

import atexit
import os
import shutil
import ssl
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import certifi
import pytest
from hypothesis import HealthCheck, settings

from tests.servers import (
    another_kafka,
    connection,
    empty_kafka,
    job_settings,
    migrated,
    parts,
    postgres_url,
    spark_environment,
)

__all__ = [  # fixtures
    "another_kafka",
    "connection",
    "empty_kafka",
    "job_settings",
    "migrated",
    "parts",
    "postgres_url",
    "spark_environment",
]

# a busy machine is no finding
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

# a JVM of Spark's lives here for seconds: what it compiled for a long life, nobody would use
for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
    os.environ[name] = (
        f"{os.environ.get(name, '')} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC".strip()
    )

# no test leaves anything in the checkout's own state folder, which `./headrace up` works on
os.environ["HEADRACE_STATE_DIR"] = tempfile.mkdtemp(prefix="headrace-tests-")
atexit.register(shutil.rmtree, os.environ["HEADRACE_STATE_DIR"], ignore_errors=True)

# whoever asks by `httpx.get` loads all authorities of the internet first: 50 ms, for each question
_AUTHORITIES = os.environ.get("SSL_CERT_FILE") or certifi.where()
_make_context = ssl.create_default_context
_loaded = _make_context(cafile=_AUTHORITIES)


def _context(*purpose: Any, **given: Any) -> ssl.SSLContext:
    is_usual = not purpose and given == {"cafile": _AUTHORITIES}
    return _loaded if is_usual else _make_context(*purpose, **given)


ssl.create_default_context = _context

_FAST_MAX_S = 3
# py4j asks by select(), which knows no file above 1,023: its callbacks would end without a word
_OPEN_FILES_MAX = 800
_PROCESSES = {"subprocess.Popen", "os.posix_spawn", "os.fork", "os.system"}
_fast_one_runs = False
_took_s: Counter[str] = Counter()


def pytest_itemcollected(item: pytest.Item) -> None:
    if {"stack", "slow"}.isdisjoint(mark.name for mark in item.iter_markers()):
        item.add_marker("fast")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    global _fast_one_runs
    _fast_one_runs = item.get_closest_marker("fast") is not None
    try:
        return (yield)
    finally:
        _fast_one_runs = False


@pytest.fixture(autouse=True, scope="module")
def closes_its_files() -> Iterator[None]:
    yield
    if (files := Path("/proc/self/fd")).is_dir():
        count = sum(1 for _ in files.iterdir())
        assert count <= _OPEN_FILES_MAX, f"{count} files are open: a test closes no client of its"


def _refuse_processes(event: str, _: object) -> None:
    if _fast_one_runs and event in _PROCESSES:
        pytest.fail("a test that starts a process needs the mark `slow` or `stack`")


sys.addaudithook(_refuse_processes)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if "fast" in report.keywords:
        _took_s[report.nodeid] += report.duration


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Told, not failed: on a busy machine each test may take long."""
    for test, took_s in _took_s.items():
        if took_s > _FAST_MAX_S:
            terminalreporter.write_line(f"{took_s:.1f} s, so mark it `slow` or quicken it: {test}")
