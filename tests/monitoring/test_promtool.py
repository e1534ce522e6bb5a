"""The alerts, judged by Prometheus' own evaluator: each fires under its cause and not else."""

import shutil
from pathlib import Path

import pytest
import yaml

from tests.promtool import promtool

pytestmark = pytest.mark.slow
FOLDER = Path(__file__).parents[2] / "monitoring"


def test_prometheus_takes_the_rules_and_the_sample_configuration() -> None:
    for what in (["check", "rules", "alerts.yml"], ["check", "config", "prometheus.yml"]):
        ran = promtool(*what, folder=FOLDER)
        assert ran.returncode == 0, ran.stdout + ran.stderr


def test_each_alert_fires_under_its_cause_and_is_silent_before_and_after() -> None:
    ran = promtool("test", "rules", "alerts_test.yml", folder=FOLDER)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_rules_that_never_fire_fail_each_of_these_tests(tmp_path: Path) -> None:
    copy = shutil.copytree(FOLDER, tmp_path / "monitoring")
    rules = yaml.safe_load((copy / "alerts.yml").read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            rule["expr"] = "vector(1) < 0"
    (copy / "alerts.yml").write_text(yaml.safe_dump(rules))
    ran = promtool("test", "rules", "alerts_test.yml", folder=copy)
    tests = yaml.safe_load((copy / "alerts_test.yml").read_text())["tests"]
    expecting = [one for one in tests if any(a["exp_samples"] for a in one["promql_expr_test"])]
    assert ran.returncode != 0
    assert (ran.stdout + ran.stderr).count("exp: {") == len(expecting) > 40
