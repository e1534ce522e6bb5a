"""As much of kustomize as deploy/kubernetes uses, and an error for anything else. ConfigMaps keep
their plain names here; kustomize adds a digest of what is in them."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

Manifest = dict[str, Any]
_READ = {
    "apiVersion", "kind", "namespace", "resources", "generatorOptions", "configMapGenerator",
    "patches", "images", "replicas",
}  # fmt: skip
_LISTS_BY_NAME = ("containers", "initContainers", "env", "volumes", "ports")
_OF_NO_NAMESPACE = ("Namespace",)


def render(folder: Path) -> list[Manifest]:
    asked = yaml.safe_load((folder / "kustomization.yaml").read_text())
    if unknown := asked.keys() - _READ:
        raise ValueError(f"not read here: {', '.join(sorted(unknown))} of {folder.name}")
    made: list[Manifest] = []
    for name in asked["resources"]:
        path = folder / name
        made += render(path) if path.is_dir() else load(path)
    for row in asked.get("configMapGenerator", ()):
        _generate(made, row, folder, asked.get("generatorOptions", {}))
    for row in asked.get("patches", ()):
        for patch in load(folder / row["path"]):
            patched = find(made, patch["kind"], name=patch["metadata"]["name"])
            patched.update(_merged(patched, patch))
    for row in asked.get("images", ()):
        _rename(made, row)
    for row in asked.get("replicas", ()):
        find(made, "Deployment", "StatefulSet", name=row["name"])["spec"]["replicas"] = row["count"]
    for one in made:
        if one["kind"] not in _OF_NO_NAMESPACE:
            one["metadata"]["namespace"] = asked["namespace"]
    names = [(one["kind"], one["metadata"]["name"]) for one in made]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"there twice: {twice}")
    return made


def load(file: Path) -> list[Manifest]:
    return [deepcopy(one) for one in yaml.safe_load_all(file.read_text()) if one]  # no aliases


def env_file(file: Path) -> dict[str, str]:
    """As kustomize reads it: the value is all that follows the first `=`."""
    lines = [line for line in file.read_text().splitlines() if line and line[0] != "#"]
    pairs = [line.partition("=") for line in lines]
    if wrong := [line for line, (_, sign, _) in zip(lines, pairs, strict=True) if not sign]:
        raise ValueError(f"not read here: {wrong}")
    return {name: value for name, _, value in pairs}


def _generate(
    made: list[Manifest], row: dict[str, Any], folder: Path, options: dict[str, Any]
) -> None:
    if unknown := (row.keys() - {"name", "behavior", "envs", "files"}) | (
        options.keys() - {"labels"}
    ):
        raise ValueError(f"not read here: {', '.join(unknown)} of {row['name']}")
    data: dict[str, str] = {}
    for name in row.get("envs", ()):
        data |= env_file(folder / name)
    for name in row.get("files", ()):
        data[Path(name).name] = (folder / name).read_text()
    if row.get("behavior", "create") == "merge":
        find(made, "ConfigMap", name=row["name"])["data"].update(data)
    else:
        metadata = {"name": row["name"], **deepcopy(options)}
        made.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


def find(made: list[Manifest], *kinds: str, name: str) -> Manifest:
    its = [one for one in made if one["kind"] in kinds and one["metadata"]["name"] == name]
    if len(its) != 1:
        raise ValueError(f"{len(its)} of the kind {kinds} are called {name}")
    return its[0]


def _merged(was: Any, patch: Any, key: str = "") -> Any:
    if isinstance(was, dict) and isinstance(patch, dict):
        if any(name.startswith("$") for name in patch):
            raise ValueError(f"not read here: {patch}")
        changed = {name: _merged(was.get(name), its, name) for name, its in patch.items()}
        return {name: its for name, its in {**was, **changed}.items() if its is not None}
    if key in _LISTS_BY_NAME and isinstance(was, list):
        given = {one["name"]: one for one in patch}
        kept = [_merged(one, given.pop(one["name"], {})) for one in was]
        return [*kept, *given.values()]
    return patch


def pods(made: list[Manifest]) -> dict[str, Manifest]:
    """The specifications of pods, by the name of what makes them."""
    return {
        one["metadata"]["name"]: one["spec"]["template"]["spec"]
        for one in made
        if "template" in one.get("spec", {})
    }


def containers(made: list[Manifest]) -> dict[tuple[str, str], Manifest]:
    return {
        (name, container["name"]): container
        for name, pod in pods(made).items()
        for container in (*pod.get("initContainers", ()), *pod["containers"])
    }


def _rename(made: list[Manifest], row: dict[str, str]) -> None:
    for container in containers(made).values():
        image, _, tag = container["image"].rpartition(":")
        if image == row["name"]:
            container["image"] = f"{row.get('newName', image)}:{row.get('newTag', tag)}"
