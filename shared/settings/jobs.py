"""The settings of the jobs."""

import re
from pathlib import Path
from typing import ClassVar, Self

from pydantic import Field, PrivateAttr, SecretStr, field_validator, model_validator
from pydantic.config import JsonDict

from shared.retry_policy import WhenParked
from shared.search.access import SearchAccess, search_access
from shared.settings.access import is_loopback
from shared.settings.all_parts import READ_BY, Settings, make_folder
from shared.settings.wrong_setting import variable

_JOBS_AND_RELAY: JsonDict = {READ_BY: "jobs, relay"}
_ENRICH: JsonDict = {READ_BY: "enrich"}
_ENRICH_AND_RETRY: JsonDict = {READ_BY: "enrich, retry"}
_RELAY: JsonDict = {READ_BY: "relay"}
_RETRY: JsonDict = {READ_BY: "retry"}
_PERSIST: JsonDict = {READ_BY: "persist"}
_RETRY_AND_PERSIST: JsonDict = {READ_BY: "retry, persist"}
_SEARCH: JsonDict = {READ_BY: "search"}
_FOLD: JsonDict = {READ_BY: "fold"}
_FOLD_AND_AGGREGATE: JsonDict = {READ_BY: "fold, aggregate"}
_A_PLACE = re.compile(r"s3a://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[\w.=-]+)*/?", re.ASCII)


class JobSettings(Settings):
    READ_BY: ClassVar[str] = "jobs"

    spark_jars: str | None = Field(
        None,
        description="Folder of jars for Spark's class path, or several with `:` between; `up` sets "
        "it",
    )
    spark_master: str = Field(
        "local[3]",
        description="Spark master. With one slot more than there are state partitions, enrich can "
        "keep polling (`HEADRACE_STAYS_S`)",
    )
    spark_memory: str = Field("1g", description="Memory of the Spark driver")
    spark_driver_host: str | None = Field(
        None,
        description="On a cluster: the name or address by which executors reach the driver; "
        "without it, this machine's address towards the master",
    )
    spark_python: str | None = Field(
        None,
        description="On a cluster: Python of the executors' machines, of the same version as the "
        "driver's; without it, `python3.N`. Packages and code come with the application",
    )
    spark_secret_file: Path | None = Field(
        None,
        description="On a cluster: file with the secret that its master, workers and applications "
        "share. With it, all connections between them are authenticated and encrypted",
    )
    spark_ui_port: int | None = Field(
        None,
        ge=1,
        le=65535,
        description="Port of Spark's own page on 127.0.0.1, where its jobs, queries and rates are; "
        "the next free one where it is taken (docs/operations.md#sparks-own-page)",
    )
    standby: bool = Field(
        False,
        description="Where another process has the jobs, wait, warm, and take over when it ends "
        "(docs/operations.md#a-standby)",
    )
    spark_conf: dict[str, str] = Field(
        default_factory=dict, description="Further Spark configuration, as a JSON object"
    )
    checkpoint_dir: Path | None = Field(
        None, description="Folder for checkpoints; without it, `checkpoints` in the state folder"
    )
    checkpoint_store: str | None = Field(
        None,
        description="Checkpoints in an object store instead: `s3a://bucket/prefix`, for a cluster "
        "whose machines share no folder (docs/operations.md#checkpoints-in-an-object-store)",
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
        "something to read; at least 500 ms for retry, aggregate and persist",
    )
    stays_s: float = Field(
        10.0,
        ge=0,
        le=600,
        description="How long enrich keeps polling after a small batch, handling records as they "
        "arrive. 0 disables it; at most 600",
        json_schema_extra=_ENRICH,
    )
    stands_still_after_s: float = Field(
        300.0,
        ge=0,
        description="A job on one machine whose batch has shown no sign of work for so long begins "
        "it again, and writes to its log where its processes stood. 0: never",
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
    master_databases: dict[str, SecretStr] = Field(
        default_factory=dict,
        description="Databases of your own that tables of master data are read from, as a JSON "
        'object: `{"shop": "postgresql://…"}`. A role that may only read is enough; '
        "`?passfile=FILE` keeps its password out of the URL "
        "(docs/your-own-domain.md#9-master-data)",
        json_schema_extra=_RELAY,
    )
    master_stale_after_s: float = Field(
        300.0,
        ge=120,
        description="After so long without confirmation from the relay, master data is stale, and "
        "the clock of waiting payloads stops",
        json_schema_extra=_RETRY,
    )
    parked_after_s: float = Field(
        7 * 86_400.0,
        gt=0,
        description="A payload whose master data is missing, or a row that PostgreSQL does not "
        "take, is parked after this time; time in which master data was stale, or PostgreSQL "
        "unavailable, does not count (docs/operations.md#what-waits)",
        json_schema_extra=_RETRY_AND_PERSIST,
    )
    waiting_per_entity_max: int = Field(
        1_000,
        ge=1,
        description="Payloads or events of one entity that may wait; further ones are parked as "
        "`line_full`",
        json_schema_extra=_RETRY_AND_PERSIST,
    )
    waiting_rows_max: int = Field(
        200_000,
        ge=1,
        description="Rows that may wait because PostgreSQL does not take them; beyond that, "
        "persist takes no further records until fewer wait",
        json_schema_extra=_PERSIST,
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

    search_url: str | None = Field(
        None,
        description="OpenSearch or Elasticsearch, for `SearchIndex` rows: `https://user@host:9200` "
        "(docs/your-own-domain.md#13-states-in-a-search-index)",
        json_schema_extra=_SEARCH,
    )
    search_password: SecretStr | None = Field(
        None, description="Password of that user", json_schema_extra=_SEARCH
    )
    search_password_file: Path | None = Field(
        None, description="File that contains that password", json_schema_extra=_SEARCH
    )
    search_ca_file: Path | None = Field(
        None,
        description="Certificates that the search server's is checked with; without it, the "
        "system's",
        json_schema_extra=_SEARCH,
    )
    _search: SearchAccess | None = PrivateAttr(None)

    @model_validator(mode="after")
    def _search_server_can_be_asked(self) -> Self:
        url, name = self.search_url, variable("search_url")
        if url is None:
            if self.search_password or self.search_password_file or self.search_ca_file:
                raise ValueError(f"{name} is not set: of which server are the other settings?")
            return self
        try:
            access = search_access(url, self._secret("search_password"), self.search_ca_file)
        except ValueError as error:
            raise ValueError(f"{name} cannot be: {error}") from None
        if access.is_readable and not is_loopback(access.host):
            raise ValueError(f"{name} cannot be: it would send the password unencrypted: https://")
        self._search = access
        return self

    @property
    def search(self) -> SearchAccess | None:
        return self._search

    @property
    def spark_jar_folders(self) -> list[Path]:
        return [Path(one) for one in (self.spark_jars or "").split(":") if one]

    @field_validator("checkpoint_store")
    @classmethod
    def _is_a_prefix_in_a_bucket(cls, value: str | None) -> str | None:
        if value is None:
            return None
        if not _A_PLACE.fullmatch(value):
            raise ValueError(
                "is no place that checkpoints may be in: write s3a://BUCKET/PREFIX; a folder, also "
                f"one that machines share, goes into {variable('checkpoint_dir')}"
            )
        return value.rstrip("/")

    @property
    def on_cluster(self) -> bool:
        """Spark's executors run on other machines, or might."""
        return not self.spark_master.startswith("local")

    @property
    def checkpoints(self) -> Path:
        """The folder; leases and locks of this machine's processes lie there in any case."""
        return self.checkpoint_dir or self.state_dir / "checkpoints"

    def make_folders(self) -> None:
        super().make_folders()
        make_folder("checkpoint_dir", self.checkpoints)
