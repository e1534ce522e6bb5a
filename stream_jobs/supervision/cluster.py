"""What an application brings along to a cluster, whose machines have Spark, Java and Python, and
share no folder with this one but the checkpoints'."""

import os
import re
import shlex
import socket
import sys
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from importlib.metadata import Distribution, distributions
from itertools import chain
from pathlib import Path
from urllib.parse import urlsplit

from shared.settings import JobSettings
from stream_jobs.guards import claim_watch
from stream_jobs.guards.lease import RUN

_ROOT = Path(__file__).parents[2]
_OURS = "shared", "clients", "stream_jobs"
_CODE, _PACKAGES = "headrace-code", "headrace-packages"  # folders of each executor
_PYTHON = "worker_python"
# executors have Spark's jars; what belongs to the tests of packages nobody needs there
_LEFT_OUT = (
    *("pyspark/jars/", "pyspark/examples/", "pyspark/python/", "pandas/tests/", "pyarrow/tests/"),
    "pyarrow/include/",
)
_DOMAIN_BYTES_MAX = 100_000_000  # it goes to each executor
_USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class NoApplicationError(ValueError):
    """What is set does not make an application for a cluster; it says what to do."""


def cluster_config(
    settings: JobSettings, scratch: Path, reads: Mapping[str, tuple[str, ...]], jvm: Iterable[str]
) -> dict[str, str]:
    """`reads`: the topics of each job."""
    here = Path(__file__).parent
    python = settings.spark_python or f"python{sys.version_info.major}.{sys.version_info.minor}"
    domain = _domain_folders()
    folders = [f"{_CODE}/{number}" for number in range(len(domain) + 1)]
    # one name for the driver, which starts processes of its own, and for executors
    os.environ["PYSPARK_PYTHON"] = _PYTHON
    os.environ["PATH"] = f"{here}{os.pathsep}{os.environ.get('PATH', _USUAL_PATH)}"
    paths = [str(_ROOT), *map(str, domain)]
    os.environ["PYTHONPATH"] = os.environ["HEADRACE_DRIVER_PATH"] = os.pathsep.join(paths)
    os.environ["HEADRACE_DRIVER_PYTHON"] = sys.executable
    # Spark unpacks this form by `tar`, which keeps what may be executed
    code = _archive(scratch / f"{_CODE}.tgz", _code([_ROOT, *domain]))
    packages = _packages(settings.state_dir.absolute() / "spark")
    host = settings.spark_driver_host or _address_towards(settings.spark_master)
    executor = {
        "PATH": f"{_CODE}/0/stream_jobs/supervision:{_USUAL_PATH}",
        "HEADRACE_WORKERS_PATH": ":".join([*folders, _PACKAGES]),
        "HEADRACE_WORKERS_PYTHON": python,
        claim_watch.VARIABLE: claim_watch.told(RUN, dict(reads)),
        "MALLOC_ARENA_MAX": "2",
    }
    config = {
        "spark.driver.host": host,
        "spark.driver.bindAddress": host,
        "spark.archives": f"{code}#{_CODE},{packages}#{_PACKAGES}",
        "spark.executor.extraJavaOptions": " ".join(jvm),
        # a second copy of a task would do at the same time what the first one does
        "spark.speculation": "false",
        **{f"spark.executorEnv.{name}": value for name, value in executor.items()},
    }
    if settings.spark_jars:
        jars = sorted(settings.spark_jars.absolute().glob("*.jar"))
        config["spark.jars"] = ",".join(map(str, jars))
    if settings.spark_secret_file:
        _hand_over(_secret(settings.spark_secret_file), scratch / "cluster.conf")
        config |= {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}
    return config


def _secret(file: Path) -> str:
    try:
        secret = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise NoApplicationError(f"HEADRACE_SPARK_SECRET_FILE cannot be read: {error}") from None
    if not secret or len(secret.split()) > 1:
        raise NoApplicationError(
            f"HEADRACE_SPARK_SECRET_FILE={file} is to have one word, the secret of the cluster"
        )
    return secret


def _hand_over(secret: str, file: Path) -> None:
    """By a file: everybody on this machine may see the arguments of the JVM."""
    file.touch(mode=0o600)
    file.write_text(f"spark.authenticate.secret {secret}\n")
    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        f"--load-spark-defaults --properties-file {shlex.quote(str(file))} pyspark-shell"
    )


def _domain_folders() -> list[Path]:
    """Where the flow's own modules may come from."""
    asked = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    folders = dict.fromkeys(Path(one).resolve() for one in asked)
    return [folder for folder in folders if folder.is_dir() and folder != _ROOT]


def _code(folders: list[Path]) -> Iterator[tuple[Path, str]]:
    for number, folder in enumerate(folders):
        rooms = [folder / name for name in _OURS] if number == 0 else [folder]
        left = _DOMAIN_BYTES_MAX
        for file in chain.from_iterable(map(_files, rooms)):
            left -= file.stat().st_size
            if left < 0:
                raise NoApplicationError(
                    f"{folder} on PYTHONPATH has more than {_DOMAIN_BYTES_MAX // 10**6} MB, which "
                    "all would go to each executor: put the domain's modules in a folder of their "
                    "own"
                )
            yield file, f"{number}/{file.relative_to(folder)}"


def _files(folder: Path) -> Iterator[Path]:
    """Without what is hidden, such as a repository's own files, or made anew anyway."""
    for path, inner, names in os.walk(folder):
        inner[:] = sorted(one for one in inner if one[0] != "." and one != "__pycache__")
        for name in sorted(names):
            file = Path(path, name)
            if name[0] != "." and file.is_file() and os.access(file, os.R_OK):
                yield file


def _packages(folder: Path) -> Path:
    """What is installed here, as one file; made anew where anything else is."""
    its = sorted(_needed(), key=lambda one: one.name)
    told = "\n".join([sys.version, *(f"{one.name}=={one.version}" for one in its)])
    archive = folder / f"{_PACKAGES}-{sha256(told.encode()).hexdigest()[:12]}.tar"
    if not archive.exists():
        for old in folder.glob(f"{_PACKAGES}-*"):
            old.unlink()
        _archive(archive, chain.from_iterable(map(_installed, its)))
    return archive


def _needed() -> Iterator[Distribution]:
    """All but what the checkout's other parts are locked to: a domain may have packages, too."""
    locks = _ROOT / "requirements"
    others = {name for lock in locks.glob("*.txt") for name in _locked(lock)}
    jobs = locks / "jobs.txt"
    left_out = others - set(_locked(jobs)) if jobs.exists() else set()
    for one in distributions():
        if _canonical(one.name) not in {*left_out, "pip", "setuptools"} and one.files:
            yield one


def _locked(lock: Path) -> list[str]:
    return [_canonical(name) for name in re.findall(r"^([\w.-]+)==", lock.read_text(), re.M)]


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _installed(package: Distribution) -> Iterator[tuple[Path, str]]:
    for file in package.files or ():
        name = file.as_posix()
        path = Path(str(package.locate_file(file)))
        is_inside = not name.startswith("..") and "__pycache__" not in file.parts
        if is_inside and not name.startswith(_LEFT_OUT) and path.is_file():
            yield path, name


def _archive(file: Path, members: Iterable[tuple[Path, str]]) -> Path:
    new = file.with_suffix(".new")
    with tarfile.open(new, "w:gz" if file.suffix == ".tgz" else "w") as archive:
        for source, name in members:
            archive.add(source, name)
    return new.rename(file)


def _address_towards(master: str) -> str:
    its = urlsplit(master.removeprefix("k8s://").split(",")[0])
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
            way.connect((its.hostname or "127.0.0.1", its.port or 7077))  # sends nothing
            return str(way.getsockname()[0])
    except OSError:
        return socket.gethostname()
