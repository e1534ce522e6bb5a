"""Every setting, read once from the environment (HEADRACE_…). Units stand last in the names."""

import re
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    HttpUrl,
    PrivateAttr,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from shared.kafka_access import KafkaAccess, Mechanism, Security
from shared.kafka_rules import refuse_what_does_not_go_together
from shared.private_folder import keep_private
from shared.retry_policy import WhenParked
from shared.topology import BODY_BYTES_MOST

_PREFIX = "HEADRACE_"
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

    kafka_bootstrap: str = "127.0.0.1:9092"
    postgres_url: SecretStr = SecretStr("postgresql://headrace@127.0.0.1:5432/headrace")
    state_dir: Path = Path(".headrace/state")
    flow: str = "shared.flow:FLOW"
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = Field(
        "none", description="of what the jobs write; a reader needs the codec"
    )
    id_ring_size: int = Field(
        64, ge=0, description="ids of each event type that an entity remembers to know repeats"
    )
    partitions: int = Field(4, ge=1, description="partitions of each topic that is created")
    replication: int = Field(1, ge=1, description="replicas of each topic that is created")
    widened_topics: dict[str, int] = Field(
        default_factory=dict,
        description="topics that got more partitions on purpose, and how many they have now",
    )
    kafka_security: Security = "plaintext"
    kafka_ca_file: Path | None = Field(
        None, description="PEM; who signed the brokers' certificates"
    )
    kafka_cert_file: Path | None = Field(None, description="PEM; by it a part is known (mTLS)")
    kafka_key_file: Path | None = None
    kafka_sasl_mechanism: Mechanism = "SCRAM-SHA-512"
    kafka_sasl_username: str | None = None
    kafka_sasl_password: SecretStr | None = None
    kafka_sasl_password_file: Path | None = None
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


class GatewaySettings(Settings):
    gateway_host: str = "127.0.0.1"
    gateway_port: int = Field(8080, ge=0, le=65535)
    body_bytes_max: int = Field(1024 * 1024, ge=1)
    batch_bytes_max: int = Field(8 * 1024 * 1024, ge=1)
    batch_payloads_max: int = Field(2000, ge=1)
    body_pause_max_s: float = Field(10.0, gt=0, description="between two parts of a body")
    body_deadline_s: float = Field(60.0, gt=0, description="a whole body has come by then")
    produce_deadline_s: float = Field(10.0, gt=0, description="a POST's outcome is told by then")
    spool_bytes_max: int = Field(
        1024**3, ge=0, description="of disk, for payloads that Kafka does not take; 0: no spool"
    )
    spool_after_s: float = Field(5.0, gt=0, description="without Kafka's ack; then to the spool")
    in_flight_requests_max: int = Field(10_000, ge=1)
    in_flight_bytes_max: int = Field(32 * 1024 * 1024, ge=1)
    in_flight_share_max: float = Field(
        0.25, gt=0, le=1, description="who holds more of these bytes leaves as much to others"
    )
    docs: bool = Field(True, description="serve /docs and /openapi.json")
    shutdown_grace_s: float = Field(10.0, gt=0)
    # who is asking
    auth: Annotated[str, AfterValidator(_ways)] = "none"
    open: Literal["no", "yes-anyone-may-write"] = Field(
        "no", description="whether other machines may reach what asks nobody who they are"
    )
    hosts: Annotated[str, AfterValidator(_hosts)] = Field(
        "none", description="names beside localhost that a gateway which asks nobody answers to"
    )
    credentials_key: SecretStr | None = Field(None, description="64 hex digits; seals HMAC secrets")
    credentials_key_file: Path | None = None
    jwt_keys_file: Path | None = Field(None, description="JWK set or PEM public key")
    jwt_issuer: str | None = None
    jwt_audience: str | None = None
    jwt_algorithms: str = "RS256,ES256"
    # TLS of its own ports
    tls_cert_file: Path | None = Field(None, description="PEM, with its chain; none: no TLS")
    tls_key_file: Path | None = None
    tls_client_ca_file: Path | None = Field(
        None, description="PEM; who signed the devices' certificates"
    )
    tls_crl_file: Path | None = Field(None, description="PEM; those that are revoked")
    # what an operator looks at
    admin_port: int = Field(
        0, ge=0, le=65535, description="of /health, /metrics and /docs; 0: the main one"
    )
    metrics: bool = Field(True, description="serve /metrics")
    otlp_endpoint: HttpUrl | None = Field(None, description="of an OpenTelemetry collector")
    trace_ratio: float = Field(1.0, ge=0, le=1, description="of the POSTs that bring no trace")
    # how much who may send
    rate_per_device: float = Field(0.0, ge=0, description="payloads a second; 0: any number")
    rate_per_address: float = Field(0.0, ge=0)
    rate_per_tenant: float = Field(0.0, ge=0)
    rate_burst_s: float = Field(10.0, gt=0, description="what that time brings may come at once")
    trusted_proxies: Annotated[str, AfterValidator(_networks)] = Field(
        "none", description="whose X-Forwarded-For counts; with commas"
    )
    # how many processes, and how they end
    gateway_workers: int = Field(1, ge=1, le=256)
    shutdown_drain_s: float = Field(
        0.5, ge=0, description="after SIGTERM: connections are still taken, each for one answer"
    )
    # how long and how often a client may hold on
    head_deadline_s: float = Field(5.0, gt=0, description="a request's head has come by then")
    keep_alive_s: float = Field(5.0, gt=0, description="between two requests of a connection")
    connections_max: int = Field(10_000, ge=1)
    connections_per_address_max: int = Field(0, ge=0, description="0: as many as there may be")
    fresh_tail_bytes_max: int = Field(
        64 * 1024 * 1024, ge=0, description="of memory, for events that `?fresh=true` folds"
    )
    # when what is behind is told
    stale_after_s: float = Field(
        10.0, gt=0, description="behind what was accepted: then `/state` says that it is stale"
    )
    lag_warn_s: float = Field(60.0, gt=0, description="of a job; from then on `/health` warns")
    fresh_events_max: int = Field(
        2_000, ge=0, description="of an entity, ahead of its snapshot, that `?fresh=true` folds"
    )
    # the desk for dead letters, a process of its own
    desk_host: str = "127.0.0.1"
    desk_port: int = Field(8081, ge=0, le=65535)

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
    spark_jars: Path | None = None
    spark_master: str = "local[3]"
    spark_memory: str = "1g"
    spark_conf: dict[str, str] = Field(
        default_factory=dict, description="further Spark configuration, as JSON"
    )
    checkpoint_dir: Path | None = None  # default: <state_dir>/checkpoints
    state_partitions: int = Field(
        2, ge=1, description="another number: fold starts from its snapshots"
    )
    trigger_ms: int = Field(100, ge=0)
    stays_s: float = Field(
        10.0,
        ge=0,
        le=600,
        description="enrich at its topics, after a small batch; 0: never",
    )
    batch_records_max: int = Field(200_000, ge=1)
    deleted_kept_s: float = Field(
        7 * 86_400.0, ge=0, description="a deleted entity is known as such, then forgotten"
    )
    master_age_max_s: float = Field(
        86_400.0, gt=0, description="older last-known master data pauses enrich"
    )
    slow_after_s: float = Field(
        10.0, ge=1, description="an answer of PostgreSQL or Kafka that takes longer counts as none"
    )

    master_stale_after_s: float = Field(
        300.0, ge=120, description="without the relay's word; then what waits grows no older"
    )
    waits_max_s: float = Field(
        7 * 86_400.0, gt=0, description="a payload without its master data is parked after that"
    )
    waiting_per_entity_max: int = Field(
        1_000, ge=1, description="payloads that wait; what comes beyond is parked: `line_full`"
    )
    waiting_per_tenant_max: int = Field(
        200_000, ge=1, description="payloads that wait; what comes beyond: `too_many_waiting`"
    )
    waiting_entities_max: int = Field(
        20_000, ge=1, description="of a tenant; payloads of others are parked: `too_many_waiting`"
    )
    unknown_ids_per_minute_max: int = Field(
        5_000, ge=1, description="of a tenant that begin to wait; beyond: `too_many_unknown`"
    )
    when_parked: WhenParked = Field(
        "go_on",
        description="of an entity's later payloads; wait: until it is sent again or discarded",
    )

    @property
    def checkpoints(self) -> Path:
        return self.checkpoint_dir or self.state_dir / "checkpoints"

    def make_folders(self) -> None:
        super().make_folders()
        _make_folder("checkpoint_dir", self.checkpoints)
