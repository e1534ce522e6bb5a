"""Spark's master and a worker start as the manifests say, and find each other by the secret."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from local_stack.machine.java import find_java
from local_stack.machine.ports import free_port
from tests.deploy.kustomize import containers, find, render
from tests.kafka_log import eventually

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes" / "base"


@contextmanager
def running(command: list[str], environment: dict[str, str], log: Path) -> Iterator[Path]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield log
        assert process.poll() is None, log.read_text()[-3000:]
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.stack
def test_master_and_worker_find_each_other(tmp_path: Path) -> None:
    made = render(FOLDER)
    conf = find(made, "ConfigMap", name="headrace-spark")["data"]["spark.conf"]
    (tmp_path / "spark.conf").write_text(conf.replace("/var/lib/headrace", str(tmp_path)))
    port, of_worker = free_port(), free_port()
    master = f"spark://127.0.0.1:{port}"
    here = {
        "/etc/headrace/spark.conf": str(tmp_path / "spark.conf"),
        "$(POD_NAME).headrace-spark-master": "127.0.0.1",
        "$(POD_IP)": "127.0.0.1",
        "$(HEADRACE_SPARK_MASTER)": master,
        "/var/lib/headrace/work": str(tmp_path / "work"),
        "7077": str(port),
        "7078": str(of_worker),
        "8080": "0",
    }
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "JAVA_HOME": str(find_java().home),
        "_SPARK_AUTH_SECRET": "a-secret",
        "SPARK_LOCAL_DIRS": str(tmp_path / "local"),
        "SPARK_DAEMON_MEMORY": "256m",
    }
    with ExitStack() as stack:
        logs = []
        for name in ("master", "worker"):
            ((_, container),) = [its for its in containers(made).items() if its[0][1] == name]
            args = [here.get(one, one) for one in container["args"]]
            command = [*container["command"], *args]
            logs.append(
                stack.enter_context(running(command, environment, tmp_path / f"{name}.log"))
            )
        said = f"Successfully registered with master {master}"
        eventually(lambda: said in logs[1].read_text(), within_s=120)
        assert "with 4 cores, 4.0 GiB RAM" in logs[0].read_text()
        assert (tmp_path / "applications").is_dir()  # so a master that comes back knows them
