"""What the topics are called that are no row's own, and how much a record of them may have."""

# An event can be four times its payload: JSON may say in five bytes a number that is written out in
# eighteen. A record that its topic refused would stop the job that writes it.
RECORD_BYTES_MAX = 8 * 1024 * 1024
# beside it: what of a letter's earlier tries comes to, should it come again
LETTER_BYTES_MAX = RECORD_BYTES_MAX - 512 * 1024
# beside it: key and headers, the request's and ours
BODY_BYTES_MOST = LETTER_BYTES_MAX - 64 * 1024
JOB_STATUS_TOPIC = "job.status.v1"
# what an operator wants of a job; key: the job, null: that it works
JOB_ORDER_TOPIC = "job.order.v1"
VIEW_TOPICS = "view."  # they begin so
# who may ask the gateway; key: the credential's id, null: it is revoked
CREDENTIAL_TOPIC = "credential.v1"
# who gets events by HTTP; key: the hook's name, null: it is deleted
HOOK_TOPIC = "hooks.v1"
# each try to send an event to a hook
DELIVERY_TOPIC = "delivery.v1"
# where fold says which payloads it knew as repeats: by it the ledger tells those that it did not
REPEAT_TOPIC = "repeat.fold.v1"
# what fold cannot take in by itself: an entity is to be folded anew from its log; null: it was
REFOLD_TOPIC = "refold.fold.v1"
REFOLDED_TOPIC = "refolded.fold.v1"
# on each master topic: "what was committed until then is here". No row has this key: ids start with
# a letter or a digit
RELAY_HEARTBEAT_KEY = "_relay"


def master_topic(table: str) -> str:
    return f"master.{table}.v1"


def status_of_source(table: str) -> str:
    """The key on the status topic of who reads a table's rows from a store of the user's."""
    return f"source:{table}"


def retry_topic(stage: str) -> str:
    return f"retry.{stage}.v1"


def dead_letter_topic(stage: str) -> str:
    return f"dlq.{stage}.v1"


def again_topic(stage: str) -> str:
    return f"again.{stage}.v1"


def dropped_topic(stage: str) -> str:
    """Which payloads became no event, on purpose."""
    return f"dropped.{stage}.v1"


def breach_topic(stage: str) -> str:
    """Which payloads broke their contract, and became events all the same."""
    return f"breach.{stage}.v1"


def gate_topic(stage: str) -> str:
    """Whose payloads wait. Key: the entity; null: they wait no more. Of forward it is a bucket."""
    return f"gate.{stage}.v1"


def wake_topic(stage: str) -> str:
    """What may end the waiting in the lane of a stage."""
    return f"wake.{stage}.v1"
