"""What the JVMs of Kafka and Spark load at each start, parsed and checked once (class data
sharing): a third to a half of the work of their start. Without it all goes on as well, slower.

Which classes these are stands in jars/classes. After another version of a jar:

    HEADRACE_RECORD_CLASSES=FOLDER ./headrace up    # then ./headrace demo, stop, gzip -9n FOLDER/*
"""

import gzip
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from local_stack.machine.downloads import Downloads, fetch_downloads, home_of_pyspark
from local_stack.machine.java import Java, find_java
from local_stack.machine.locks import only_one_at_a_time
from local_stack.machine.paths import CHECKOUT, cache_dir
from local_stack.machine.processes import tied_to_this_process

LISTS = CHECKOUT / "jars" / "classes"
_MADE_WITHIN_S = 900.0  # it is the most patient of all processes


class ClassArchives:
    """The class archives of one Java, one Python environment and one set of jars: an archive fits
    no other."""

    def __init__(self, java: Java, downloads: Downloads) -> None:
        self._java, self._downloads = java, downloads
        of = hashlib.sha256(f"{java.home} {java.version} {downloads.folder} {sys.prefix}".encode())
        for name in self._commands():
            of.update(_list_of(name).read_bytes())
        self._folder = cache_dir() / f"classes-{of.hexdigest()[:12]}"

    def options(self, name: str) -> list[str]:
        """For the JVM of `kafka` or `spark`; a file that is not there would cost Java its own."""
        if recording := os.environ.get("HEADRACE_RECORD_CLASSES"):
            return [f"-XX:DumpLoadedClassList={Path(recording).absolute() / name}"]
        archive = self._archive(name)
        return [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []

    def spark_submit_opts(self, environment: Mapping[str, str]) -> dict[str, str]:
        own = environment.get("SPARK_SUBMIT_OPTS", "").split()
        options = [*own, *(o for o in self.options("spark") if o not in own)]
        return {"SPARK_SUBMIT_OPTS": " ".join(options)} if options else {}

    def are_made(self) -> bool:
        return all(self._is_made(name) for name in self._commands())

    def make(self) -> None:
        with only_one_at_a_time(cache_dir() / "classes.lock", "the class archives"):
            self._folder.mkdir(parents=True, exist_ok=True)
            for name, command in self._commands().items():
                if not self._is_made(name):
                    self._make(name, command)

    def _is_made(self, name: str) -> bool:
        """Or cannot be, with this Java: it is not tried at every start."""
        return self._archive(name).exists() or self._refusal(name).exists()

    def _refusal(self, name: str) -> Path:
        return self._folder / f"{name}.refused"

    def _archive(self, name: str) -> Path:
        return self._folder / f"{name}.jsa"

    def _commands(self) -> dict[str, Sequence[str]]:
        """What starts each JVM with exactly the class path that it has in service."""
        kafka = [self._java.command, "-cp", self._downloads.broker_class_path]
        return {"kafka": kafka, "spark": [*self.spark_submit, "none"]}

    @property
    def spark_submit(self) -> list[str]:
        command = str(home_of_pyspark() / "bin" / "spark-submit")
        return [command, "--driver-class-path", f"{self._downloads.spark_jars}/*"]

    def _make(self, name: str, command: Sequence[str]) -> None:
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            classes, half = Path(folder) / "classes", Path(folder) / "half"
            classes.write_bytes(gzip.decompress(_list_of(name).read_bytes()))
            options = f"-Xshare:dump -XX:SharedClassListFile={classes} -XX:SharedArchiveFile={half}"
            if name == "spark":
                environment = {"SPARK_SUBMIT_OPTS": options, "JAVA_HOME": str(self._java.home)}
            else:
                environment, command = {}, [command[0], *options.split(), *command[1:]]
            made = subprocess.run(
                tied_to_this_process(command, wrapper=["nice", "-n", "19"]),
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_MADE_WITHIN_S,
                check=False,
            )
            if made.returncode == 0 and half.exists():
                half.rename(self._archive(name))
            else:
                self._refusal(name).write_bytes(made.stdout + made.stderr)


def class_archives() -> ClassArchives:
    java = find_java()
    return ClassArchives(java, fetch_downloads(java))


def make_beside() -> None:
    """For the next start, while this one's stack already runs: it waits for everything else."""
    if not class_archives().are_made():
        subprocess.Popen(
            tied_to_this_process(
                [sys.executable, "-P", "-m", "local_stack.machine.class_archives"]
            ),
            env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )


def _list_of(name: str) -> Path:
    return LISTS / f"{name}.gz"


if __name__ == "__main__":
    class_archives().make()
