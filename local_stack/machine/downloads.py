"""The jars and the PostgreSQL binaries: listed in jars/ivy.xml, sealed by jars/sha256.txt.

Ivy comes inside pyspark, so nothing else is needed to fetch them. A folder with the hash of its
part of the list in its name appears only when all of it is there and right; later starts need no
network. What only tests need has a folder of its own, so `up` does not fetch it.
"""

import hashlib
import platform
import shutil
import subprocess
import tarfile
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

from local_stack.machine.java import Java
from local_stack.machine.locks import only_one_at_a_time
from local_stack.machine.paths import CHECKOUT, cache_dir
from local_stack.machine.processes import tied_to_this_process
from local_stack.machine.trust_store import find_bundle, java_options, write_trust_store
from local_stack.terminal.errors import StackError
from local_stack.terminal.progress import ProgressLine

IVY_FILE = CHECKOUT / "jars" / "ivy.xml"
HASHES = CHECKOUT / "jars" / "sha256.txt"
RETRIEVE_PATTERN = "[conf]/[artifact]-[revision](-[classifier]).[ext]"


@dataclass(frozen=True)
class Downloads:
    folder: Path

    @property
    def broker_class_path(self) -> str:
        return str(self.folder / "broker" / "*")

    @property
    def spark_jars(self) -> Path:
        return self.folder / "spark"

    @property
    def postgres_bin(self) -> Path:
        return self.folder / "postgresql" / "bin"


def downloads_folder() -> Path:
    return _folder("jars", _of_the_stack())


def fetch_downloads(java: Java) -> Downloads:
    configurations = _of_the_stack()
    if not any(name.startswith("postgres-") for name in expected_hashes(configurations)):
        raise StackError(
            f"there are no embedded PostgreSQL binaries for {platform.machine()}",
            "the local stack runs on Linux x86_64 and aarch64",
        )
    title = "Kafka, jars for Spark, PostgreSQL"
    return Downloads(_fetch("jars", title, configurations, java, _unpack_postgres))


def fetch_for_object_stores(java: Java) -> Path:
    """Jars by which Spark reaches one."""
    return _fetch("jars-of-s3", "jars for object stores", ["s3"], java) / "s3"


def fetch_for_tests(name: str, configurations: Sequence[str], java: Java) -> Path:
    """The folder of a server that no part of the stack needs, with one folder a configuration."""
    return _fetch(f"jars-of-{name.lower()}", name, configurations, java)


def expected_hashes(configurations: Sequence[str]) -> dict[str, str]:
    """File name within its configuration's folder -> SHA-256."""
    rows = (line.split() for line in HASHES.read_text().splitlines())
    return {name: sha for sha, name in rows if name.split("/")[0] in configurations}


def verify(folder: Path, expected: dict[str, str]) -> None:
    """Every file is listed, every listed file is there, every hash is right: else the name."""
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    for name in sorted(found ^ expected.keys()):
        what = "is not listed in jars/sha256.txt" if name in found else "was not downloaded"
        raise StackError(f"the jar {name} {what}", "compare jars/ivy.xml with jars/sha256.txt")
    for name in sorted(found):
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != expected[name]:
            raise StackError(
                f"the jar {name} is not the one that jars/sha256.txt seals",
                "do not use it: look at the network between here and the registry, then try again",
            )


def _of_the_stack() -> list[str]:
    return ["broker", "spark", f"postgres-{platform.machine()}"]


def _folder(name: str, configurations: Sequence[str]) -> Path:
    """Named after what is sealed in it, so a change elsewhere in the list fetches nothing again."""
    sealed = sorted(expected_hashes(configurations).items())
    return cache_dir() / f"{name}-{hashlib.sha256(repr(sealed).encode()).hexdigest()[:12]}"


def _fetch(
    name: str,
    title: str,
    configurations: Sequence[str],
    java: Java,
    unpack: Callable[[Path], None] = lambda _half: None,
) -> Path:
    folder = _folder(name, configurations)
    if not folder.exists():
        with only_one_at_a_time(cache_dir() / f"{name}.lock", f"the jars ({title})"):
            if not folder.exists():
                half = _half_made(folder, title, configurations, java)
                unpack(half)
                half.rename(folder)
                shutil.rmtree(_ivy_cache(folder), ignore_errors=True)
    return folder


def _half_made(folder: Path, title: str, configurations: Sequence[str], java: Java) -> Path:
    expected = expected_hashes(configurations)
    half = folder.with_suffix(".partial")
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(parents=True)
    _run_ivy(java, configurations, half, title, _ivy_cache(folder), len(expected))
    verify(half, expected)
    return half


def _ivy_cache(folder: Path) -> Path:
    return folder.with_suffix(".ivy")


def _run_ivy(
    java: Java, configurations: Sequence[str], half: Path, title: str, ivy_cache: Path, n: int
) -> None:
    """The Ivy cache stays after a failure, so that the next try fetches only what is missing."""
    ivy_cache.mkdir(exist_ok=True)
    log = ivy_cache / "ivy.log"
    command = [
        java.command,
        *_network_options(java, ivy_cache),
        "-cp",
        f"{home_of_pyspark()}/jars/*",
    ]
    command += [f"-Divy.default.ivy.user.dir={ivy_cache}", "org.apache.ivy.Main"]
    command += ["-cache", str(ivy_cache), "-ivy", str(IVY_FILE), "-confs", *configurations]
    command += ["-types", "jar", "bundle", "-retrieve", str(half / RETRIEVE_PATTERN)]
    progress = ProgressLine(title)
    with log.open("w") as file:
        ivy = subprocess.Popen(tied_to_this_process(command), stdout=file, stderr=subprocess.STDOUT)
        try:
            while ivy.poll() is None:
                progress.show(_amount(ivy_cache, n))
                time.sleep(0.3)
        finally:
            ivy.kill()
            ivy.wait()
    if ivy.returncode != 0:
        raise StackError(
            f"the jars could not be fetched: {_telling_line(log)}",
            f"look at the network and start again; all of Ivy's words are in {log}",
        )
    progress.done(_amount(ivy_cache, n))


def _network_options(java: Java, ivy_cache: Path) -> list[str]:
    options = []
    for scheme, address in getproxies().items():
        parts = urlsplit(address)
        if scheme in ("http", "https") and parts.hostname:
            port = parts.port or (443 if parts.scheme == "https" else 80)
            options += [f"-D{scheme}.proxyHost={parts.hostname}", f"-D{scheme}.proxyPort={port}"]
    bundle = find_bundle() if java.from_wheel else None
    if bundle:
        store = ivy_cache / "trust.jks"
        write_trust_store(bundle, store)
        options += java_options(store)
    return options


def home_of_pyspark() -> Path:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise StackError("pyspark is not installed", "start with ./headrace")
    return Path(spec.origin).parent


def _amount(ivy_cache: Path, total: int) -> str:
    sizes = [path.stat().st_size for path in ivy_cache.rglob("*.jar")]
    if not sizes:
        return f"resolving, {len(list(ivy_cache.rglob('ivy-*.xml')))} descriptions read"
    return f"{len(sizes)} of {total} files, {sum(sizes) / 1e6:.0f} MB"


def _telling_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    marks = ("PKIX", "UnknownHost", "ConnectException", "UNRESOLVED", "not found", "Exception")
    return next((line for mark in marks for line in lines if mark in line), "no reason given")


def _unpack_postgres(half: Path) -> None:
    (jar,) = half.glob("postgres-*/*.jar")
    with zipfile.ZipFile(jar) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".txz"))
        with archive.open(name) as packed, tarfile.open(fileobj=packed, mode="r|xz") as tar:
            # Its hash was checked; the filter keeps newer Pythons from asking for one.
            if hasattr(tarfile, "data_filter"):
                tar.extraction_filter = tarfile.data_filter
            tar.extractall(half / "postgresql")
