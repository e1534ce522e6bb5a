"""The alerts are about what there is, and lead to what to do. When they fire: test_promtool.py."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.kafka_writer.kafka_log import KafkaLog
from gateway.monitor import report as report_module
from gateway.monitor.probes import KafkaSeen, Seen
from gateway.monitor.report import Observation, report
from gateway.node.node import Node
from gateway.server.composition import parts_of
from gateway.spool.spool import SpoolState
from shared.settings import GatewaySettings
from tests.certificates import Authority
from tests.monitoring import exported, promql
from tests.test_docs import _anchors

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "monitoring"
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text()
RULES = [
    rule
    for group in yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
NAMES = [rule["alert"] for rule in RULES]
TESTS = yaml.safe_load((FOLDER / "alerts_test.yml").read_text())["tests"]
OF_PROMETHEUS = {"up": {"job", "instance"}, "ALERTS": {"alertname", "alertstate", "severity"}}
every_rule = pytest.mark.parametrize("rule", RULES, ids=NAMES)


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    return exported.series(tmp_path_factory.mktemp("spool")) | OF_PROMETHEUS


def refuse_unknown(expression: str, series: dict[str, set[str]]) -> None:
    """What names no metric, or a label that its metrics lack, never fires and shows nothing."""
    told = promql.named(expression)
    assert told.metrics, expression
    for metric, labels in told.metrics.items():
        assert metric in series, f"no program exports {metric}"
        # Prometheus adds the address that it has read
        assert labels <= series[metric] | {"instance"}, f"{metric} has no label {labels}"
    known = {"instance"}.union(*(series[metric] for metric in told.metrics))
    assert told.labels <= known, f"none of {[*told.metrics]} has {told.labels - known}"


def test_an_expression_of_promql_is_read_for_what_it_names() -> None:
    told = promql.named(
        'max by (job) (a{x="y by (z)", w!~"v"}[5m]) > 14 * 86400 '
        "unless on (job, lane) (rate(b[5m]) == bool 2) or histogram_quantile(0.9, c)"
    )
    assert told == ({"a": {"x", "w"}, "b": set(), "c": set()}, {"job", "lane"})


@every_rule
def test_an_alert_is_about_metrics_and_labels_that_are_exported(
    rule: dict[str, Any], series: dict[str, set[str]]
) -> None:
    refuse_unknown(rule["expr"], series)
    for text in rule["annotations"].values():
        grouped = promql.named(rule["expr"])
        known = grouped.labels.union(*(series[name] for name in grouped.metrics)) | {"instance"}
        assert set(re.findall(r"\$labels\.(\w+)", text)) <= known


@pytest.mark.parametrize(
    "expression",
    ["headrace_nothing > 0", 'headrace_job_failed{task="fold"} > 0', "max by (x) (up)", "1 > 0"],
)
def test_an_expression_about_nothing_is_refused(
    expression: str, series: dict[str, set[str]]
) -> None:
    with pytest.raises(AssertionError):
        refuse_unknown(expression, series)


def test_the_gateway_s_own_parts_export_these_metrics(
    tmp_path: Path, series: dict[str, set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KafkaLog, "refusal", str)  # it has not started
    server = Authority(tmp_path).issue("CN=gateway")
    settings = GatewaySettings(
        state_dir=tmp_path,
        tls_cert_file=server.cert_file,
        tls_key_file=server.key_file,
        spool_bytes_max=0,  # its folder would stay locked
    )
    parts = parts_of(settings, Node(worker=0, workers=2))
    assert parts.metrics
    names = {family.name for family in parts.metrics.collect()}
    # of the desk; of a spool; of a keeper that has spoken
    others = ("headrace_letters", "headrace_gateway_spool", "headrace_ledger_")
    of_samples = re.compile(r"_(?:total|bucket|count|sum)$")
    for name in series.keys() - OF_PROMETHEUS.keys():
        if name.startswith(others):
            continue
        assert name in names or of_samples.sub("", name) in names, name


@every_rule
def test_an_alert_says_how_urgent_it_is_what_to_do_and_where_to_read_on(
    rule: dict[str, Any],
) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning")
    annotations = rule["annotations"]
    assert len(annotations["summary"]) > 20
    assert len(annotations["description"]) > 40
    page, _, anchor = annotations["runbook_url"].partition("#")
    assert page == "docs/runbook.md"
    assert anchor == rule["alert"].lower()
    assert anchor in _anchors(RUNBOOK)
    section = RUNBOOK.split(f"\n### {rule['alert']}\n")[1].split("\n#")[0]
    assert len(section.split()) > 20


def test_the_runbook_is_about_alerts_that_there_are() -> None:
    assert len(NAMES) == len(set(NAMES))
    assert re.findall(r"^### (\w+)$", RUNBOOK, re.M) == sorted(NAMES, key=_place_in_runbook)
    assert set(re.findall(r"`(Headrace\w+)`", RUNBOOK)) <= set(NAMES)


def _place_in_runbook(alert: str) -> int:
    return RUNBOOK.index(f"\n### {alert}\n")


def test_labels_of_the_same_name_survive_the_sample_configuration() -> None:
    """Else Prometheus puts its own `job` in the place of the metrics'."""
    scraped = yaml.safe_load((FOLDER / "prometheus.yml").read_text())["scrape_configs"]
    assert all(one["honor_labels"] for one in scraped)
    of_up = [re.findall(r'up\{job="([\w-]+)"\}', rule["expr"]) for rule in RULES]
    assert {one["job_name"] for one in scraped} == {name for names in of_up for name in names}


def test_each_alert_fires_in_one_of_promtool_s_tests() -> None:
    expected = [
        sample["labels"]
        for test in TESTS
        for asked in test["promql_expr_test"]
        for sample in asked["exp_samples"]
    ]
    assert {re.findall(r'alertname="(\w+)"', labels)[0] for labels in expected} == set(NAMES)


def test_the_codes_that_alerts_name_are_answers_of_the_gateway() -> None:
    code = "".join(path.read_text() for path in (ROOT / "gateway").rglob("*.py"))
    matched = [
        codes
        for rule in RULES
        if "refused_total" in rule["expr"]
        for codes in re.findall(r'reason=~?"([\w|]+)"', rule["expr"])
    ]
    assert len(matched) == 3
    for name in "|".join(matched).split("|"):
        assert f'"{name}"' in code, name


def kind(check: str) -> str:
    """Of a check of /health, as the table of the runbook has it."""
    places = {"job": "<name>", "source": "<table>", "lane": "<topic>", "breaker": "<job>:<store>"}
    first, _, _ = check.partition(":")
    return f"{first}:{places[first]}" if first in places else check


def every_check() -> set[str]:
    breakers = b'{"at_ms":1,"state":"running","breakers":{"postgres":{"state":"open"}}}'
    relay = b'{"at_ms":1,"state":"running","master_as_of_ms":1}'
    up = Seen(True, 1.0)
    seen = Observation(
        at_ms=2,
        kafka=KafkaSeen(up),
        postgres=up,
        accepts=True,
        view={},
        job_statuses={b"persist": breakers, b"relay": relay},
        spool=SpoolState(0, 0, 1000, 0, 0, 0),
        workers=2,
    )
    document = report(seen, ("persist", "relay"), ("dlq.enrich.v1",), ("source:price",))
    return {kind(check) for check in document["checks"]}


def test_each_check_of_health_has_an_alert() -> None:
    """A check that is new in the code is missed by nobody: its name stands there as a key."""
    rows = re.findall(r"^\| `([^`]+:[^`]+)` \| (`Headrace.+) \|$", RUNBOOK, re.M)
    table = {check: set(re.findall(r"`(\w+)`", alerts)) for check, alerts in rows}
    code = Path(report_module.__file__).read_text()
    in_code = set(re.findall(r'f?"([a-z_]+:[a-z_{}:]+)": ', code))
    assert {kind(name) for name in in_code} <= every_check()
    assert every_check() == table.keys()
    for check, alerts in table.items():
        assert alerts, check
        assert alerts <= set(NAMES), check
