"""What the end of a query means: try again, or stop by name. Pure."""

import re
from typing import NamedTuple

from shared.errors import AnotherCopyError, JobError, StopError, StoreAwayError, WaitError, by_name

# Damage that a restart cannot mend, or that it would make worse: a person has to look.
_WRITTEN_BY_ANOTHER = "CONCURRENT_STREAM_LOG_UPDATE"
_STOPPING = (
    _WRITTEN_BY_ANOTHER,
    "STREAMING_CHECKPOINT_MISSING_METADATA_FILE",
    "STREAMING_STATEFUL_OPERATOR",
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_ROW_CHECKSUM_VERIFICATION_FAILED",
    "CANNOT_LOAD_STATE_STORE.CANNOT_READ",
    "CANNOT_LOAD_STATE_STORE.INVALID",
)
# a file of the state that is not what Spark has written: read again, it would be the same
_DAMAGED_STATE = "CANNOT_LOAD_STATE_STORE", "ChecksumException"
# nor is a file that says what batches there were
_DAMAGED_FILE = re.compile(r"ChecksumException: Checksum error: (?:file:)?(\S+)")
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]")
# the last line of a Python traceback; where it stands in a module is in the log
_RAISED = re.compile(r"^\s*(?:[A-Za-z_]\w*\.)*([A-Z]\w*(?:Error|Exception): .+)$", re.MULTILINE)
_REASON_CHARS_MAX = 300


class Failure(NamedTuple):
    stops: bool
    waits: bool  # for something outside that will come back
    reason: str
    other_copy: bool = False
    store_away: bool = False


def judge(message: str, causes: str = "", *, is_stored: bool = False) -> Failure:
    """`causes`: the stack trace of the whole, which the message does not have. `is_stored`: other
    machines reach the checkpoint, too."""
    if stops := _raised(StopError, message):
        kind, reason = stops
        is_other_copy = issubclass(kind, AnotherCopyError)
        return Failure(stops=True, waits=False, reason=reason, other_copy=is_other_copy)
    if waits := _raised(WaitError, message):
        kind, reason = waits
        is_store_away = issubclass(kind, StoreAwayError)
        return Failure(stops=False, waits=True, reason=reason, store_away=is_store_away)
    conditions = _CONDITION.findall(message)
    for condition in conditions:
        if is_stored and condition == _WRITTEN_BY_ANOTHER:
            # by a driver that was frozen and has lost its claim: it is about to end
            return Failure(stops=False, waits=False, reason=condition)
        damaged = condition.startswith(_DAMAGED_STATE[0]) and _DAMAGED_STATE[1] in causes
        if damaged or condition.startswith(_STOPPING):
            return Failure(stops=True, waits=False, reason=condition)
    if damaged_file := _DAMAGED_FILE.search(f"{message}\n{causes}"):
        reason = f"CHECKPOINT_DAMAGED: {damaged_file[1]} is not what was written"
        return Failure(stops=True, waits=False, reason=reason)
    return Failure(stops=False, waits=False, reason=_last_telling_line(message))


def _raised(kind: type[JobError], message: str) -> tuple[type[JobError], str] | None:
    """The first exception of this kind that a message names, and what it says."""
    classes = by_name(kind)
    named = re.search(rf"({'|'.join(classes)}): (.+)", message)
    return (classes[named.group(1)], named.group(2).strip()) if named else None


def _last_telling_line(message: str) -> str:
    raised = _RAISED.findall(message)
    if raised and "Traceback (most recent call last)" in message:
        return str(raised[-1])[:_REASON_CHARS_MAX]
    lines = [line.strip() for line in message.splitlines()]
    telling = [line for line in lines if line and not line.startswith(("at ", "===", "Caused by"))]
    return telling[0][:_REASON_CHARS_MAX] if telling else "no reason given"
