"""The machine: what `up` would find on it, without fetching or making anything."""

import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from local_stack.doctor.findings import Finding, checked, green, red, yellow
from local_stack.machine import preflight
from local_stack.machine.downloads import downloads_folder
from local_stack.machine.java import java_of_the_machine, wheel_folder
from local_stack.machine.ports import is_free
from local_stack.machine.trust_store import find_bundle
from local_stack.servers.addresses import CUSTOMARY_PORTS, OWN_SERVER


def look_at_machine(folder: Path, status: dict[str, Any]) -> list[Finding]:
    there = next(path for path in (folder, *folder.parents) if path.exists())
    findings = [
        checked("Python", preflight.python),
        checked("Linux tools", preflight.linux_tools),
        checked("user", preflight.postgres_user),
        *_java(),
        checked("disk", lambda: preflight.disk(there)),
    ]
    if not status["running"]:  # then it has its memory already
        findings.append(checked("memory", preflight.memory))
    return [*findings, *_ports(status), _downloads(), _certificates(), _proxy()]


def _java() -> list[Finding]:
    found, refused = java_of_the_machine()
    fix = "nothing must be done, another is used; or install a Java 17, 21 or >= 25.0.3"
    findings = [yellow("Java", why, fix) for why in refused]
    if found:
        findings.append(green("Java", found.version, str(found.home)))
    elif wheel_folder().exists():
        findings.append(green("Java", "a runtime of its own", str(wheel_folder())))
    else:
        fix = "the next start fetches one (44 MB)"
        findings.append(yellow("Java", "no usable one on this machine", fix))
    return findings


def _ports(status: dict[str, Any]) -> list[Finding]:
    """Only of what `up` starts itself."""
    if status["running"]:
        ports = status.get("ports", {})
        return [green("ports", _named(ports), "those of the running stack")]
    wanted = {n: p for n, p in CUSTOMARY_PORTS.items() if not os.environ.get(OWN_SERVER.get(n, ""))}
    own = os.environ.get("HEADRACE_GATEWAY_PORT", "")
    if own.isdecimal():  # another value is a wrong setting, told as such
        wanted["gateway"] = int(own)
    real = {name: port for name, port in wanted.items() if 1 <= port <= 65_535}
    taken = {name: port for name, port in real.items() if not is_free(port)}
    if taken:
        fix = "nothing must be done: `up` chooses others and says which"
        return [yellow("ports", f"taken: {_named(taken)}", fix)]
    return [green("ports", _named(wanted), "free")]


def _named(ports: dict[str, int]) -> str:
    return ", ".join(f"{name} {port}" for name, port in ports.items())


def _downloads() -> Finding:
    wanted = {
        "the Python environment": Path(sys.prefix) / ".complete",
        "Kafka, jars for Spark and PostgreSQL": downloads_folder(),
    }
    missing = [name for name, path in wanted.items() if not path.exists()]
    if missing:
        fix = "the next start needs the network and fetches them"
        return yellow("downloads", f"not there yet: {', '.join(missing)}", fix)
    return green("downloads", "all there", "the next start needs no network for them")


def _certificates() -> Finding:
    named = os.environ.get("SSL_CERT_FILE")
    if named and not Path(named).is_file():
        return red("certificates", f"SSL_CERT_FILE={named} is no file", "mend it or unset it")
    bundle = find_bundle()
    if bundle is None:
        fix = "install the package ca-certificates, or let SSL_CERT_FILE name a bundle"
        return yellow("certificates", "no bundle found: downloads may fail", fix)
    return green("certificates", "a bundle", str(bundle))


def _proxy() -> Finding:
    used = [f"{scheme} by {_place(url)}" for scheme, url in sorted(getproxies().items())]
    return green("proxy", ", ".join(used) or "none")


def _place(url: str) -> str:
    """Never its password."""
    parts = urlsplit(url)
    return parts.netloc.rpartition("@")[2] or url
