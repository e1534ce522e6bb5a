"""How Kafka is reached and who logs in there, in the words of each client's library.

The secrets are in what is handed to the libraries, and nowhere else: none of it is to be logged.
"""

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Security = Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


class KafkaAwayError(Exception):
    """Kafka cannot be asked now."""


@dataclass(frozen=True)
class KafkaAccess:
    bootstrap: str
    security: Security = "plaintext"
    ca_file: Path | None = None  # none: those that the machine trusts
    cert_file: Path | None = None
    key_file: Path | None = None
    mechanism: Mechanism = "SCRAM-SHA-512"
    username: str = ""
    password: str = field(default="", repr=False)

    @property
    def has_tls(self) -> bool:
        return self.security in ("ssl", "sasl_ssl")

    @property
    def has_login(self) -> bool:
        return self.security in ("sasl_plaintext", "sasl_ssl")

    def for_librdkafka(self) -> dict[str, Any]:
        config = {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": self.security,
        }
        if self.has_tls:
            files = {
                "ssl.ca.location": self.ca_file,
                "ssl.certificate.location": self.cert_file,
                "ssl.key.location": self.key_file,
            }
            config |= {name: str(file) for name, file in files.items() if file is not None}
        if self.has_login:
            config |= {
                "sasl.mechanism": self.mechanism,
                "sasl.username": self.username,
                "sasl.password": self.password,
            }
        return config

    def for_reading(self, group: str) -> dict[str, Any]:
        """The group has to be named, and has no member: partitions are assigned."""
        return {
            **self.for_librdkafka(),
            "group.id": group,
            "enable.auto.commit": False,
            # Once as much is fetched as may wait, the client would fetch no more of the partition
            # for a whole second, in which most readers have long nothing left.
            "fetch.queue.backoff.ms": 10,
        }

    def for_aiokafka(self) -> dict[str, Any]:
        config: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap,
            "security_protocol": self.security.upper(),
        }
        if self.has_tls:
            config["ssl_context"] = self.tls()
        if self.has_login:
            config |= {
                "sasl_mechanism": self.mechanism,
                "sasl_plain_username": self.username,
                "sasl_plain_password": self.password,
            }
        return config

    def tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca_file)
        if self.cert_file and self.key_file:
            context.load_cert_chain(self.cert_file, self.key_file, password=lambda: "")
        return context
