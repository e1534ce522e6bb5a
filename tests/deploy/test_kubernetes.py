"""The manifests of deploy/kubernetes, rendered: Kubernetes takes each of them, and kustomize itself
makes the same."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from tests.deploy.kustomize import Manifest, load, render

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
FOLDERS = sorted(path.parent.name for path in FOLDER.glob("*/kustomization.yaml"))
SCHEMAS = json.loads((Path(__file__).parent / "kubernetes-1.37.json").read_text())
DIGEST = re.compile(r"-[a-z0-9]{10}$")


def wrong(manifest: Manifest) -> list[str]:
    """By the schemas of Kubernetes, which know all fields that there are."""
    kind = f"{manifest['apiVersion']}/{manifest['kind']}"
    if kind not in SCHEMAS["kinds"]:
        return [f"no schema of {kind}"]
    schema = {"$ref": f"#/$defs/{SCHEMAS['kinds'][kind]}", "$defs": SCHEMAS["$defs"]}
    errors = jsonschema_rs.validator_for(schema).iter_errors(manifest)
    return [f"{kind} {'.'.join(map(str, one.instance_path))}: {one.message}" for one in errors]


def test_there_is_a_base_and_a_pattern_for_folders_of_one_s_own() -> None:
    assert FOLDERS == ["base", "small"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_kubernetes_knows_every_field(folder: str) -> None:
    made = render(FOLDER / folder)
    assert len(made) > 25
    assert [fault for manifest in made for fault in wrong(manifest)] == []


def test_a_field_that_kubernetes_does_not_know_is_found() -> None:
    (gateway,) = [one for one in render(FOLDER / "base") if one["kind"] == "StatefulSet"
                  and one["metadata"]["name"] == "headrace-gateway"]  # fmt: skip
    container = gateway["spec"]["template"]["spec"]["containers"][0]
    container["readinesProbe"] = container.pop("readinessProbe")
    (fault,) = wrong(gateway)
    assert "readinesProbe" in fault
    gateway["spec"]["template"]["spec"]["containers"] = []
    del gateway["spec"]["selector"]
    assert any("selector" in fault for fault in wrong(gateway))


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_manifest_of_the_folder_is_used(folder: str) -> None:
    asked = (FOLDER / folder / "kustomization.yaml").read_text()
    for file in (FOLDER / folder).iterdir():
        assert file.name == "kustomization.yaml" or file.name in asked, file.name


def test_a_folder_of_one_s_own_changes_what_it_names_and_nothing_else() -> None:
    base, small = (
        {(one["kind"], one["metadata"]["name"]): one for one in render(FOLDER / name)}
        for name in FOLDERS
    )
    assert base.keys() == small.keys()
    settings = "ConfigMap", "headrace-settings"
    assert small[settings]["data"]["HEADRACE_KAFKA_BOOTSTRAP"] == "kafka.example:9093"
    was = base[settings]["data"]["HEADRACE_KAFKA_CA_FILE"]
    assert small[settings]["data"]["HEADRACE_KAFKA_CA_FILE"] == was
    gateway = "StatefulSet", "headrace-gateway"
    one, other = (
        its[gateway]["spec"]["template"]["spec"]["containers"][0] for its in (base, small)
    )
    assert other["image"].endswith(f"/{one['image']}")
    assert other["resources"]["requests"] == {"cpu": "100m", "memory": "512Mi"}
    assert other["env"] == one["env"]
    assert base["Deployment", "headrace-jobs"]["spec"]["replicas"] == 2
    assert small["Deployment", "headrace-spark-worker"]["spec"]["replicas"] == 1


def _without_digests(value: Any, config_maps: set[str]) -> Any:
    if isinstance(value, dict):
        return {key: _without_digests(its, config_maps) for key, its in value.items()}
    if isinstance(value, list):
        return [_without_digests(its, config_maps) for its in value]
    return DIGEST.sub("", value) if value in config_maps else value


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("kustomize") is None, reason="there is no kustomize")
@pytest.mark.parametrize("folder", FOLDERS)
def test_kustomize_itself_renders_the_same(folder: str, tmp_path: Path) -> None:
    command = ["kustomize", "build", str(FOLDER / folder)]
    built = subprocess.run(command, capture_output=True, timeout=120, check=True)
    (tmp_path / "built.yaml").write_bytes(built.stdout)
    made = load(tmp_path / "built.yaml")
    names = {one["metadata"]["name"] for one in made if one["kind"] == "ConfigMap"}
    assert all(DIGEST.search(name) for name in names)  # so a changed setting restarts its readers
    ours, theirs = (
        {(one["kind"], one["metadata"]["name"]): one for one in its}
        for its in (render(FOLDER / folder), _without_digests(made, names))
    )
    assert ours == theirs


def test_what_the_renderer_does_not_know_it_refuses(tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump({"nameSuffix": "-x"}))
    with pytest.raises(ValueError, match="not read here: nameSuffix"):
        render(tmp_path)
