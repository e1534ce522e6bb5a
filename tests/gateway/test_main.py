import os
import subprocess
import sys
from pathlib import Path

import pytest

import gateway.__main__
from tests.gateway.support import free_port


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HEADRACE_GATEWAY_PORT", "eighty"),
        ("HEADRACE_ADMIN_PORT", "70000"),
        ("HEADRACE_RATE_PER_DEVICE", "-1"),
        ("HEADRACE_TRUSTED_PROXIES", "10.0.0.1/8"),
        ("HEADRACE_TRUSTED_PROXIES", "proxy.local"),
        ("HEADRACE_BODY_BYTES_MAX", "0"),
        ("HEADRACE_BATCH_PAYLOADS_MAX", "10001"),
        ("HEADRACE_BATCH_BYTES_MAX", "33554433"),
        ("HEADRACE_BODY_BYTES_MAX", "33554433"),
        ("HEADRACE_AUTH", "tokens"),
        ("HEADRACE_AUTH", "hmac"),
        *(("HEADRACE_GATEWAY_HOST", host) for host in ("0.0.0.0", "::", "10.0.0.7", "mill", "")),
        ("HEADRACE_OPEN", "yes"),
        ("HEADRACE_HOSTS", "gateway:8080"),
        ("HEADRACE_FLOW", "shared.nix:FLOW"),
        ("HEADRACE_FLOW", "shared.flow:load_flow"),
    ],
)
def test_a_bad_setting_is_named_in_one_sentence(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gateway.__main__, "serve", lambda *_: pytest.fail("it serves"))
    monkeypatch.setenv(name, value)
    assert gateway.__main__.main() == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(name)


@pytest.mark.parametrize(
    "said",
    [
        {"HEADRACE_OPEN": "yes-anyone-may-write"},
        {"HEADRACE_AUTH": "token"},
        {"HEADRACE_GATEWAY_HOST": "127.8.0.1"},
        {"HEADRACE_GATEWAY_HOST": "localhost"},
        {"HEADRACE_GATEWAY_HOST": "::1"},
    ],
)
def test_other_machines_are_let_in_where_somebody_has_said_so(
    said: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway.__main__, "serve", lambda *_: 0)
    for name, value in {"HEADRACE_GATEWAY_HOST": "0.0.0.0", **said}.items():
        monkeypatch.setenv(name, value)
    assert gateway.__main__.main() == 0


@pytest.mark.slow
def test_a_bad_setting_ends_the_process() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "gateway"],
        env={**os.environ, "HEADRACE_GATEWAY_PORT": "eighty"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith("HEADRACE_GATEWAY_PORT")


@pytest.mark.slow
def test_a_setting_that_only_a_worker_finds_wrong_ends_the_node(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("no key")
    settings = {
        "HEADRACE_GATEWAY_PORT": str(free_port()),
        "HEADRACE_GATEWAY_WORKERS": "2",
        "HEADRACE_STATE_DIR": str(tmp_path),
        "HEADRACE_AUTH": "hmac",
        "HEADRACE_CREDENTIALS_KEY_FILE": str(key),
    }
    ended = subprocess.run(
        [sys.executable, "-m", "gateway"],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 2
    assert "HEADRACE_CREDENTIALS_KEY" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.slow
def test_a_bad_key_is_named_in_one_sentence_and_never_shown() -> None:
    own = {
        "HEADRACE_AUTH": "hmac",
        "HEADRACE_CREDENTIALS_KEY": "not64digits",
        "HEADRACE_GATEWAY_PORT": "0",
    }
    ended = subprocess.run(
        [sys.executable, "-m", "gateway"],
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith("HEADRACE_CREDENTIALS_KEY: ")
    assert "not64digits" not in line
