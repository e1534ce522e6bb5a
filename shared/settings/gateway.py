"""The settings of the gateway, and of the desk beside it."""

from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, Field, model_validator

from shared.settings.access import is_loopback
from shared.settings.desk import DeskSettings
from shared.settings.intake import IntakeSettings
from shared.settings.peers import ORIGIN, PeerSettings
from shared.settings.wrong_setting import variable

_NEAR_S = 5.0
_NEAR = {"0.0.0.0": "127.0.0.1", "::": "::1"}


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


def _origins(text: str) -> str:
    """As a browser writes them: it is compared byte by byte."""
    if text != "none" and not all(map(ORIGIN.fullmatch, text.split(","))):
        raise ValueError(
            "write none, or origins such as https://app.example.org with commas: in lower case, "
            "the port if it is not the usual one, and no path"
        )
    return text


class GatewaySettings(PeerSettings, DeskSettings, IntakeSettings):
    READ_BY: ClassVar[str] = "gateway"

    # what an operator looks at
    admin_port: int = Field(
        0,
        ge=0,
        le=65535,
        description="Separate port for `/health`, `/metrics` and `/docs`, which the main port then "
        "does not serve. 0: one port for all; `up` always uses one port",
    )
    metrics: bool = Field(True, description="Serve `/metrics`")
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
        1, ge=1, le=256, description="Processes that share the port (docs/operations.md#workers)"
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
    # events for those who have no Kafka client
    event_streams_max: int = Field(
        10_000,
        ge=0,
        description="Readers of `GET /v1/events` and of changes of views of one process, besides "
        "its other connections; more get 503. Where descriptors are short, at most three quarters "
        "of them",
    )
    event_streams_share_max: float = Field(
        0.25,
        gt=0,
        le=1,
        description="A caller that has more than this share of those streams must leave the last "
        "such share to others: there it gets 429. A caller is the owner of a credential or, "
        "without credentials, an address. `1` switches this off",
    )
    event_heartbeat_s: float = Field(
        15.0,
        gt=0,
        description="How often an event stream says that it is there and how far it is; as often "
        "it is checked whether its reader still may read",
    )
    event_recent_bytes_max: int = Field(
        64 * 1024 * 1024,
        ge=0,
        description="Memory of each worker for the newest events, used only while somebody reads "
        "them; who was away for longer catches up from Kafka (docs/consumers.md#events-over-http)",
    )
    cors_origins: Annotated[str, AfterValidator(_origins)] = Field(
        "none",
        description="Origins, with commas, whose pages may read `/v1/events`, `/state` and "
        "`/views`, such as "
        "`https://app.example.org` (docs/security.md#pages-of-other-origins)",
    )
    # when what is behind is told
    stale_after_s: float = Field(
        10.0,
        gt=0,
        description="`/state` and `/views` say `stale` when they are further than this behind what "
        "was accepted",
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
    why_events_max: int = Field(
        5_000,
        ge=0,
        description="How many events of an entity `/state/<id>/why` folds for one answer; of one "
        "that has more it says so with 422",
    )

    @property
    def health_url(self) -> str:
        """As the desk reaches it."""
        if self.desk_health_url:
            return self.desk_health_url
        host = _NEAR.get(self.gateway_host, self.gateway_host)
        host = f"[{host}]" if ":" in host else host
        scheme = "https" if self.tls_cert_file else "http"
        return f"{scheme}://{host}:{self.admin_port or self.gateway_port}/health"

    @property
    def near_ms(self) -> float:
        """A copy of a state that is older than this is asked for elsewhere."""
        return 1000 * max(_NEAR_S, self.stale_after_s)

    @property
    def page_origins(self) -> frozenset[str]:
        return frozenset(self.cors_origins.split(",")) - {"none"}

    @model_validator(mode="after")
    def _whoever_reaches_it_is_asked(self) -> Self:
        for name in ("gateway_host", "desk_host"):
            host = getattr(self, name)
            if not (self.ways_to_ask or self.open != "no" or is_loopback(host)):
                raise ValueError(
                    f"{variable(name)}={host} lets other machines in, and HEADRACE_AUTH=none "
                    "asks nobody who they are: set HEADRACE_AUTH (docs/security.md), listen on "
                    "127.0.0.1, or say HEADRACE_OPEN=yes-anyone-may-write"
                )
        return self
