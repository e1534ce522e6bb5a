"""What the manifests of deploy/kubernetes say is so: settings, commands, ports, probes, secrets."""

import re
import tomllib
import zipfile
from importlib.metadata import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest

from desk.pages.site import site
from gateway.monitor.routes import probe_routes
from shared.flow import load_flow
from shared.settings import GatewaySettings, JobSettings
from stream_jobs.__main__ import main as stream_jobs
from tests.certificates import Authority
from tests.deploy.kustomize import Manifest, containers, find, pods, render

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
FOLDERS = sorted(path.parent.name for path in FOLDER.glob("*/kustomization.yaml"))
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
DOCUMENT = (ROOT / "docs" / "operations.md").read_text().split("\n## Kubernetes\n")[1]
ENDS = {("headrace-prepare-0-1-0", "topics"), ("headrace-prepare-0-1-0", "migrate")}
# a job that has failed stays down until an operator looks, and the relay ends by itself
NOT_RESTARTED = {("headrace-jobs", "jobs"), ("headrace-relay", "relay")}
# settings that another part's process reads
SETTINGS: dict[str, type[GatewaySettings] | type[JobSettings]] = {
    "gateway": GatewaySettings,
    "desk": GatewaySettings,
    "stream_jobs": JobSettings,
}
GIVEN = {
    "postgres-url": "postgresql://headrace@postgres.example:5432/headrace?sslmode=verify-full",
    "kafka-username": "headrace",
    "status.podIP": "10.0.0.7",
}
SECRET = re.compile(r"PASSWORD|SECRET|POSTGRES_URL|ACCESS_KEY|CREDENTIALS_KEY")


@pytest.fixture(params=FOLDERS)
def made(request: pytest.FixtureRequest) -> list[Manifest]:
    return render(FOLDER / request.param)


def dockerfile(container: Manifest) -> str:
    image = container["image"].rpartition("/")[2].partition(":")[0]
    return (ROOT / f"Dockerfile.{image.removeprefix('headrace-')}").read_text()


def module(container: Manifest) -> str:
    """What it runs, where that is Python of ours."""
    command = container["command"]
    return command[2] if command[:2] == ["python", "-m"] else ""


def environment(made: list[Manifest], container: Manifest) -> dict[str, str]:
    """As its process gets it; secrets and what only a cluster knows have some value."""
    found: dict[str, str] = {}
    for row in container.get("envFrom", ()):
        found |= find(made, "ConfigMap", name=row["configMapRef"]["name"])["data"]
    for row in container.get("env", ()):
        found[row["name"]] = row["value"] if "value" in row else _value(made, row["valueFrom"])
    return found


def _value(made: list[Manifest], source: dict[str, Any]) -> str:
    ((kind, its),) = source.items()
    if kind == "configMapKeyRef":
        return str(find(made, "ConfigMap", name=its["name"])["data"][its["key"]])
    return GIVEN.get(its.get("key") or its["fieldPath"], "something")


def test_every_setting_is_one_that_its_process_reads_and_takes(
    made: list[Manifest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("kafka", "hooks", "spark"):
        (tmp_path / name).mkdir()
    (tmp_path / "kafka" / "ca.crt").write_bytes(Authority(tmp_path).file.read_bytes())
    (tmp_path / "hooks" / "hooks.key").write_text("00" * 32)
    (tmp_path / "spark" / "secret").write_text("word")
    asked = {module(one) for one in containers(made).values()} - {""}
    assert asked == SETTINGS.keys()
    for where, container in containers(made).items():
        given = environment(made, container)
        ours = {name: value for name, value in given.items() if name.startswith("HEADRACE_")}
        if not module(container):
            assert ours.keys() <= {"HEADRACE_SPARK_MASTER"}, where
            continue
        kind = SETTINGS[module(container)]
        known = {f"HEADRACE_{field.upper()}" for field in kind.model_fields}
        assert ours.keys() <= known, (where, ours.keys() - known)
        with monkeypatch.context() as patch:
            for name, value in ours.items():
                patch.setenv(name, value.replace("/etc/headrace", str(tmp_path)))
            settings = kind()
        assert settings.kafka_security == "sasl_ssl"
        if isinstance(settings, GatewaySettings):
            assert settings.ways_to_ask, where
        assert "HEADRACE_OPEN" not in ours


def test_files_that_settings_name_are_mounted_also_where_executors_read_them(
    made: list[Manifest],
) -> None:
    _, worker = next(its for its in containers(made).items() if its[0][1] == "worker")
    for where, container in containers(made).items():
        given = environment(made, container)
        if module(container) == "gateway":
            given.pop("HEADRACE_HOOKS_KEY_FILE")  # which the desk alone reads
        named = {Path(value).parent for name, value in given.items() if name.endswith("_FILE")}
        assert all(str(folder).startswith("/etc/headrace/") for folder in named)
        paths = {one["mountPath"] for one in container["volumeMounts"]}
        assert {str(folder) for folder in named} <= paths, where
        if where[1] == "jobs":
            of_driver_alone = {Path("/etc/headrace/spark")}
            there = {one["mountPath"] for one in worker["volumeMounts"]}
            assert {str(folder) for folder in named - of_driver_alone} <= there
        reads_conf = "--properties-file" in container.get("args", ())
        assert ("/etc/headrace/spark.conf" in paths) == reads_conf, where


def test_every_volume_is_there_and_what_a_process_writes_is_on_one(made: list[Manifest]) -> None:
    for name, pod in pods(made).items():
        claims = find(made, "StatefulSet", "Deployment", "Job", name=name)["spec"]
        there = [one["name"] for one in pod["volumes"]]
        there += [one["metadata"]["name"] for one in claims.get("volumeClaimTemplates", ())]
        assert len(set(there)) == len(there)
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            mounts = {one["mountPath"]: one for one in container["volumeMounts"]}
            assert {one["name"] for one in mounts.values()} <= set(there), name
            writes = {"/tmp"}
            if (state := environment(made, container).get("HEADRACE_STATE_DIR")) is not None:
                writes.add(str(Path(state).parent))  # a folder in it is the process's own
            assert writes <= {path for path, one in mounts.items() if not one.get("readOnly")}
        used = {one["name"] for part in (*pod.get("initContainers", ()), *pod["containers"])
                for one in part["volumeMounts"]}  # fmt: skip
        assert used == set(there), name


def test_every_command_is_one_of_its_image(made: list[Manifest]) -> None:
    jars = Path(find_spec("pyspark").origin).parent / "jars"
    (core,) = jars.glob("spark-core_*.jar")
    classes = zipfile.ZipFile(core).namelist()
    scripts = {file.name for file in files("pyspark") or ()}
    known = {*(job.name for job in load_flow().jobs()), "all", "relay", "topics", "migrate"}
    for where, container in containers(made).items():
        program, *rest = container["command"]
        if name := module(container):
            assert f"COPY {name}/ {name}/" in dockerfile(container), where
            assert (ROOT / name / "__main__.py").is_file()
            assert set(rest[2:]) <= known, where
            assert bool(rest[2:]) == (name == "stream_jobs"), where
        else:
            assert program in scripts, where
            assert "pyspark" in (ROOT / "requirements" / "jobs.txt").read_text()
            assert f"{rest[0].replace('.', '/')}.class" in classes, where
    assert stream_jobs(["no-such-job"]) == 2  # so it is asked what is known


def test_whatever_goes_on_running_is_asked_how_it_is(made: list[Manifest]) -> None:
    routes = {route.path for route in probe_routes(None, None)}
    desk = {route.path for route in site(None, secure_cookie=False).routes}
    jobs = {*(job.name for job in load_flow().jobs()), "relay", "all"}
    for where, container in containers(made).items():
        ports = {one["name"]: one["containerPort"] for one in container.get("ports", ())}
        probes = {key: probe for key, probe in container.items() if key.endswith("Probe")}
        assert ("readinessProbe" in probes) == (where not in ENDS), where
        restarts = where not in ENDS | NOT_RESTARTED
        assert ("livenessProbe" in probes and "startupProbe" in probes) == restarts, where
        for key, probe in probes.items():
            if "httpGet" in probe:
                known = desk if where[1] == "desk" else routes
                assert probe["httpGet"]["path"] in known, (where, key)
                assert probe["httpGet"]["port"] in ports, (where, key)
                assert key == "readinessProbe" or probe["httpGet"]["path"] == "/livez"
            elif "tcpSocket" in probe:
                assert probe["tcpSocket"]["port"] in ports, (where, key)
            else:
                command = probe["exec"]["command"]
                if command[:3] == ["python", "-m", "stream_jobs.healthcheck"]:
                    assert set(command[3:]) <= jobs, where
                    assert command[3:], where
                else:
                    (url,) = re.findall(r"'(http\S+?)'", command[2])
                    assert urlsplit(url).path in routes, where
                    port = environment(made, container)["HEADRACE_GATEWAY_PORT"]
                    assert urlsplit(url).port == int(port), where
                    compile(command[2], "probe", "exec")


def test_ports_are_those_that_the_settings_and_the_images_say(made: list[Manifest]) -> None:
    its = {name: {one["name"]: one["containerPort"] for one in container.get("ports", ())}
           for (_, name), container in containers(made).items()}  # fmt: skip
    gateway = find(made, "ConfigMap", name="headrace-gateway")["data"]
    assert its["gateway"] == {
        "http": int(gateway["HEADRACE_GATEWAY_PORT"]),
        "admin": int(gateway["HEADRACE_ADMIN_PORT"]),
    }
    assert its["desk"] == {"http": int(gateway["HEADRACE_DESK_PORT"])}
    for name in ("gateway", "desk"):
        assert f"EXPOSE {its[name]['http']}\n" in (ROOT / f"Dockerfile.{name}").read_text()
    conf = orjson.loads(
        find(made, "ConfigMap", name="headrace-jobs")["data"]["HEADRACE_SPARK_CONF"]
    )
    assert its["jobs"] == {
        "driver": int(conf["spark.driver.port"]),
        "blocks": int(conf["spark.driver.blockManager.port"]),
    }
    for name in ("master", "worker"):
        ((_, container),) = [one for one in containers(made).items() if one[0][1] == name]
        args = dict(zip(container["args"][::2], container["args"][1::2], strict=False))
        assert its[name] == {"spark": int(args["--port"])}


def quantity(text: str) -> float:
    number, unit = re.fullmatch(r"([\d.]+)(m|[KMGT]i)?", str(text)).groups()
    powers = {None: 1.0, "m": 1e-3, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
    return float(number) * powers[unit]


def test_addresses_in_settings_are_those_of_services(made: list[Manifest]) -> None:
    master = find(made, "ConfigMap", name="headrace-jobs")["data"]["HEADRACE_SPARK_MASTER"]
    host, port = urlsplit(master).hostname, urlsplit(master).port
    pod, _, name = str(host).partition(".")
    service = find(made, "Service", name=name)
    (runs,) = [one for one in made if one.get("spec", {}).get("serviceName") == name]
    assert pod == f"{runs['metadata']['name']}-0"
    assert f"$(POD_NAME).{name}" in runs["spec"]["template"]["spec"]["containers"][0]["args"]
    assert service["spec"]["clusterIP"] == "None"  # the pod's own address
    assert [one["port"] for one in service["spec"]["ports"]] == [port]


def test_every_service_and_budget_selects_pods_that_have_its_ports(made: list[Manifest]) -> None:
    names = [one["metadata"]["name"] for one in made if one["kind"] == "Service"]
    for one in made:
        kind, spec = one["kind"], one.get("spec", {})
        if kind in ("Service", "PodDisruptionBudget", "StatefulSet", "Deployment"):
            chosen = spec["selector"] if kind == "Service" else spec["selector"]["matchLabels"]
            templates = [
                its["spec"]["template"] for its in made if "template" in its.get("spec", {})
            ]
            hit = [its for its in templates if chosen.items() <= its["metadata"]["labels"].items()]
            assert len(hit) == 1, one["metadata"]["name"]
            parts = hit[0]["spec"]["containers"]
            ports = {port["name"] for part in parts for port in part.get("ports", ())}
            if kind == "Service":
                assert {port["targetPort"] for port in spec["ports"]} <= ports
        if kind == "StatefulSet":
            assert spec["serviceName"] in names


def test_secrets_are_named_and_never_written_and_the_document_makes_each(
    made: list[Manifest],
) -> None:
    assert not [one for one in made if one["kind"] == "Secret"]
    used: dict[str, set[str]] = {}
    for one in made:
        for name, value in one.get("data", {}).items() if one["kind"] == "ConfigMap" else ():
            assert name.endswith("_FILE") or not SECRET.search(name), name
            assert "://" not in value or "@" not in value
    for container in containers(made).values():
        for row in container.get("env", ()):
            source = row.get("valueFrom", {}).get("secretKeyRef")
            assert source or not SECRET.search(row["name"]), row
            if source:
                used.setdefault(source["name"], set()).add(source["key"])
    files_of = {"headrace-kafka-ca": "ca.crt", "headrace-postgres-ca": "ca.crt",
                "headrace-hooks": "hooks.key", "headrace-spark": "secret"}  # fmt: skip
    for pod in pods(made).values():
        for volume in pod["volumes"]:
            if "secret" in volume:
                name = volume["secret"]["secretName"]
                used.setdefault(name, set()).add(files_of[name])
    shown: dict[str, set[str]] = {}
    for command in re.findall(r"kubectl create secret generic .+?(?<!\\)\n", DOCUMENT, re.S):
        keys = set(re.findall(r"--from-(?:literal|file)=([\w.-]+)=", command))
        for part in re.findall(r"generic (\S+)", command):
            shown[part] = keys
    parts = re.findall(r"for part in ([\w ]+); do", DOCUMENT)
    if "headrace-$part" in shown:
        keys = shown.pop("headrace-$part")
        shown |= {f"headrace-{part}": keys for part in parts[0].split()}
    assert shown == used


def test_nothing_runs_as_root_or_can_become_it(made: list[Manifest]) -> None:
    for name, pod in pods(made).items():
        user = pod["securityContext"]
        assert user["runAsNonRoot"], name
        assert user["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        # else a Service headrace-gateway would set HEADRACE_GATEWAY_PORT, to what is no port
        assert pod["enableServiceLinks"] is False
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            ids = f"{user['runAsUser']}:{user['runAsGroup']}"
            assert f"\nUSER {ids}\n" in dockerfile(container)
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
    labels = find(made, "Namespace", name="headrace")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_every_container_asks_for_what_it_needs_and_has_a_limit(made: list[Manifest]) -> None:
    for where, container in containers(made).items():
        resources = container["resources"]
        assert quantity(resources["requests"]["cpu"]) > 0, where
        wanted, most = (quantity(resources[key]["memory"]) for key in ("requests", "limits"))
        assert 2**27 < wanted <= most, where


def test_images_are_those_of_this_version(made: list[Manifest]) -> None:
    for container in containers(made).values():
        assert container["image"].rpartition(":")[2] == VERSION
    assert find(made, "Job", name=f"headrace-prepare-{VERSION.replace('.', '-')}")


def test_a_gateway_has_the_time_and_the_disk_that_its_settings_say(made: list[Manifest]) -> None:
    settings = find(made, "ConfigMap", name="headrace-gateway")["data"]
    gateways = find(made, "StatefulSet", name="headrace-gateway")["spec"]
    waits_s = sum(float(settings[f"HEADRACE_SHUTDOWN_{name}_S"]) for name in ("DRAIN", "GRACE"))
    assert gateways["template"]["spec"]["terminationGracePeriodSeconds"] >= waits_s + 15
    (claim,) = gateways["volumeClaimTemplates"]
    room = quantity(claim["spec"]["resources"]["requests"]["storage"])
    assert room >= 2 * int(settings["HEADRACE_SPOOL_BYTES_MAX"])
    assert gateways["persistentVolumeClaimRetentionPolicy"] == {
        "whenDeleted": "Retain",
        "whenScaled": "Retain",
    }


def test_two_drivers_of_the_jobs_share_an_object_store_and_one_waits(made: list[Manifest]) -> None:
    jobs = find(made, "Deployment", name="headrace-jobs")["spec"]
    settings = find(made, "ConfigMap", name="headrace-jobs")["data"]
    assert jobs["replicas"] == 2
    assert settings["HEADRACE_STANDBY"] == "true"
    assert settings["HEADRACE_CHECKPOINT_STORE"].startswith("s3a://")
    assert jobs["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}


def test_workers_have_room_for_the_executors_of_both_drivers(made: list[Manifest]) -> None:
    settings = find(made, "ConfigMap", name="headrace-jobs")["data"]
    conf = orjson.loads(settings["HEADRACE_SPARK_CONF"])
    workers = find(made, "Deployment", name="headrace-spark-worker")["spec"]
    container = workers["template"]["spec"]["containers"][0]
    args = dict(zip(container["args"][::2], container["args"][1::2], strict=False))
    assert workers["replicas"] * int(args["--cores"]) >= 2 * int(conf["spark.cores.max"])
    needed, has = conf["spark.executor.memory"], args["--memory"]
    assert quantity(has.upper() + "i") >= 2 * quantity(needed.upper() + "i")
    # the one that works fills its own, and has Python's workers beside it
    limit = quantity(container["resources"]["limits"]["memory"])
    assert limit >= 3 * quantity(needed.upper() + "i")
    assert int(settings["HEADRACE_STATE_PARTITIONS"]) >= int(conf["spark.cores.max"])
