import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HEADRACE_GATEWAY_PORT", "eighty"),
        ("HEADRACE_ADMIN_PORT", "70000"),
        ("HEADRACE_RATE_PER_DEVICE", "-1"),
        ("HEADRACE_TRUSTED_PROXIES", "10.0.0.1/8"),
        ("HEADRACE_TRUSTED_PROXIES", "proxy.local"),
        ("HEADRACE_BODY_BYTES_MAX", "0"),
        ("HEADRACE_BATCH_PAYLOADS_MAX", "5000"),
        ("HEADRACE_BATCH_BYTES_MAX", "33554433"),
        ("HEADRACE_BODY_BYTES_MAX", "33554433"),
        ("HEADRACE_FLOW", "shared.nix:FLOW"),
        ("HEADRACE_FLOW", "shared.flow:load_flow"),
    ],
)
def test_a_bad_setting_is_named_in_one_sentence(name: str, value: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "gateway"],
        env={**os.environ, name: value},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith(name)
