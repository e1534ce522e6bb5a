"""The sample domain's topics and the ledger's terms, as docs/consumers.md and docs/operations.md
name them: written down here once more, so that a product that mixes them up does not mislead the
rig."""

INGEST = ["ingest.telemetry.v1", "ingest.status.v1"]
SENT_TYPES = {"reading", "status_changed", "retired"}
_TYPES = [*SENT_TYPES, "alarm_raised", "alarm_cleared"]
EVENTS = [f"event.{name}.v1" for name in _TYPES]
COMPLETIONS = [f"completion.{name}.v1" for name in _TYPES]
WAITS = "retry.enrich.v1"
LANES = [WAITS, *(f"dlq.{job}.v1" for job in ("enrich", "fold", "aggregate", "persist"))]
GATES = "gate.enrich.v1"
STATES = {"state.device.v1": "device", "state.area.v1": "area"}
ENDS = ("stored", "duplicate", "late_duplicate", "dropped", "waiting", "parked", "discarded")
TERMS = ("received", *ENDS, "in_flight", "difference")
