import os
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.settings import JobSettings
from stream_jobs.supervision import application
from stream_jobs.supervision.application import NoApplicationError
from stream_jobs.supervision.cluster import cluster_config
from stream_jobs.supervision.session import with_own

VARIABLES = ("PATH", "PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_SUBMIT_ARGS")


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*VARIABLES, "HEADRACE_DRIVER_PATH", "HEADRACE_DRIVER_PYTHON"):
        monkeypatch.setenv(name, "")


@pytest.fixture
def without_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "_needed", lambda: iter(()))


def _settings(tmp_path: Path, **more: object) -> JobSettings:
    (tmp_path / "spark").mkdir(parents=True, exist_ok=True)
    return JobSettings(
        spark_master="spark://127.0.0.1:7077",
        state_dir=tmp_path,
        **more,  # type: ignore[arg-type]
    )


def _archives(config: dict[str, str]) -> dict[str, set[str]]:
    found = {}
    for one in config["spark.archives"].split(","):
        file, _, name = one.partition("#")
        with tarfile.open(file) as archive:
            found[name] = set(archive.getnames())
    return found


def test_only_these_masters_are_in_the_jobs_own_process() -> None:
    masters = "local", "local[3]", "spark://one:7077,two:7077", "k8s://https://10.0.0.1:6443"
    found = [JobSettings(spark_master=master).on_cluster for master in masters]
    assert found == [False, False, True, True]


@pytest.mark.slow
def test_an_application_brings_its_code_its_packages_and_the_domains_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    domain = tmp_path / "domain"
    (domain / "inner").mkdir(parents=True)
    (domain / "inner" / "rules.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(domain))
    config = cluster_config(_settings(tmp_path), tmp_path, {"fold": ("a",)}, ())
    its = _archives(config)
    assert "0/stream_jobs/fold/job.py" in its["headrace-code"]
    assert "0/stream_jobs/supervision/worker_python" in its["headrace-code"]
    assert "1/inner/rules.py" in its["headrace-code"]
    assert not any(name.startswith(("0/gateway", "0/tests")) for name in its["headrace-code"])
    packages = {name.split("/")[0] for name in its["headrace-packages"]}
    assert {"pyspark", "pandas", "pyarrow", "confluent_kafka", "orjson", "psycopg"} <= packages
    assert not {"pytest", "mypy", "fastapi", "pip"} & packages
    assert not any(name.startswith("pyspark/jars/") for name in its["headrace-packages"])
    # what does not change is not packed anew
    before = next((tmp_path / "spark").glob("headrace-packages-*.tar")).stat().st_ino
    cluster_config(_settings(tmp_path), tmp_path, {}, ())
    assert next((tmp_path / "spark").glob("headrace-packages-*.tar")).stat().st_ino == before


@pytest.mark.slow
def test_the_clusters_secret_is_on_no_command_line(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cr3t\n")
    settings = _settings(tmp_path, spark_secret_file=tmp_path / "secret")
    config = cluster_config(settings, tmp_path, {}, ())
    assert config["spark.authenticate"] == config["spark.network.crypto.enabled"] == "true"
    assert "s3cr3t" not in str(config)
    assert not any("s3cr3t" in value for value in os.environ.values())
    file = tmp_path / "cluster.conf"
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.read_text() == "spark.authenticate.secret s3cr3t\n"
    assert f"python3.{sys.version_info.minor}" in config.values()


@pytest.mark.slow
@pytest.mark.parametrize("told", [None, "", "two words", "back\\slash", b"\xff"])
def test_a_secret_that_is_none_is_refused(tmp_path: Path, told: str | bytes | None) -> None:
    file = tmp_path / "secret"
    if told is not None:
        file.write_bytes(told if isinstance(told, bytes) else told.encode())
    with pytest.raises(NoApplicationError, match="HEADRACE_SPARK_SECRET_FILE"):
        cluster_config(_settings(tmp_path, spark_secret_file=file), tmp_path, {}, ())


def test_a_folder_that_is_no_domains_does_not_go_to_executors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    (home / ".git").mkdir(parents=True)
    (home / ".git" / "pack").write_bytes(bytes(2_000_000))
    (home / "film.bin").write_bytes(bytes(400_000))
    monkeypatch.setattr(application, "_DOMAIN_BYTES_MAX", 3_000_000)
    monkeypatch.setenv("PYTHONPATH", str(home))
    monkeypatch.setattr(application, "_needed", lambda: iter(()))
    its = _archives(cluster_config(_settings(tmp_path), tmp_path, {}, ()))["headrace-code"]
    assert {name for name in its if name.startswith("1/")} == {"1/film.bin"}
    (home / "another.bin").write_bytes(bytes(4_000_000))
    with pytest.raises(NoApplicationError, match="a folder of their own"):
        cluster_config(_settings(tmp_path), tmp_path, {}, ())


@pytest.mark.usefixtures("without_packages")
def test_state_and_environments_in_the_domains_folder_stay_here_and_links_are_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    domain = tmp_path / "domain"
    for inner in ("state/kafka", "state/spark", "env/lib", "..data", "rules"):
        (domain / inner).mkdir(parents=True)
    (domain / "state" / "kafka" / "log").write_text("")
    (domain / "env" / "pyvenv.cfg").write_text("")
    (domain / "env" / "lib" / "x.py").write_text("")
    (domain / "..data" / "own.py").write_text("")
    (domain / "own.py").symlink_to("..data/own.py")
    (domain / "rules" / "round").symlink_to(domain)
    monkeypatch.setenv("PYTHONPATH", str(domain))
    config = cluster_config(_settings(domain / "state"), tmp_path, {}, ())
    with tarfile.open(config["spark.archives"].partition("#")[0]) as code:
        its = {one.name: one for one in code.getmembers() if one.name.startswith("1/")}
    assert its.keys() == {"1/own.py"}
    assert its["1/own.py"].isfile()


@pytest.mark.slow
@pytest.mark.usefixtures("without_packages")
def test_a_flow_in_the_checkout_goes_along(tmp_path: Path) -> None:
    settings = _settings(tmp_path, flow="tests.stream_jobs.views_flow:FLOW")
    its = _archives(cluster_config(settings, tmp_path, {}, ()))["headrace-code"]
    assert "0/tests/stream_jobs/views_flow.py" in its


@pytest.mark.usefixtures("without_packages")
@pytest.mark.parametrize(
    ("master", "told"),
    [
        ("yarn", "is no master"),
        ("spark://", "is no master"),
        ("spark://one:x", "is no master"),
        ("spark://10.0.0.1:7077", "unencrypted"),
    ],
)
def test_a_master_that_no_job_can_go_to_is_refused(tmp_path: Path, master: str, told: str) -> None:
    settings = _settings(tmp_path).model_copy(update={"spark_master": master})
    with pytest.raises(NoApplicationError, match=told):
        cluster_config(settings, tmp_path, {}, ())


@pytest.mark.usefixtures("without_packages")
def test_another_name_of_the_drivers_need_not_be_an_address_of_this_machine(
    tmp_path: Path,
) -> None:
    config = cluster_config(_settings(tmp_path, spark_driver_host="jobs.example"), tmp_path, {}, ())
    assert config["spark.driver.host"] == "jobs.example"
    assert config["spark.driver.bindAddress"] == "0.0.0.0"


def test_what_an_operator_adds_for_executors_is_beside_what_the_jobs_bring() -> None:
    ours = {"spark.archives": "code.tgz#code", "spark.jars": "a.jar", "spark.driver.memory": "1g"}
    own = {"spark.archives": "models.tgz#models", "spark.driver.memory": "2g"}
    assert with_own(ours, own) == {
        "spark.archives": "code.tgz#code,models.tgz#models",
        "spark.jars": "a.jar",
        "spark.driver.memory": "2g",
    }


def test_a_file_that_goes_while_it_is_packed_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editor's, for example."""
    domain = tmp_path / "domain"
    domain.mkdir()
    for name in ("flow.py", "swap.py"):
        (domain / name).write_text("")
    files = application._files

    def then_one_goes(room: Path, own: list[Path]) -> Iterator[Path]:
        for file in files(room, own):
            if file.name == "swap.py":
                file.unlink()
            yield file

    monkeypatch.setattr(application, "_files", then_one_goes)
    packed = application.pack_code(tmp_path / "code.tgz", "flow:FLOW", [domain], [])
    with tarfile.open(packed) as archive:
        names = archive.getnames()
    assert "1/flow.py" in names
    assert "1/swap.py" not in names


def test_archives_of_old_packages_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "_needed", lambda: iter([]))
    old = tmp_path / "headrace-packages-0123456789ab.tar"
    left, new = tmp_path / ".packing-abc", tmp_path / "headrace-packages-123456789abc.tar"
    for file in (old, left, new):
        file.touch()
    for file in (old, left):
        os.utime(file, (0, 0))
    packed = application.pack_packages(tmp_path)
    assert {*tmp_path.iterdir()} == {packed, new}
    os.utime(packed, (0, 0))
    assert application.pack_packages(tmp_path) == packed  # in use again
    assert packed.exists()


def test_a_package_that_is_a_link_to_its_folder_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Linked:
        name, files = "my-domain", ["my_domain.pth"]

        def read_text(self, _: str) -> str:
            return '{"dir_info": {"editable": true}, "url": "file:///home/me/my-domain"}'

    monkeypatch.setattr(application, "distributions", lambda: [Linked()])
    assert [one.name for one in application._needed()] == ["my-domain"]
    assert "my-domain is installed as a link to its folder" in caplog.text
