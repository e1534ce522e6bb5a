"""A real OpenSearch in one process."""

import re
import shutil
from pathlib import Path

import httpx
import pytest

from local_stack.machine.downloads import fetch_for_tests
from local_stack.machine.java import Java, find_java
from local_stack.machine.ports import free_port
from tests.java_server import JVM, JavaServer

NAME = "OpenSearch"
SERVER, NETTY = "opensearch", "opensearch-netty"
VERSION = "2.19.6"
# it installs a security manager, which Java 24 no longer has
JAVA_MAX = 23

_FOLDERS = ("config", "data", "lib", "logs", "modules", "plugins", "tmp")

_MEMORY = "-Xms256m", "-Xmx256m"
# the disk of the machine that runs the tests may be as full as it is
_SETTINGS = """\
discovery.type: single-node
network.host: 127.0.0.1
http.port: {port}
transport.port: {transport_port}
http.type: netty4
transport.type: netty4
cluster.routing.allocation.disk.threshold_enabled: false
"""
_LOGGING = """\
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c{1.}: %m%n
"""
# the registry has the jars of the module that listens, but not the two files that lie beside them
_MODULE = f"""\
name=transport-netty4
description=Netty 4 based transport implementation
version={VERSION}
opensearch.version={VERSION}
java.version=11
classname=org.opensearch.transport.Netty4Plugin
custom.foldername=
extended.plugins=
has.native.controller=false
"""
_MODULE_MAY = """\
grant codeBase "${codebase.netty-common}" {
  permission java.io.FilePermission "/proc/sys/net/core/somaxconn", "read";
  permission java.lang.RuntimePermission "getClassLoader";
};
grant {
  permission java.net.SocketPermission "*", "accept,connect,listen,resolve";
  permission java.lang.RuntimePermission "accessDeclaredMembers";
};
"""


class OpenSearch(JavaServer):
    def __init__(self, folder: Path) -> None:
        super().__init__(NAME, folder)
        self._transport_port = free_port([self._port])

    def make(self) -> list[str]:
        java = find_java()
        if not runs_on(java.version):
            pytest.skip(f"{NAME} {VERSION} needs Java 17 or 21, and this one is {java.version}")
        jars = fetch_for_tests(NAME, [SERVER, NETTY], java)
        self._make_home(jars / NETTY)
        return self._command_of(java, jars / SERVER)

    def answers(self) -> bool:
        """And has opened what it kept: its first answers come before its indices do."""
        asked = {"wait_for_status": "yellow", "timeout": "1s"}
        try:
            answer = httpx.get(f"{self.url}/_cluster/health", params=asked, timeout=5)
        except httpx.TransportError:
            return False
        return answer.status_code == 200

    def _make_home(self, module_jars: Path) -> None:
        for name in _FOLDERS:
            (self.home / name).mkdir(parents=True, exist_ok=True)
        settings = _SETTINGS.format(port=self._port, transport_port=self._transport_port)
        (self.home / "config" / "opensearch.yml").write_text(settings)
        (self.home / "config" / "log4j2.properties").write_text(_LOGGING)
        # copied, for what a module may do is tied to the place where its jar really lies
        module = shutil.copytree(
            module_jars, self.home / "modules" / "transport-netty4", dirs_exist_ok=True
        )
        (module / "plugin-descriptor.properties").write_text(_MODULE)
        (module / "plugin-security.policy").write_text(_MODULE_MAY)

    def _command_of(self, java: Java, jars: Path) -> list[str]:
        return [
            java.command,
            *_MEMORY,
            *JVM,
            "-Djava.security.manager=allow",
            f"-Djava.io.tmpdir={self.home / 'tmp'}",
            f"-Dopensearch.path.home={self.home}",
            f"-Dopensearch.path.conf={self.home / 'config'}",
            "-Dopensearch.distribution.type=tar",
            *("-cp", str(jars / "*")),
            "org.opensearch.bootstrap.OpenSearch",
        ]


def runs_on(java_version: str) -> bool:
    major = re.match(r"\d+", java_version)
    return major is not None and int(major[0]) <= JAVA_MAX
