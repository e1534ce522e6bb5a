"""What goes to a cluster's executors with an application: code, and packages, as two archives."""

import logging
import os
import re
import sys
import tarfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import Distribution, distributions
from itertools import chain
from pathlib import Path
from tempfile import NamedTemporaryFile

import orjson

_log = logging.getLogger(__name__)
ROOT = Path(__file__).parents[2]
_PACKING = ".packing-"
CODE, PACKAGES = "headrace-code", "headrace-packages"  # folders of each executor
_OURS = "shared", "clients", "stream_jobs"
_DOMAIN_BYTES_MAX = 100_000_000  # it goes to each executor
# executors have Spark's jars; what belongs to the tests of packages nobody needs there
_LEFT_OUT = (
    *("pyspark/jars/", "pyspark/examples/", "pyspark/python/", "pandas/tests/", "pyarrow/tests/"),
    "pyarrow/include/",
)
_NO_CODE = "__pycache__", "site-packages", "dist-packages"
_KEPT_S = 30 * 24 * 3600  # archives that no process has begun with since


class NoApplicationError(ValueError):
    """What is set does not make an application for a cluster; it says what to do."""


def domain_folders() -> list[Path]:
    """Where the flow's own modules may come from."""
    asked = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    folders = dict.fromkeys(Path(one).resolve() for one in asked)
    return [folder for folder in folders if folder.is_dir() and folder != ROOT]


def pack_code(archive: Path, flow: str, domain: list[Path], own: list[Path]) -> Path:
    """Folder 0 is the product's and, where it lies in the checkout, the flow's; one for each of the
    domain's follows. `own`: folders that the jobs write to, wherever they lie."""
    package = flow.partition(":")[0].partition(".")[0]
    in_checkout = [one for one in (ROOT / package, ROOT / f"{package}.py") if one.exists()]
    ours = [*(ROOT / name for name in _OURS), *in_checkout]
    members = chain(
        (_named(file, ROOT, 0) for room in dict.fromkeys(ours) for file in _files(room, own)),
        *(_domain(folder, number, own) for number, folder in enumerate(domain, 1)),
    )
    # Spark unpacks this form by `tar`, which keeps what may be executed
    return _archive(archive, members)


def pack_packages(folder: Path) -> Path:
    """What is installed here, made anew where anything else is."""
    its = sorted(_needed(), key=lambda one: one.name)
    told = [sys.version, *_LEFT_OUT, *(one.read_text("RECORD") or "" for one in its)]
    archive = folder / f"{PACKAGES}-{sha256(''.join(told).encode()).hexdigest()[:12]}.tar"
    if archive.exists():
        archive.touch()
    else:
        _archive(archive, chain.from_iterable(map(_installed, its)))
    _remove_old(folder)
    return archive


def _remove_old(folder: Path) -> None:
    """Removes packages that were others, and what was left by a process that was killed."""
    until_s = time.time() - _KEPT_S
    for file in (*folder.glob(f"{PACKAGES}-*.tar"), *folder.glob(f"{_PACKING}*")):
        with suppress(OSError):
            if file.stat().st_mtime < until_s:
                file.unlink()


def _named(file: Path, folder: Path, number: int) -> tuple[Path, str]:
    return file, f"{number}/{file.relative_to(folder)}"


def _domain(folder: Path, number: int, own: list[Path]) -> Iterator[tuple[Path, str]]:
    left = _DOMAIN_BYTES_MAX
    for file in _files(folder, own):
        with suppress(FileNotFoundError):  # it has gone meanwhile
            left -= file.stat().st_size
        if left < 0:
            raise NoApplicationError(
                f"{folder} on PYTHONPATH has more than {_DOMAIN_BYTES_MAX // 10**6} MB, and all of "
                "it would go to each executor: put the domain's modules in a folder of their own"
            )
        yield _named(file, folder, number)


def _files(room: Path, own: list[Path]) -> Iterator[Path]:
    """Without what is hidden, such as a repository's own files, or no code of the domain's."""
    if room.is_file():
        yield room
    seen: set[Path] = set()  # folders may be linked in a circle
    for path, inner, names in os.walk(room, followlinks=True):
        real = Path(path).resolve()
        if real in seen or real in own or Path(path, "pyvenv.cfg").exists():
            inner.clear()
            continue
        seen.add(real)
        inner[:] = sorted(one for one in inner if one[0] != "." and one not in _NO_CODE)
        for name in sorted(names):
            file = Path(path, name)
            if name[0] != "." and file.is_file() and os.access(file, os.R_OK):
                yield file


def _needed() -> Iterator[Distribution]:
    """All but what the checkout's other parts are locked to: a domain may have packages, too."""
    locks = ROOT / "requirements"
    others = {name for lock in locks.glob("*.txt") for name in _locked(lock)}
    jobs = locks / "jobs.txt"
    left_out = others - set(_locked(jobs)) if jobs.exists() else set()
    seen = {*left_out, "pip", "setuptools"}
    for one in distributions():
        if one.name and one.files and (name := _canonical(one.name)) not in seen:
            seen.add(name)  # the first one is the one that Python imports
            if _is_elsewhere(one):
                _log.warning(
                    "%s is installed as a link to its folder and does not go to the executors: "
                    "name the folder of its modules on PYTHONPATH",
                    one.name,
                )
            yield one


def _is_elsewhere(package: Distribution) -> bool:
    """Installed by `pip install -e`."""
    try:
        told = orjson.loads(package.read_text("direct_url.json") or "{}")
        return bool(told.get("dir_info", {}).get("editable"))
    except (ValueError, AttributeError):
        return False


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
    """Another process may be making the same one: each has all of it, or nothing."""
    mode = "w:gz" if file.suffix == ".tgz" else "w"
    with NamedTemporaryFile(dir=file.parent, prefix=_PACKING, delete=False) as new:
        try:
            with tarfile.open(fileobj=new, mode=mode, dereference=True) as archive:  # type: ignore[call-overload]
                for source, name in members:
                    with suppress(FileNotFoundError):  # an editor's, which has gone meanwhile
                        archive.add(source, name)
        except OSError as error:
            Path(new.name).unlink()
            raise NoApplicationError(
                f"the code for the executors cannot be packed: {error}: start again"
            ) from None
        except BaseException:
            Path(new.name).unlink()
            raise
    return Path(new.name).rename(file)
