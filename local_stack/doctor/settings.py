"""Settings: wrong values, names that nothing reads, and the flow."""

import os

from local_stack.doctor.findings import Finding, checked, green, red, yellow
from local_stack.machine.preflight import CheckResult
from local_stack.machine.settings_check import (
    LAUNCHER_ONLY,
    PREFIX,
    chosen_flow,
    unknown_settings,
    wrong_settings,
)


def look_at_settings() -> list[Finding]:
    wrong = wrong_settings()
    findings = [
        red("settings", line, error.fix) for error in wrong for line in error.what.splitlines()
    ]
    findings = list(dict.fromkeys(findings))  # some are read by gateway and jobs
    findings += [
        yellow("settings", str(unknown), "unset it or mend its name")
        for unknown in unknown_settings()
    ]
    if not findings:
        unspoken = {PREFIX + name for name in LAUNCHER_ONLY}
        chosen = sorted(n for n in os.environ if n.startswith(PREFIX) and n not in unspoken)
        said = ", ".join(chosen)
        findings.append(green("settings", said or "none is set"))
    flow = checked("flow", _flow)
    told = set(flow.value.splitlines()) <= {finding.value for finding in findings}
    return findings if told else [*findings, flow]


def _flow() -> CheckResult:
    flow = chosen_flow()
    endpoints = ", ".join(endpoint.name for endpoint in flow.open_endpoints)
    return CheckResult(f"loads, takes {endpoints}", os.environ.get("HEADRACE_FLOW", "the sample"))
