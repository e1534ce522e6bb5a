import subprocess
from pathlib import Path

import pytest

from local_stack.machine.java import SHIM, usable


@pytest.mark.parametrize("version", ["17", "17.0.15", "21.0.8", "25.0.3", "25.0.4.1", "26.0.1"])
def test_a_java_that_spark_supports_is_usable(version: str) -> None:
    assert usable(version)


@pytest.mark.parametrize(
    "version", ["1.8.0_402", "11.0.2", "18.0.1", "24.0.2", "25", "25.0.2", "26-ea", "", "unknown"]
)
def test_a_java_that_is_old_odd_or_corrupts_data_is_not(version: str) -> None:
    assert not usable(version)


@pytest.mark.slow
def test_the_shim_drops_the_one_module_that_the_wheel_lacks(tmp_path: Path) -> None:
    shim = tmp_path / "java"
    shim.write_text(SHIM.format(java="/bin/echo"))
    shim.chmod(0o755)
    arguments = ["-Da=b c", "--add-modules=jdk.incubator.vector", "-cp", "x", "Main"]
    said = subprocess.run([shim, *arguments], capture_output=True, text=True, check=True).stdout
    assert said == "-Da=b c -cp x Main\n"
