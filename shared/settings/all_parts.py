"""The settings of all parts, Kafka's access among them."""

from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import Field, HttpUrl, PrivateAttr, SecretStr, model_validator
from pydantic.config import JsonDict
from pydantic_settings import BaseSettings, SettingsConfigDict

from shared.forwarding.mail_access import ADDRESS, MailAccess, mail_access
from shared.kafka_access import KafkaAccess, Mechanism, Security
from shared.lookups import HttpLookup
from shared.lookups.registry import registry_lookup
from shared.machine.private_folder import keep_private
from shared.settings.kafka_rules import refuse_what_does_not_go_together
from shared.settings.wrong_setting import PREFIX, WrongSetting, variable

# who reads a setting, where it is not everyone that its class is for: `read_by` below
READ_BY = "read_by"
_TOPICS: JsonDict = {READ_BY: "topics"}
_JOBS: JsonDict = {READ_BY: "jobs"}
_ENRICHMENT: JsonDict = {READ_BY: "enrich, retry, desk"}
_HOOKS: JsonDict = {READ_BY: "forward, desk"}
_GATEWAY_AND_RELAY: JsonDict = {READ_BY: "gateway, relay"}
_FOLD_AND_GATEWAY: JsonDict = {READ_BY: "fold, gateway"}

# no secret among the input of an error that nobody explains
_CONFIG = SettingsConfigDict(env_prefix=PREFIX, frozen=True, hide_input_in_errors=True)


class Settings(BaseSettings):
    """What every part needs."""

    model_config = _CONFIG
    READ_BY: ClassVar[str] = "all"

    kafka_bootstrap: str = Field(
        "127.0.0.1:9092",
        description="Kafka's address. If it is set, `up` uses that broker instead of its own",
    )
    postgres_url: SecretStr = Field(
        SecretStr("postgresql://headrace@127.0.0.1:5432/headrace"),
        description="The database, which must exist. If it is set, `up` uses that server instead "
        "of its own. Each part may have its own role (docs/security.md#postgresql); "
        "`?passfile=FILE` keeps the password out of the URL",
    )
    state_dir: Path = Field(
        Path(".headrace/state"),
        description="Folder for topics, database, checkpoints, the gateway's view and logs",
    )
    flow: str = Field(
        "shared.flow:FLOW",
        description="`module:attribute` of the flow table (docs/your-own-domain.md). The module's "
        "folder must be on `PYTHONPATH`; a state folder belongs to one flow",
    )
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = Field(
        "none",
        description="Compression of the records that the jobs write (`gzip`, `snappy`, `lz4`, "
        "`zstd`); consumers need the codec",
        json_schema_extra=_JOBS,
    )
    id_ring_size: int = Field(
        64,
        ge=0,
        description="How many ids of each event type an entity remembers to recognise duplicates",
        json_schema_extra=_FOLD_AND_GATEWAY,
    )
    partitions: int = Field(
        4,
        ge=1,
        description="Partitions of each topic that is created; existing topics stay as they are",
        json_schema_extra=_TOPICS,
    )
    replication: int = Field(
        1,
        ge=1,
        description="Replicas of each topic that is created; from 3 on, `min.insync.replicas` is 2",
        json_schema_extra=_TOPICS,
    )
    widened_topics: dict[str, int] = Field(
        default_factory=dict,
        description="Topics whose partitions were increased on purpose, as JSON with the new "
        "number. Any other increase stops the jobs that use the topic "
        "(docs/operations.md#when-a-job-stops-by-name)",
    )
    otlp_endpoint: HttpUrl | None = Field(
        None,
        description="Base address of an OpenTelemetry collector for OTLP over HTTP, such as "
        "`http://127.0.0.1:4318`; it gets a span for each POST and, of those that are sampled, for "
        "each step of its payload (docs/operations.md#traces)",
        json_schema_extra=_GATEWAY_AND_RELAY,
    )
    kafka_security: Security = Field(
        "plaintext",
        description="How Kafka is reached: `plaintext`, `ssl`, `sasl_plaintext` or `sasl_ssl` "
        "(docs/security.md#kafka). The broker that `up` starts has neither TLS nor login",
    )
    kafka_ca_file: Path | None = Field(
        None,
        description="PEM file with the CA of the brokers' certificates; without it, the machine's "
        "CAs are trusted",
    )
    kafka_cert_file: Path | None = Field(
        None, description="PEM file with this part's client certificate (mTLS) and its chain"
    )
    kafka_key_file: Path | None = Field(
        None, description="PEM file with the key of that certificate, unencrypted PKCS #8"
    )
    kafka_sasl_mechanism: Mechanism = Field(
        "SCRAM-SHA-512", description="SASL mechanism; or `SCRAM-SHA-256`, `PLAIN`"
    )
    kafka_sasl_username: str | None = Field(None, description="SASL user")
    kafka_sasl_password: SecretStr | None = Field(None, description="SASL password")
    kafka_sasl_password_file: Path | None = Field(
        None, description="File that contains the SASL password"
    )
    schema_registry_url: str | None = Field(
        None,
        description="Schema registry that payloads of the format `RegisteredAvro` name their "
        "schemas of (docs/your-own-domain.md#avro-with-a-schema-registry)",
        json_schema_extra=_ENRICHMENT,
    )
    schema_registry_username: str | None = Field(
        None,
        description="User of the registry",
        json_schema_extra=_ENRICHMENT,
    )
    schema_registry_password: SecretStr | None = Field(
        None, description="Password of that user", json_schema_extra=_ENRICHMENT
    )
    schema_registry_password_file: Path | None = Field(
        None, description="File that contains that password", json_schema_extra=_ENRICHMENT
    )
    hooks_key_file: Path | None = Field(
        None,
        description="File with the key that seals the secrets of webhooks, 64 hex digits; without "
        "it, `hooks.key` in the state folder, which the first `./headrace hooks add` makes",
        json_schema_extra=_HOOKS,
    )
    hooks_hosts_allowed: str = Field(
        "",
        description="Hosts that webhooks may name although they are in this network, comma-"
        "separated, and that may be asked without TLS. All others must be on the open internet "
        "(docs/webhooks.md#safety)",
        json_schema_extra=_HOOKS,
    )
    hooks_per_tenant_max: int = Field(
        100,
        ge=0,
        description="How many webhooks a tenant's operators may add (docs/webhooks.md#tenants)",
        json_schema_extra=_HOOKS,
    )
    mail_server: str | None = Field(
        None,
        description="Mail server for webhooks to `mailto:…` (docs/webhooks.md#mail): "
        "`smtps://user@host`, `smtp://user@host` for STARTTLS, or `smtp+plain://host`",
        json_schema_extra=_HOOKS,
    )
    mail_password: SecretStr | None = Field(
        None, description="Password of its user", json_schema_extra=_HOOKS
    )
    mail_password_file: Path | None = Field(
        None, description="File that contains that password", json_schema_extra=_HOOKS
    )
    mail_from: str | None = Field(
        None, description="Address that mails come from", json_schema_extra=_HOOKS
    )
    _kafka_password: str = PrivateAttr("")
    _mail: MailAccess | None = PrivateAttr(None)
    _registry: HttpLookup | None = PrivateAttr(None)

    @property
    def hooks_key_path(self) -> Path:
        return self.hooks_key_file or self.state_dir / "hooks.key"

    @property
    def hook_hosts(self) -> frozenset[str]:
        hosts = self.hooks_hosts_allowed.lower().split(",")
        return frozenset(host.strip() for host in hosts) - {""}

    @property
    def kafka(self) -> KafkaAccess:
        return KafkaAccess(
            self.kafka_bootstrap,
            self.kafka_security,
            self.kafka_ca_file,
            self.kafka_cert_file,
            self.kafka_key_file,
            self.kafka_sasl_mechanism,
            self.kafka_sasl_username or "",
            self._kafka_password,
        )

    def make_folders(self) -> None:
        """Those with payloads, states and secrets, closed to others."""
        make_folder("state_dir", self.state_dir)

    @property
    def mail(self) -> MailAccess | None:
        return self._mail

    @property
    def registry(self) -> HttpLookup | None:
        return self._registry

    def _secret(self, name: str) -> str:
        file, given = getattr(self, f"{name}_file"), getattr(self, name)
        if file is None:
            return given.get_secret_value() if given else ""
        try:
            return str(file.read_text().rstrip("\n"))
        except (OSError, ValueError) as error:
            name = variable(f"{name}_file")
            raise ValueError(f"{name}={str(file)!r} cannot be read: {error}") from None

    @model_validator(mode="after")
    def _kafka_can_be_reached_like_that(self) -> Self:
        prefix = "kafka_"
        given = {
            name.removeprefix(prefix).upper(): value
            for name, value in self
            if name.startswith(prefix) and value
        }
        # once: its file may be in the middle of being replaced at a later look
        self._kafka_password = self._secret("kafka_sasl_password")
        refuse_what_does_not_go_together(self.kafka, given)
        return self

    @model_validator(mode="after")
    def _registry_can_be_asked(self) -> Self:
        url, name = self.schema_registry_url, variable("schema_registry_url")
        secrets = self.schema_registry_password or self.schema_registry_password_file
        if (self.schema_registry_username or secrets) and url is None:
            raise ValueError(f"{name} is not set: of which registry are user and password?")
        if secrets and not self.schema_registry_username:
            raise ValueError(f"{variable('schema_registry_username')} is not set: whose password?")
        if url is not None:
            password = self._secret("schema_registry_password")
            registry = registry_lookup(url, self.schema_registry_username or "", password)
            if why_not := registry.why_not():
                raise ValueError(f"{name} cannot be: {why_not}")
            self._registry = registry
        return self

    @model_validator(mode="after")
    def _mails_can_be_sent(self) -> Self:
        url, name = self.mail_server, variable("mail_server")
        if url is None:
            if self.mail_from or self.mail_password or self.mail_password_file:
                raise ValueError(f"{name} is not set: by which server are mails to be sent?")
            return self
        if not self.mail_from or not ADDRESS.fullmatch(self.mail_from):
            raise ValueError(f"{variable('mail_from')} is no address: from whom are mails?")
        try:
            self._mail = mail_access(url, self._secret("mail_password"), self.mail_from)
        except ValueError as error:
            raise ValueError(f"{name} cannot be: {error}") from None
        return self


def make_folder(setting: str, folder: Path) -> None:
    try:
        keep_private(folder)
    except OSError as error:
        raise WrongSetting(
            f"{variable(setting)}={str(folder)!r} cannot be used: {error.strerror}; choose a "
            "folder that this user may write to"
        ) from None


def read_by(kind: type[Settings], name: str) -> str:
    """Which parts of Headrace read this setting."""
    extra = kind.model_fields[name].json_schema_extra
    if isinstance(extra, dict):
        return str(extra[READ_BY])
    classes = (one for one in kind.__mro__ if issubclass(one, Settings))
    return next(one.READ_BY for one in classes if name in one.__annotations__)
