"""What the end of a query means: try again, or stop by name. Pure."""

import re
from typing import NamedTuple

# Damage that a restart cannot mend, or that it would make worse: a person has to look.
_STOPPING = (
    "CONCURRENT_STREAM_LOG_UPDATE",
    "STREAMING_CHECKPOINT_MISSING_METADATA_FILE",
    "STREAMING_STATEFUL_OPERATOR",
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_PROVIDER_CLASS",
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
_NAMED = re.compile(
    r"(StaleMasterDataError|StoreAwayError|StoreSlowError|LeaseEndedError|StalledError): (.+)"
)
_OTHER_COPY = re.compile(r"AnotherCopyError: (.+)")


class Failure(NamedTuple):
    stops: bool
    waits: bool  # for something outside that will come back
    reason: str
    other_copy: bool = False
    store_away: bool = False


def judge(message: str, causes: str = "") -> Failure:
    """`causes`: the stack trace of the whole, which the message does not have."""
    other = _OTHER_COPY.search(message)
    if other:
        return Failure(stops=True, waits=False, reason=other.group(1).strip(), other_copy=True)
    named = _NAMED.search(message)
    if named:
        return Failure(
            stops=False,
            waits=True,
            reason=named.group(2).strip(),
            store_away=named.group(1).startswith("Store"),
        )
    conditions = _CONDITION.findall(message)
    for condition in conditions:
        damaged = condition.startswith(_DAMAGED_STATE[0]) and _DAMAGED_STATE[1] in causes
        if damaged or condition.startswith(_STOPPING):
            return Failure(stops=True, waits=False, reason=condition)
    if damaged_file := _DAMAGED_FILE.search(f"{message}\n{causes}"):
        reason = f"CHECKPOINT_DAMAGED: {damaged_file[1]} is not what was written"
        return Failure(stops=True, waits=False, reason=reason)
    return Failure(stops=False, waits=False, reason=_last_telling_line(message))


def _last_telling_line(message: str) -> str:
    raised = _RAISED.findall(message)
    if raised and "Traceback (most recent call last)" in message:
        return str(raised[-1])[:_REASON_CHARS_MAX]
    lines = [line.strip() for line in message.splitlines()]
    telling = [line for line in lines if line and not line.startswith(("at ", "===", "Caused by"))]
    return telling[0][:_REASON_CHARS_MAX] if telling else "no reason given"
