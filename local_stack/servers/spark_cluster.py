"""A real standalone cluster of Spark's, from pyspark's own distribution, on 127.0.0.1 only.

Its workers share nothing with the jobs' process but the checkpoints: they get neither its
environment nor its Python packages, as on machines of their own.
"""

import secrets
import shutil
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from local_stack.machine.java import Java
from local_stack.machine.ports import accepts
from local_stack.machine.processes import Service
from local_stack.terminal.errors import StackError

CORES_A_WORKER, MEMORY_A_WORKER = 2, "1g"
_DEPLOY = "org.apache.spark.deploy"
_SETTINGS = """\
spark.authenticate true
spark.network.crypto.enabled true
spark.master.rest.enabled false
spark.worker.cleanup.enabled true
spark.deploy.recoveryMode FILESYSTEM
spark.deploy.recoveryDirectory {recovery}
"""


def refuse_another_master(workers: int, settings: Mapping[str, str]) -> None:
    if workers and "HEADRACE_SPARK_MASTER" in settings:
        raise StackError(
            "HEADRACE_SPARK_MASTER says where the jobs run, and --workers starts a cluster",
            "unset HEADRACE_SPARK_MASTER, or leave --workers out",
        )


class SparkCluster:
    def __init__(self, java: Java, state_dir: Path, port: int, workers: int) -> None:
        self._folder, self._port, self._workers = state_dir / "spark-cluster", port, workers
        shutil.rmtree(self._folder, ignore_errors=True)  # applications of the last run are gone
        self._folder.mkdir(mode=0o700, exist_ok=True)  # an executor of that run may still write
        self._settings = self._folder / "spark.conf"
        self._settings.write_text(_SETTINGS.format(recovery=self._folder / "applications"))
        self._secret = self._folder / "secret"
        self._secret.unlink(missing_ok=True)
        self._secret.touch(mode=0o600)
        self._secret.write_text(secrets.token_hex(32) + "\n")
        self._home = _spark_home()
        self._environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "JAVA_HOME": str(java.home),
            "SPARK_HOME": str(self._home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_DIRS": str(self._folder / "local"),
            "_SPARK_AUTH_SECRET": self._secret.read_text().strip(),
        }

    @property
    def job_settings(self) -> dict[str, str]:
        """The settings by which the jobs find it."""
        return {
            "HEADRACE_SPARK_MASTER": self._url,
            "HEADRACE_SPARK_SECRET_FILE": str(self._secret),
            # without the packages of this environment: they come with the application
            "HEADRACE_SPARK_PYTHON": str(_plain_python()),
        }

    @property
    def _url(self) -> str:
        return f"spark://127.0.0.1:{self._port}"

    def services(self) -> Iterator[Service]:
        port = self._port
        at = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        yield Service(
            "spark-master",
            self._command("master.Master", *at),
            self._environment,
            stage=0,
            is_up=lambda: accepts(port),
        )
        for number in range(1, self._workers + 1):
            name = f"spark-worker-{number}"
            has = ["--cores", str(CORES_A_WORKER), "--memory", MEMORY_A_WORKER]
            own = ["--host", "127.0.0.1", "--webui-port", "0"]
            folder = ["--work-dir", str(self._folder / name)]
            yield Service(
                name,
                self._command("worker.Worker", *has, *own, *folder, self._url),
                self._environment,
                stage=0,
            )

    def _command(self, name: str, *arguments: str) -> list[str]:
        run = str(self._home / "bin" / "spark-class")
        return [run, f"{_DEPLOY}.{name}", "--properties-file", str(self._settings), *arguments]


def _plain_python() -> Path:
    version = sys.version_info
    plain = Path(sys.base_prefix, "bin", f"python{version.major}.{version.minor}")
    return plain if plain.exists() else Path(sys.executable)


def _spark_home() -> Path:
    found = find_spec("pyspark")
    assert found is not None and found.origin is not None
    return Path(found.origin).parent
