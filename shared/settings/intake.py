"""How large a payload or a batch may be, how long it may take, and how many are held at once."""

from typing import ClassVar, Self

from pydantic import Field, model_validator

from shared.settings.all_parts import Settings
from shared.settings.wrong_setting import variable
from shared.topic_names import BODY_BYTES_MOST


class IntakeSettings(Settings):
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
        "`HEADRACE_IN_FLIGHT_PAYLOADS_MAX`",
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
    in_flight_payloads_max: int = Field(
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
    wait_max_s: float = Field(
        30.0,
        gt=0,
        description="Longest time that a POST with `?wait=`, or a GET of `/state` with `?after=` "
        "or `If-Version-At-Least`, waits, whatever its `timeout` says "
        "(docs/devices.md#waiting-for-the-effect)",
    )
    waiting_posts_max: int = Field(
        1_000,
        ge=0,
        description="Such requests of one process that wait at once; more are answered at once, "
        "with what is known by then",
    )
    docs: bool = Field(True, description="Serve `/docs` and `/openapi.json`")
    shutdown_grace_s: float = Field(
        10.0, gt=0, description="Time that open requests have at shutdown"
    )

    @model_validator(mode="after")
    def _a_body_can_be_parked(self) -> Self:
        if self.body_bytes_max > BODY_BYTES_MOST:
            raise ValueError(
                f"{variable('body_bytes_max')}={self.body_bytes_max}: {BODY_BYTES_MOST} is the "
                "most, for with its headers a payload has to fit into its topic, and into the one "
                "that it is parked in"
            )
        return self

    @model_validator(mode="after")
    def _what_is_allowed_can_be_held(self) -> Self:
        for one, most in (
            ("batch_payloads_max", "in_flight_payloads_max"),
            ("batch_bytes_max", "in_flight_bytes_max"),
            ("body_bytes_max", "in_flight_bytes_max"),
        ):
            wanted, held = getattr(self, one), getattr(self, most)
            if wanted > held:
                raise ValueError(
                    f"{variable(one)}={wanted} is more than {variable(most)}={held}: what "
                    "is that large would be refused for ever; lower the one or raise the other"
                )
        return self
