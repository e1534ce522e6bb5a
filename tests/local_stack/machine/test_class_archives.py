"""The class archives are what the JVMs really load from; without one they start as well."""

import os
import subprocess
from pathlib import Path

import pytest

from local_stack.machine.class_archives import ClassArchives, class_archives
from local_stack.machine.downloads import fetch_downloads
from local_stack.machine.java import Java, find_java

pytestmark = pytest.mark.stack


@pytest.mark.long
def test_kafka_loads_its_classes_from_the_archive() -> None:
    archives = class_archives()
    archives.make()
    command = [find_java().command, *archives.options("kafka"), "-Xlog:class+load"]
    command += ["-cp", fetch_downloads(find_java()).broker_class_path, "kafka.Kafka", "--version"]
    assert "kafka.Kafka$ source: shared objects file" in _output(command, {})


def test_spark_loads_its_classes_from_the_archive() -> None:
    archives = class_archives()
    archives.make()
    own = archives.spark_submit_opts({"SPARK_SUBMIT_OPTS": "-Xlog:class+load"})
    java = find_java()
    command = [*ClassArchives(java, fetch_downloads(java)).spark_submit, "--version"]
    said = _output(command, {**own, "JAVA_HOME": str(java.home)})
    assert "org.apache.spark.deploy.SparkSubmit$ source: shared objects file" in said


def test_where_none_is_made_java_gets_no_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = find_java()
    downloads = fetch_downloads(java)
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path))
    archives = ClassArchives(java, downloads)
    assert not archives.are_made()
    assert archives.options("kafka") == archives.options("spark") == []
    assert archives.spark_submit_opts({"SPARK_SUBMIT_OPTS": "-Da=b"}) == {
        "SPARK_SUBMIT_OPTS": "-Da=b"
    }


def test_a_java_that_makes_none_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\necho "$@" >> "$0.asked"\necho no such option\nexit 1\n')
    java.chmod(0o755)
    downloads = fetch_downloads(find_java())
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path))
    archives = ClassArchives(Java(tmp_path, "17"), downloads)
    for _ in range(2):
        archives.make()
    assert archives.are_made()
    assert archives.options("spark") == []
    asked = (tmp_path / "bin" / "java.asked").read_text()
    assert len(asked.splitlines()) == 2, "once for Kafka, once for Spark"


def _output(command: list[str], environment: dict[str, str]) -> str:
    found = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120
    )
    return found.stdout + found.stderr
