"""A real broker that wants TLS and a login, and lets nobody do what is not listed."""

import subprocess
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from local_stack.machine.downloads import fetch_downloads
from local_stack.machine.java import find_java
from local_stack.machine.ports import free_port
from local_stack.servers.kafka import JVM, LOGGING, PROPERTIES
from shared.flow import FLOW
from shared.published.acls import Acl, acls
from tests.certificates import Authority
from tests.kafka_log import eventually

PASSWORD = "not 'one' of \"those\" \\ words"

_LOGIN = "org.apache.kafka.common.security.{kind}.{name}LoginModule"
_SECURE = """\
listeners=SASL_SSL://127.0.0.1:{sasl_port},SSL://127.0.0.1:{ssl_port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=SASL_SSL://127.0.0.1:{sasl_port},SSL://127.0.0.1:{ssl_port}
listener.security.protocol.map=SASL_SSL:SASL_SSL,SSL:SSL,CONTROLLER:PLAINTEXT
inter.broker.listener.name=SSL
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
ssl.truststore.type=PEM
ssl.truststore.location={truststore}
listener.name.ssl.ssl.client.auth=required
ssl.principal.mapping.rules=RULE:^CN=([^,]+).*$/$1/
sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={scram} required;
listener.name.sasl_ssl.plain.sasl.jaas.config={plain} required {plain_users};
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:admin;User:ANONYMOUS
"""
PLAIN_PASSWORD = "plain-text"


class SecureKafka:
    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        self._folder = folder
        ports: list[int] = []
        for _ in range(3):
            ports.append(free_port(ports))
        self._ports = ports
        self.bootstrap = f"127.0.0.1:{ports[0]}"
        self.bootstrap_mtls = f"127.0.0.1:{ports[1]}"
        self._password_file = folder / "password"
        self._password_file.write_text(PASSWORD + "\n")
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        java = find_java()
        downloads = fetch_downloads(java)
        settings = self._write_properties()
        run = [java.command, *JVM, "-Xmx512m", *LOGGING, "-cp", downloads.broker_class_path]
        storage = ["kafka.tools.StorageTool", "format", "-t", "TestTestTestTestTestTQ"]
        with (self._folder / "kafka.log").open("wb") as log:
            subprocess.run([*run, *storage, "-c", settings], stdout=log, stderr=log, check=True)
            self._process = subprocess.Popen(
                [*run, "kafka.Kafka", settings], stdout=log, stderr=log
            )
        eventually(self._answers, 120)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(20)

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient({**self.mtls("admin"), "log_level": 0})

    def mtls(self, user: str) -> dict[str, Any]:
        issued = self.authority.issue(f"CN={user}")
        return {
            "bootstrap.servers": self.bootstrap_mtls,
            "security.protocol": "ssl",
            "ssl.ca.location": str(self.authority.file),
            "ssl.certificate.location": str(issued.cert_file),
            "ssl.key.location": str(issued.key_file),
        }

    def variables(self, user: str) -> dict[str, str]:
        """What a part's environment has to say to come in as that user."""
        return {
            "HEADRACE_KAFKA_BOOTSTRAP": self.bootstrap,
            "HEADRACE_KAFKA_SECURITY": "sasl_ssl",
            "HEADRACE_KAFKA_CA_FILE": str(self.authority.file),
            "HEADRACE_KAFKA_SASL_USERNAME": user,
            "HEADRACE_KAFKA_SASL_PASSWORD_FILE": str(self._password_file),
        }

    def denials_of(self, user: str) -> int:
        """As the broker has written them into its log until now."""
        return (self._folder / "kafka.log").read_text().count(f"User:{user} is Denied")

    def make_users(self, *names: str) -> None:
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        changes = [UserScramCredentialUpsertion(n, info, PASSWORD.encode()) for n in names]
        for changed in self.admin.alter_user_scram_credentials(changes).values():
            changed.result(30)

    def make_topics(self, names: Iterable[str]) -> None:
        for made in self.admin.create_topics([NewTopic(n, 4, 1) for n in names]).values():
            made.result(30)

    def allow(self, found: Iterable[Acl]) -> None:
        for done in self.admin.create_acls([_binding(acl) for acl in found]).values():
            done.result(30)

    def forbid(self, found: Iterable[Acl]) -> None:
        filters = [
            AclBindingFilter(
                b.restype,
                b.name,
                b.resource_pattern_type,
                b.principal,
                b.host,
                b.operation,
                b.permission_type,
            )
            for b in map(_binding, found)
        ]
        for done in self.admin.delete_acls(filters).values():
            done.result(30)

    def _write_properties(self) -> str:
        issued = self.authority.issue("CN=admin", name="broker")
        keystore = self._folder / "broker.pem"
        keystore.write_text(issued.key_file.read_text() + issued.cert_file.read_text())
        sasl_port, ssl_port, controller_port = self._ports
        plain = PROPERTIES.format(
            data=self._folder / "data", port=0, controller_port=controller_port
        )
        secure = _SECURE.format(
            sasl_port=sasl_port,
            ssl_port=ssl_port,
            controller_port=controller_port,
            keystore=keystore,
            truststore=self.authority.file,
            scram=_LOGIN.format(kind="scram", name="Scram"),
            plain=_LOGIN.format(kind="plain", name="Plain"),
            plain_users=f'user_headrace-operator="{PLAIN_PASSWORD}"',
        )
        replaced = {line.partition("=")[0] for line in secure.splitlines()}
        kept = [line for line in plain.splitlines() if line.partition("=")[0] not in replaced]
        file = self._folder / "server.properties"
        file.write_text("\n".join([*kept, secure]))
        return str(file)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "kafka.log").read_text()[-3000:]
        try:
            return bool(self.admin.list_topics(timeout=2).brokers)
        except Exception:
            return False


def acls_of(*applications: str) -> list[Acl]:
    return [acl for acl in acls(FLOW) if acl.application in applications]


def _binding(acl: Acl) -> AclBinding:
    kinds = {
        "topic": ResourceType.TOPIC,
        "group": ResourceType.GROUP,
        "cluster": ResourceType.BROKER,
    }
    return AclBinding(
        kinds[acl.kind],
        acl.name,
        ResourcePatternType.LITERAL,
        f"User:headrace-{acl.application}",
        "*",
        AclOperation[acl.operation],
        AclPermissionType.ALLOW,
    )
