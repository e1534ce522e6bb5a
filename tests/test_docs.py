"""What the documents say of settings, files, topics and commands is what there is."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from local_stack.cli import app
from local_stack.contracts import settings
from shared.flow import load_flow
from shared.settings import GatewaySettings, JobSettings

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
INDEX = (ROOT / "docs" / "README.md").read_text()
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
DEVICES = (ROOT / "docs" / "devices.md").read_text()
CONSUMERS = (ROOT / "docs" / "consumers.md").read_text()
CONFIGURATION = (ROOT / "docs" / "configuration.md").read_text()
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text()
YOUR_OWN_DOMAIN = (ROOT / "docs" / "your-own-domain.md").read_text()
SECURITY = (ROOT / "docs" / "security.md").read_text()
DECISIONS = ROOT / "docs" / "decisions"
DECISION_INDEX = DECISIONS / "README.md"
DECISION_FILES = sorted(set(DECISIONS.glob("*.md")) - {DECISION_INDEX})
DOCUMENTS = {
    "README": README,
    "CONTRIBUTING": CONTRIBUTING,
    "ARCHITECTURE": ARCHITECTURE,
    "CHANGELOG": CHANGELOG,
    "INDEX": INDEX,
    "GLOSSARY": GLOSSARY,
    "DEVICES": DEVICES,
    "CONSUMERS": CONSUMERS,
    "CONFIGURATION": CONFIGURATION,
    "YOUR_OWN_DOMAIN": YOUR_OWN_DOMAIN,
    "SECURITY": SECURITY,
    "OPERATIONS": OPERATIONS,
    "RUNBOOK": RUNBOOK,
    **{f"decisions/{path.stem}": path.read_text() for path in (*DECISION_FILES, DECISION_INDEX)},
}
README_LINES_MAX = 200
FIELDS = GatewaySettings.model_fields | JobSettings.model_fields
PACKAGES = (
    *("gateway", "shared", "stream_jobs", "clients", "desk", "local_stack", "consumer"),
    *("tests", "examples", "docs"),
    *("benchmarks", "contracts", "jars", "monitoring", "requirements"),
)


def _default(field: FieldInfo) -> str:
    value: Any = field.get_default(call_default_factory=True)
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if value is None:
        return "none"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def test_the_configuration_table_has_every_setting_with_its_default() -> None:
    shown = dict(re.findall(r"^\| `(HEADRACE_\w+)` \| (\S+) \| [^|]+ \|", CONFIGURATION, re.M))
    assert shown == {f"HEADRACE_{name.upper()}": _default(f) for name, f in FIELDS.items()}


def test_the_configuration_page_is_what_the_generator_makes() -> None:
    assert settings.page() == CONFIGURATION, "run ./headrace contracts and commit what it writes"


@pytest.mark.parametrize("name", FIELDS)
def test_every_setting_has_a_description(name: str) -> None:
    assert len(FIELDS[name].description or "") > 4


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= README_LINES_MAX


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_variable_that_a_document_names_is_read_somewhere(document: str) -> None:
    launcher = "".join(path.read_text() for path in (ROOT / "local_stack").rglob("*.py"))
    launcher += (ROOT / "headrace").read_text()
    settings = {f"HEADRACE_{name.upper()}" for name in FIELDS}
    for name in set(re.findall(r"HEADRACE_\w+", DOCUMENTS[document])) - settings:
        assert name in launcher, name


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_file_that_a_document_names_is_there(document: str) -> None:
    for name in re.findall(rf"`((?:{'|'.join(PACKAGES)})/[\w./*-]*)`", DOCUMENTS[document]):
        assert list(ROOT.glob(name)), name


def _markdown() -> list[Path]:
    """Every page of the checkout, none of what is fetched or made into it."""
    return [
        path
        for path in sorted(ROOT.rglob("*.md"))
        if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
    ]


def _without_code(text: str) -> str:
    """What stands in a block of code is neither a heading nor a link."""
    return re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.M | re.S)


def _anchors(text: str) -> set[str]:
    """Of its headings, as they are made where Markdown is shown."""
    anchors: set[str] = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", _without_code(text), re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        count = sum(
            re.fullmatch(rf"{re.escape(slug)}(-\d+)?", known) is not None for known in anchors
        )
        anchors.add(f"{slug}-{count}" if count else slug)
    return anchors


@pytest.mark.parametrize("page", _markdown(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file_and_to_a_heading_of_it(page: Path) -> None:
    text = re.sub(r"`[^`\n]*`", "", _without_code(page.read_text()))
    for link in re.findall(r"\]\(<?([^)>\s]+)", text):
        if re.match(r"[a-z][a-z0-9+.-]*:", link):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        assert target.resolve().is_relative_to(ROOT.resolve()), link
        assert not anchor or anchor in _anchors(target.read_text()), link


def test_links_and_anchors_are_read_as_they_are_shown() -> None:
    text = "# A `b`, c!\n## [Two words](x.md)\n## Two words\n```\n# no\n```\n"
    assert _anchors(text) == {"a-b-c", "two-words", "two-words-1"}


def test_every_page_of_the_folder_is_in_its_index() -> None:
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert pages <= set(re.findall(r"\]\(([\w-]+\.md)", INDEX))


@pytest.mark.parametrize("path", DECISION_FILES, ids=lambda path: path.stem)
def test_a_decision_has_its_headings_and_is_in_the_index(path: Path) -> None:
    text = path.read_text()
    titles = re.findall(r"^# (.+)$", text, re.M)
    assert len(titles) == 1
    assert text.startswith(f"# {titles[0]}\n")
    sections = re.findall(r"^## (.+)\n\n(?!#)\S", text, re.M)
    assert sections == ["Context", "Decision", "Consequences", "Figures"]
    by_subject = DECISION_INDEX.read_text().split("## Old letters")[0]
    assert by_subject.count(f"- [{titles[0]}]({path.name}): ") == 1


def test_every_old_letter_of_a_decision_leads_to_its_file() -> None:
    table = DECISION_INDEX.read_text().split("## Old letters")[1]
    rows = dict(re.findall(r"^\| \((\w+)\) \| (.+) \|$", table, re.M))
    letters = "abcdefghijklmnopqrstuvwxyz"
    assert list(rows) == [*letters, *(letter * 2 for letter in letters)]
    linked = {name for row in rows.values() for name in re.findall(r"\]\(([\w-]+\.md)\)", row)}
    assert linked <= {path.name for path in DECISION_FILES}
    assert all("](" in row for row in rows.values())


def test_the_architecture_stays_short_enough_to_be_read() -> None:
    assert len(ARCHITECTURE.splitlines()) <= 260


def test_every_file_of_the_code_map_is_there() -> None:
    map_text = ARCHITECTURE.split("## Code map")[1].split("```")[1]
    package = ""
    for line in map_text.splitlines():
        package = match[1] if (match := re.match(r"(\w+)/", line)) else package
        for name in re.findall(r"\b[\w]+\.py\b", line):
            assert list((ROOT / package).rglob(name)), f"{package}/{name}"


def test_every_room_of_the_product_is_on_the_code_map() -> None:
    map_text = ARCHITECTURE.split("## Code map")[1].split("## ")[0]
    for package in ("gateway", "shared", "stream_jobs", "clients", "desk", "local_stack"):
        own = re.split(r"\n(?=\w+/ )", map_text.partition(f"\n{package}/ ")[2])[0]
        for path in (ROOT / package).glob("*/__init__.py"):
            assert f"{path.parent.name}/" in own, path.parent


def test_every_file_that_the_architecture_names_is_there() -> None:
    for path in re.findall(r"`([\w/]+/[\w.]*)`", ARCHITECTURE):
        assert (ROOT / path).exists(), path


def _topics(text: str) -> set[str]:
    return set(re.findall(r"\b(?:\w+\.)+v1\b", text))


def test_the_page_for_consumers_names_every_topic_of_the_flow() -> None:
    assert {topic.name for topic in load_flow().topics()} <= _topics(CONSUMERS)


@pytest.mark.parametrize(
    "document", ["README", "DEVICES", "CONSUMERS", "OPERATIONS", "RUNBOOK", "SECURITY"]
)
def test_every_topic_that_a_document_names_is_one_of_the_flow(document: str) -> None:
    assert _topics(DOCUMENTS[document]) <= {topic.name for topic in load_flow().topics()}


def test_every_verb_that_a_document_shows_is_one_of_the_launcher_s() -> None:
    verbs = {c.name or c.callback.__name__ for c in app.registered_commands if c.callback}
    verbs |= {group.name for group in app.registered_groups if group.name}
    texts = [*DOCUMENTS.values(), (ROOT / "Makefile").read_text()]
    shown = {verb for text in texts for verb in re.findall(r"\./headrace (\w+)", text)}
    assert shown <= verbs


def test_the_sample_consumer_is_python_that_runs_on_this_version() -> None:
    sample, *_ = re.findall(r"```python\n(.+?)```", CONSUMERS, re.S)
    imported = [node for node in ast.walk(ast.parse(sample)) if isinstance(node, ast.ImportFrom)]
    assert [node.module for node in imported] == ["aiokafka"]


def test_every_code_that_devices_may_be_told_is_one_of_the_gateway_s() -> None:
    table = DEVICES.split("## Answers")[1].split("\n## ")[0]
    rows = re.findall(r"^\| [\d, ]+ \| ([^|]+) \|", table, re.M)
    codes = {code for row in rows for code in re.findall(r"`(\w+)`", row)}
    gateway = "".join(path.read_text() for path in (ROOT / "gateway").rglob("*.py"))
    assert len(codes) > 30
    assert {code for code in codes if f'"{code}"' not in gateway} == set()


def test_the_newest_change_is_of_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    newest = re.search(r"^## (\S+)", CHANGELOG, re.M)
    assert newest
    assert newest[1] == version


def test_the_commit_hook_calls_what_make_calls() -> None:
    (entry,) = re.findall(r"entry: make (\w+)", (ROOT / ".pre-commit-config.yaml").read_text())
    assert re.search(rf"^{entry}: ; \./headrace test", (ROOT / "Makefile").read_text(), re.M)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_no_document_names_a_path_or_a_password_of_some_machine(document: str) -> None:
    text = DOCUMENTS[document]
    assert not re.search(r"(?<![\w.}/])/(?:home|root|work|tmp|usr|var|opt)/", text)
    assert not re.search(r"://\w+:[^*\s@]+@", text)


@pytest.mark.slow
def test_the_domain_of_the_walk_through_is_drawn_and_tested_as_it_says(tmp_path: Path) -> None:
    domain, its_tests = re.findall(r"```python\n(.+?)```", YOUR_OWN_DOMAIN, re.S)
    (tmp_path / "doors.py").write_text(domain)
    (tmp_path / "test_doors.py").write_text(its_tests)
    path = os.pathsep.join([str(ROOT), str(tmp_path)])
    environment = {**os.environ, "PYTHONPATH": path, "HEADRACE_FLOW": "doors:FLOW"}

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", *arguments]
        ran = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    assert run("local_stack", "flow") in YOUR_OWN_DOMAIN
    assert "2 passed" in run("pytest", "test_doors.py")
