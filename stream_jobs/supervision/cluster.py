"""What Spark is told where its executors are on a cluster: machines that have Spark, Java and
Python, and share no folder with this one but the checkpoints'."""

import os
import re
import shlex
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from shared.settings import JobSettings
from stream_jobs.guards import claim_watch
from stream_jobs.guards.lease import RUN
from stream_jobs.supervision.application import (
    CODE,
    PACKAGES,
    ROOT,
    NoApplicationError,
    domain_folders,
    pack_code,
    pack_packages,
)

_PYTHON = "worker_python"
_USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_AUTHENTICATE = "spark.authenticate"
_HERE = "localhost", "127.0.0.1", "::1"


def cluster_config(
    settings: JobSettings, scratch: Path, reads: Mapping[str, tuple[str, ...]], jvm: Iterable[str]
) -> dict[str, str]:
    """`reads`: the topics of each job."""
    master = _hosts(settings.spark_master)
    secret = _secret(settings, master)
    domain = domain_folders()
    _find_python_by_one_name(domain)
    own = [settings.state_dir.resolve(), settings.checkpoints.resolve()]
    code = pack_code(scratch / f"{CODE}.tgz", settings.flow, domain, own)
    packages = pack_packages(settings.state_dir.absolute() / "spark")
    python = settings.spark_python or f"python{sys.version_info.major}.{sys.version_info.minor}"
    host = settings.spark_driver_host or _address_towards(master[0])
    paths = [f"{CODE}/{number}" for number in range(len(domain) + 1)]
    executor = {
        "PATH": f"{CODE}/0/stream_jobs/supervision:{_USUAL_PATH}",
        "HEADRACE_WORKERS_PATH": ":".join([*paths, PACKAGES]),
        "HEADRACE_WORKERS_PYTHON": python,
        claim_watch.VARIABLE: claim_watch.told(RUN, dict(reads)),
        "MALLOC_ARENA_MAX": "2",
    }
    config = {
        "spark.driver.host": host,
        # a name that others know this machine by need not be one of its own addresses
        "spark.driver.bindAddress": "0.0.0.0" if settings.spark_driver_host else host,
        "spark.archives": f"{code}#{CODE},{packages}#{PACKAGES}",
        "spark.executor.extraJavaOptions": " ".join([*jvm, *_temporary_folder(settings)]),
        # a second copy of a task would do at the same time what the first one does
        "spark.speculation": "false",
        **{f"spark.executorEnv.{name}": value for name, value in executor.items()},
    }
    if folders := settings.spark_jar_folders:
        jars = sorted(jar for folder in folders for jar in folder.absolute().glob("*.jar"))
        config["spark.jars"] = ",".join(map(str, jars))
    if secret:
        _hand_over(secret, scratch / "cluster.conf")
        config |= {_AUTHENTICATE: "true", "spark.network.crypto.enabled": "true"}
    return config


def _temporary_folder(settings: JobSettings) -> Iterator[str]:
    """A worker of Spark's gives each executor a folder and removes it with the application."""
    if settings.spark_master.startswith("spark://"):
        yield "-Djava.io.tmpdir=."


def _find_python_by_one_name(domain: list[Path]) -> None:
    """The driver starts processes of its own, by the same name as executors do."""
    here = Path(__file__).parent
    os.environ["PYSPARK_PYTHON"] = _PYTHON
    os.environ["PATH"] = f"{here}{os.pathsep}{os.environ.get('PATH') or _USUAL_PATH}"
    path = os.pathsep.join([str(ROOT), *map(str, domain)])
    os.environ["PYTHONPATH"] = os.environ["HEADRACE_DRIVER_PATH"] = path
    os.environ["HEADRACE_DRIVER_PYTHON"] = sys.executable


def _hosts(master: str) -> list[tuple[str, int]]:
    """The hosts of the masters, of which one leads."""
    found = []
    for one in re.sub(r"^(k8s://https?|k8s|spark)://", "", master).split(","):
        its = urlsplit(f"//{one}")
        try:
            found.append((its.hostname or "", its.port or 7077))
        except ValueError:
            found.append(("", 0))
    if not re.match(r"(spark|k8s)://", master) or not all(host for host, _ in found):
        raise NoApplicationError(
            f"HEADRACE_SPARK_MASTER={master} is no master that jobs run on: write local[3], "
            "spark://HOST:7077 or k8s://https://HOST:6443"
        )
    return found


def _secret(settings: JobSettings, master: list[tuple[str, int]]) -> str:
    """Passwords of Kafka and PostgreSQL go to executors with the work."""
    file = settings.spark_secret_file
    if file is None:
        if _AUTHENTICATE in settings.spark_conf or all(host in _HERE for host, _ in master):
            return ""
        raise NoApplicationError(
            "passwords would go to the executors unencrypted: set HEADRACE_SPARK_SECRET_FILE, or "
            f"say in HEADRACE_SPARK_CONF how the cluster does it, by {_AUTHENTICATE}"
        )
    try:
        secret = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise NoApplicationError(f"HEADRACE_SPARK_SECRET_FILE cannot be read: {error}") from None
    if not re.fullmatch(r"[\w+/=.-]+", secret, re.ASCII):
        raise NoApplicationError(
            f"HEADRACE_SPARK_SECRET_FILE={file} is to have the cluster's secret, one word of "
            "letters, digits and + / = . _ -"
        )
    return secret


def _hand_over(secret: str, file: Path) -> None:
    """Hands a secret over in a file: everybody on this machine may see the arguments of the JVM."""
    file.touch(mode=0o600)
    file.write_text(f"spark.authenticate.secret {secret}\n")
    given = f"--load-spark-defaults --properties-file {shlex.quote(str(file))}"
    asked = os.environ.get("PYSPARK_SUBMIT_ARGS") or "pyspark-shell"
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"{given} {asked}"


def _address_towards(master: tuple[str, int]) -> str:
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
            way.connect(master)  # sends nothing
            return str(way.getsockname()[0])
    except OSError:
        return socket.gethostname()
