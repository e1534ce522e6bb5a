"""Every setting, read once from the environment (HEADRACE_…). Units stand last in the names."""

import re
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    HttpUrl,
    PrivateAttr,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic.config import JsonDict
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from shared.kafka_access import KafkaAccess, Mechanism, Security
from shared.kafka_rules import refuse_what_does_not_go_together
from shared.private_folder import keep_private
from shared.retry_policy import WhenParked
from shared.topology import BODY_BYTES_MOST

_PREFIX = "HEADRACE_"
# who reads a setting, where it is not everyone that its class is for: `read_by` below
_READ_BY = "read_by"
_TOPICS: JsonDict = {_READ_BY: "topics"}
_JOBS: JsonDict = {_READ_BY: "jobs"}
_JOBS_AND_RELAY: JsonDict = {_READ_BY: "jobs, relay"}
_ENRICH: JsonDict = {_READ_BY: "enrich"}
_ENRICH_AND_RETRY: JsonDict = {_READ_BY: "enrich, retry"}
_RETRY: JsonDict = {_READ_BY: "retry"}
_FOLD: JsonDict = {_READ_BY: "fold"}
_FOLD_AND_AGGREGATE: JsonDict = {_READ_BY: "fold, aggregate"}
_FOLD_AND_GATEWAY: JsonDict = {_READ_BY: "fold, gateway"}
_DESK: JsonDict = {_READ_BY: "desk"}
_GATEWAY_AND_DESK: JsonDict = {_READ_BY: "gateway, desk"}
_GATEWAY_AND_CREDENTIALS: JsonDict = {_READ_BY: "gateway, desk, `credentials`"}

# no secret among the input of an error that nobody explains
_CONFIG = SettingsConfigDict(env_prefix=_PREFIX, frozen=True, hide_input_in_errors=True)

# what reading the settings and the flow that they name may raise
WRONG_SETTINGS = (SettingsError, ValueError)


class WrongSetting(ValueError):  # noqa: N818 - it is what is wrong
    """What only its user can see, such as a file that it names. It names its variable itself."""


def explain(error: Exception) -> str:
    """A wrong setting in a line of its own: the variable, and what is wrong with it."""
    if isinstance(error, WrongSetting):
        return str(error)
    if isinstance(error, ValidationError):
        return "\n".join(
            f"{_variable(wrong['loc'])}={wrong['input']!r}: {wrong['msg']}"
            if wrong["loc"]
            else str(wrong["ctx"]["error"])  # of several settings, which it names itself
            for wrong in error.errors(include_url=False)
        )
    if isinstance(error, SettingsError):
        field = re.search(r'field "(\w+)"', str(error))
        return f"{_variable(field.groups() if field else ())}: it is not valid JSON"
    return f"{_PREFIX}FLOW: {error}"


def _variable(place: tuple[int | str, ...]) -> str:
    return _PREFIX + "_".join(map(str, place)).upper()


_WAYS_TO_ASK = ("token", "hmac", "jwt", "mtls")


def _ways(text: str) -> str:
    ways = text.split(",")
    if ways != ["none"] and not set(ways) <= set(_WAYS_TO_ASK):
        raise ValueError(f"write none, or one or more of {', '.join(_WAYS_TO_ASK)} with commas")
    return text


def _networks(text: str) -> str:
    try:
        networks(text)
    except ValueError as error:
        raise ValueError(
            f"write none, or addresses and networks such as 10.0.0.0/8: {error}"
        ) from None
    return text


def networks(text: str) -> tuple[IPv4Network | IPv6Network, ...]:
    return () if text == "none" else tuple(ip_network(one) for one in text.split(","))


_NAME = r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?"
_HOST_NAME = re.compile(rf"{_NAME}(\.{_NAME})*")


def _hosts(text: str) -> str:
    names = text.lower()
    if names != "none" and not all(map(_HOST_NAME.fullmatch, names.split(","))):
        raise ValueError("write none, or names such as gateway.example with commas, without a port")
    return names


def is_loopback(host: str) -> bool:
    """Nobody but this machine reaches it. Any other name than localhost may be another's."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


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
    _kafka_password: str = PrivateAttr("")

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
        _make_folder("state_dir", self.state_dir)

    def _read_kafka_password(self) -> str:
        file = self.kafka_sasl_password_file
        if file is None:
            return self.kafka_sasl_password.get_secret_value() if self.kafka_sasl_password else ""
        try:
            return file.read_text().rstrip("\n")
        except (OSError, ValueError) as error:
            name = _variable(("kafka_sasl_password_file",))
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
        self._kafka_password = self._read_kafka_password()
        refuse_what_does_not_go_together(self.kafka, given)
        return self


def _make_folder(setting: str, folder: Path) -> None:
    try:
        keep_private(folder)
    except OSError as error:
        raise WrongSetting(
            f"{_variable((setting,))}={str(folder)!r} cannot be used: {error.strerror}; choose a "
            "folder that this user may write to"
        ) from None


def read_by(kind: type[Settings], name: str) -> str:
    """Which parts of Headrace read this setting."""
    extra = kind.model_fields[name].json_schema_extra
    return str(extra[_READ_BY]) if isinstance(extra, dict) else kind.READ_BY


class GatewaySettings(Settings):
    READ_BY: ClassVar[str] = "gateway"

    gateway_host: str = Field("127.0.0.1", description="Address that the gateway listens on")
    gateway_port: int = Field(
        8080,
        ge=0,
        le=65535,
        description="Port of the gateway. If it is taken, `up` uses another one and says so",
    )
    body_bytes_max: int = Field(
        1024 * 1024,
        ge=1,
        description=f"Larger bodies get 413. At most {BODY_BYTES_MOST}, since a payload has to fit "
        "into a dead letter",
    )
    batch_bytes_max: int = Field(
        8 * 1024 * 1024,
        ge=1,
        description="Larger batches get 413; each payload in them obeys `HEADRACE_BODY_BYTES_MAX`",
    )
    batch_payloads_max: int = Field(
        2000,
        ge=1,
        description="Batches with more lines (blank ones included) or frames get 413. At most "
        "`HEADRACE_IN_FLIGHT_REQUESTS_MAX`",
    )
    body_pause_max_s: float = Field(
        10.0, gt=0, description="Longest pause within a body; after it the answer is 408"
    )
    body_deadline_s: float = Field(
        60.0,
        gt=0,
        description="Longest time for a whole body; after it the answer is 408, however steadily "
        "bytes arrive",
    )
    produce_deadline_s: float = Field(
        10.0, gt=0, description="Latest time at which a POST is answered with its outcome"
    )
    spool_bytes_max: int = Field(
        1024**3,
        ge=0,
        description="Disk for payloads that Kafka does not take. 0: no spool, such payloads are "
        "refused (docs/operations.md#the-spool)",
    )
    spool_after_s: float = Field(
        5.0,
        gt=0,
        description="How long to wait for Kafka's ack before a payload goes to the spool; without "
        "a spool `HEADRACE_PRODUCE_DEADLINE_S` applies",
    )
    in_flight_requests_max: int = Field(
        10_000, ge=1, description="Payloads being written at once; more get 503"
    )
    in_flight_bytes_max: int = Field(
        32 * 1024 * 1024,
        ge=1,
        description="Bytes in memory at once, half-read bodies included; more get 503. No less "
        "than one body or batch",
    )
    in_flight_share_max: float = Field(
        0.25,
        gt=0,
        le=1,
        description="A caller that holds more than this share of those bytes must leave the last "
        "such share to others: there it gets 429. A caller is the owner of a credential or, "
        "without credentials, an address. Bodies smaller than 1/8192 of the total do not count; "
        "`1` switches this off",
    )
    docs: bool = Field(True, description="Serve `/docs` and `/openapi.json`")
    shutdown_grace_s: float = Field(
        10.0, gt=0, description="Time that open requests have at shutdown"
    )
    # who is asking
    auth: Annotated[str, AfterValidator(_ways)] = Field(
        "none",
        description="Ways to authenticate: `token`, `hmac`, `jwt`, `mtls`, or several of them "
        "with commas (docs/security.md)",
        json_schema_extra=_GATEWAY_AND_DESK,
    )
    open: Literal["no", "yes-anyone-may-write"] = Field(
        "no",
        description="`yes-anyone-may-write` lets other machines reach a gateway or desk without "
        "authentication; otherwise it does not start on such an address",
        json_schema_extra=_GATEWAY_AND_DESK,
    )
    hosts: Annotated[str, AfterValidator(_hosts)] = Field(
        "none",
        description="Without authentication: names, with commas, that the `Host` header may have "
        "besides `localhost` and addresses",
        json_schema_extra=_GATEWAY_AND_DESK,
    )
    credentials_key: SecretStr | None = Field(
        None,
        description="64 hex digits that seal the signing secrets; `hmac` needs this or the file",
        json_schema_extra=_GATEWAY_AND_CREDENTIALS,
    )
    credentials_key_file: Path | None = Field(
        None, description="File that contains that key", json_schema_extra=_GATEWAY_AND_CREDENTIALS
    )
    jwt_keys_file: Path | None = Field(
        None,
        description="Keys that JWTs may be signed with: a JWK set, or a public key as PEM. `jwt` "
        "needs it; changes take effect within seconds",
        json_schema_extra=_GATEWAY_AND_DESK,
    )
    jwt_issuer: str | None = Field(
        None,
        description="`iss` that a JWT must have; `jwt` needs it",
        json_schema_extra=_GATEWAY_AND_DESK,
    )
    jwt_audience: str | None = Field(
        None,
        description="`aud` that a JWT must have; `jwt` needs it",
        json_schema_extra=_GATEWAY_AND_DESK,
    )
    jwt_algorithms: str = Field(
        "RS256,ES256",
        description="Algorithms that the keys may be for",
        json_schema_extra=_GATEWAY_AND_DESK,
    )
    # TLS of its own ports
    tls_cert_file: Path | None = Field(
        None,
        description="PEM certificate with its chain; the ports then speak TLS 1.2 or newer "
        "(docs/security.md#tls-and-device-certificates)",
        json_schema_extra=_GATEWAY_AND_DESK,
    )
    tls_key_file: Path | None = Field(
        None, description="PEM key of that certificate", json_schema_extra=_GATEWAY_AND_DESK
    )
    tls_client_ca_file: Path | None = Field(
        None,
        description="PEM file with the CA of the devices' certificates; goes with "
        "`HEADRACE_AUTH=mtls`",
        json_schema_extra=_GATEWAY_AND_DESK,
    )
    tls_crl_file: Path | None = Field(
        None,
        description="PEM file with the revocation lists",
        json_schema_extra=_GATEWAY_AND_DESK,
    )
    # what an operator looks at
    admin_port: int = Field(
        0,
        ge=0,
        le=65535,
        description="Separate port for `/health`, `/metrics` and `/docs`, which the main port then "
        "does not serve. 0: one port for all; `up` always uses one port",
    )
    metrics: bool = Field(True, description="Serve `/metrics`")
    otlp_endpoint: HttpUrl | None = Field(
        None,
        description="Base address of an OpenTelemetry collector for OTLP over HTTP, such as "
        "`http://127.0.0.1:4318`; it gets a span for each POST (docs/operations.md#traces)",
    )
    trace_ratio: float = Field(
        1.0, ge=0, le=1, description="Share of POSTs without a `traceparent` that is traced"
    )
    # how much who may send
    rate_per_device: float = Field(
        0.0,
        ge=0,
        description="Payloads per second from one device; more get 429. 0: no limit "
        "(docs/operations.md#limits)",
    )
    rate_per_address: float = Field(0.0, ge=0, description="The same for one address")
    rate_per_tenant: float = Field(0.0, ge=0, description="The same for one tenant")
    rate_burst_s: float = Field(
        10.0,
        gt=0,
        description="Burst: what these rates allow in so many seconds may arrive at once, after as "
        "long a silence",
    )
    trusted_proxies: Annotated[str, AfterValidator(_networks)] = Field(
        "none",
        description="Addresses or networks, with commas, whose `X-Forwarded-For` header is trusted "
        "for the client's address",
    )
    # how many processes, and how they end
    gateway_workers: int = Field(
        1,
        ge=1,
        le=256,
        description="Processes that share the port (docs/operations.md#workers)",
    )
    shutdown_drain_s: float = Field(
        0.5,
        ge=0,
        description="How long after SIGTERM connections are still accepted; each answer then ends "
        "its connection",
    )
    # how long and how often a client may hold on
    head_deadline_s: float = Field(
        5.0,
        gt=0,
        description="Longest time for the head of a request; after it the answer is 408. A new "
        "connection that sends nothing is closed",
    )
    keep_alive_s: float = Field(
        5.0, gt=0, description="A connection is closed when it is idle for so long after an answer"
    )
    connections_max: int = Field(
        10_000,
        ge=1,
        description="Connections of one process, or as many as its descriptors allow; more get 503",
    )
    connections_per_address_max: int = Field(
        0,
        ge=0,
        description="Connections of one client address; more get 503. 0: no limit. Behind a proxy "
        "all clients share its address",
    )
    fresh_tail_bytes_max: int = Field(
        64 * 1024 * 1024,
        ge=0,
        description="Memory of each worker for the events that `?fresh=true` folds, used only "
        "while somebody asks (docs/operations.md#fresh-states)",
    )
    # when what is behind is told
    stale_after_s: float = Field(
        10.0,
        gt=0,
        description="`/state` says `stale` when it is further than this behind what was accepted",
    )
    lag_warn_s: float = Field(
        60.0, gt=0, description="`/health` warns when a job is further than this behind"
    )
    fresh_events_max: int = Field(
        2_000,
        ge=0,
        description="How many events of an entity past its snapshot `?fresh=true` folds; beyond "
        "that it returns the snapshot and says why",
    )
    # the desk for dead letters, a process of its own
    desk_host: str = Field(
        "127.0.0.1",
        description="Address that the pages for dead letters listen on",
        json_schema_extra=_DESK,
    )
    desk_port: int = Field(
        8081,
        ge=0,
        le=65535,
        description="Port of the pages for dead letters",
        json_schema_extra=_DESK,
    )

    @property
    def ways_to_ask(self) -> frozenset[str]:
        """Empty: nobody is asked for a credential."""
        return frozenset(self.auth.split(",")) - {"none"}

    @model_validator(mode="after")
    def _who_is_asking_can_be_known(self) -> Self:
        for name in ("jwt_keys_file", "jwt_issuer", "jwt_audience"):
            if "jwt" in self.ways_to_ask and not getattr(self, name):
                raise ValueError(f"{_variable((name,))} is not set, and HEADRACE_AUTH=jwt needs it")
        if "hmac" in self.ways_to_ask and not (self.credentials_key or self.credentials_key_file):
            raise ValueError(
                "HEADRACE_AUTH=hmac needs the key that its secrets are sealed with: set "
                "HEADRACE_CREDENTIALS_KEY or HEADRACE_CREDENTIALS_KEY_FILE"
            )
        return self

    @property
    def host_names(self) -> frozenset[str]:
        return frozenset(self.hosts.split(",")) - {"none"}

    @model_validator(mode="after")
    def _whoever_reaches_it_is_asked(self) -> Self:
        for name in ("gateway_host", "desk_host"):
            host = getattr(self, name)
            if not (self.ways_to_ask or self.open != "no" or is_loopback(host)):
                raise ValueError(
                    f"{_variable((name,))}={host} lets other machines in, and HEADRACE_AUTH=none "
                    "asks nobody who they are: set HEADRACE_AUTH (docs/security.md), listen on "
                    "127.0.0.1, or say HEADRACE_OPEN=yes-anyone-may-write"
                )
        return self

    @model_validator(mode="after")
    def _certificates_can_be_asked_for(self) -> Self:
        for one, needed in (
            ("tls_key_file", "tls_cert_file"),
            ("tls_cert_file", "tls_key_file"),
            ("tls_client_ca_file", "tls_cert_file"),
            ("tls_crl_file", "tls_client_ca_file"),
        ):
            if getattr(self, one) and not getattr(self, needed):
                raise ValueError(
                    f"{_variable((one,))} is set, and is of no use without {_variable((needed,))}"
                )
        if ("mtls" in self.ways_to_ask) != (self.tls_client_ca_file is not None):
            raise ValueError(
                "HEADRACE_AUTH=mtls and HEADRACE_TLS_CLIENT_CA_FILE go together: one of them is "
                "missing"
            )
        return self

    @model_validator(mode="after")
    def _a_body_can_be_parked(self) -> Self:
        if self.body_bytes_max > BODY_BYTES_MOST:
            raise ValueError(
                f"{_variable(('body_bytes_max',))}={self.body_bytes_max}: {BODY_BYTES_MOST} is the "
                "most, for with its headers a payload has to fit into its topic, and into the one "
                "that it is parked in"
            )
        return self

    @model_validator(mode="after")
    def _what_is_allowed_can_be_held(self) -> Self:
        for one, most in (
            ("batch_payloads_max", "in_flight_requests_max"),
            ("batch_bytes_max", "in_flight_bytes_max"),
            ("body_bytes_max", "in_flight_bytes_max"),
        ):
            wanted, held = getattr(self, one), getattr(self, most)
            if wanted > held:
                raise ValueError(
                    f"{_variable((one,))}={wanted} is more than {_variable((most,))}={held}: what "
                    "is that large would be refused for ever; lower the one or raise the other"
                )
        return self


class JobSettings(Settings):
    READ_BY: ClassVar[str] = "jobs"

    spark_jars: Path | None = Field(
        None, description="Folder of jars for Spark's class path; `up` sets it"
    )
    spark_master: str = Field(
        "local[3]",
        description="Spark master. With one slot more than there are state partitions, enrich can "
        "keep polling (`HEADRACE_STAYS_S`)",
    )
    spark_memory: str = Field("1g", description="Memory of the Spark driver")
    spark_conf: dict[str, str] = Field(
        default_factory=dict, description="Further Spark configuration, as a JSON object"
    )
    checkpoint_dir: Path | None = Field(
        None, description="Folder for checkpoints; without it, `checkpoints` in the state folder"
    )
    state_partitions: int = Field(
        2,
        ge=1,
        description="Partitions of the working state, one task each. After a change the jobs "
        "rebuild it from the state topics",
        json_schema_extra=_FOLD_AND_AGGREGATE,
    )
    trigger_ms: int = Field(
        100,
        ge=0,
        description="Shortest time between two micro-batches, unless another job has just written "
        "something to read; at least 500 ms for aggregate and persist, 1 s for retry",
    )
    stays_s: float = Field(
        10.0,
        ge=0,
        le=600,
        description="How long enrich keeps polling after a small batch, handling records as they "
        "arrive. 0 disables it; at most 600",
        json_schema_extra=_ENRICH,
    )
    batch_records_max: int = Field(
        200_000, ge=1, description="Largest number of records in one micro-batch"
    )
    deleted_kept_s: float = Field(
        7 * 86_400.0,
        ge=0,
        description="How long a deleted entity is remembered as deleted; then its key gets a null "
        "on the state topic",
        json_schema_extra=_FOLD,
    )
    master_age_max_s: float = Field(
        86_400.0,
        gt=0,
        description="enrich pauses when the last known master data is older than this",
        json_schema_extra=_ENRICH,
    )
    slow_after_s: float = Field(
        10.0,
        ge=1,
        description="If PostgreSQL or Kafka takes longer to answer, the job treats it as "
        "unavailable and pauses (docs/operations.md#breakers)",
        json_schema_extra=_JOBS_AND_RELAY,
    )

    master_stale_after_s: float = Field(
        300.0,
        ge=120,
        description="After so long without confirmation from the relay, master data is stale, and "
        "the clock of waiting payloads stops",
        json_schema_extra=_RETRY,
    )
    waits_max_s: float = Field(
        7 * 86_400.0,
        gt=0,
        description="A payload whose master data is missing is parked after this time; time in "
        "which master data was stale does not count (docs/operations.md#what-waits)",
        json_schema_extra=_RETRY,
    )
    waiting_per_entity_max: int = Field(
        1_000,
        ge=1,
        description="Payloads of one entity that may wait; further ones are parked as `line_full`",
        json_schema_extra=_RETRY,
    )
    waiting_per_tenant_max: int = Field(
        200_000,
        ge=1,
        description="Payloads of one tenant that may wait; beyond that, those of further entities "
        "are parked as `too_many_waiting`",
        json_schema_extra=_ENRICH,
    )
    waiting_entities_max: int = Field(
        20_000,
        ge=1,
        description="Entities of one tenant that may wait; payloads of others are parked as "
        "`too_many_waiting`",
        json_schema_extra=_ENRICH,
    )
    unknown_ids_per_minute_max: int = Field(
        5_000,
        ge=1,
        description="Entities of one tenant that may begin to wait within a minute; payloads of "
        "others are parked as `too_many_unknown`",
        json_schema_extra=_ENRICH,
    )
    when_parked: WhenParked = Field(
        "go_on",
        description="What happens to an entity's later payloads after one was parked: `go_on`, or "
        "`wait` until it was sent again or discarded",
        json_schema_extra=_ENRICH_AND_RETRY,
    )

    @property
    def checkpoints(self) -> Path:
        return self.checkpoint_dir or self.state_dir / "checkpoints"

    def make_folders(self) -> None:
        super().make_folders()
        _make_folder("checkpoint_dir", self.checkpoints)
