"""The alerts, judged by Prometheus' own evaluator: each fires under its cause and not else."""

import shutil
from pathlib import Path

import pytest

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


def test_a_rule_that_does_not_see_its_cause_fails_these_tests(tmp_path: Path) -> None:
    copy = shutil.copytree(FOLDER, tmp_path / "monitoring")
    rules = (copy / "alerts.yml").read_text()
    assert "(headrace_job_failed) == 1" in rules
    (copy / "alerts.yml").write_text(
        rules.replace("(headrace_job_failed) == 1", "(headrace_job_failed) == 2")
    )
    ran = promtool("test", "rules", "alerts_test.yml", folder=copy)
    assert ran.returncode != 0
    assert "HeadraceJobFailed" in ran.stdout + ran.stderr
