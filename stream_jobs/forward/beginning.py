"""Where forward begins that has no checkpoint, or one that does not fit: with the first hook, and
with what still waits. It may send again what is done; it passes over nothing."""

from collections.abc import Iterable

from clients.kafka.follow import LogFollower
from clients.kafka.offsets import LogOffsets
from clients.kafka.records import Offsets, by_partition, by_topic
from shared.consumer_groups import HOOKS, of_job
from shared.flow_table import Job
from shared.forwarding.hook import Hooks
from shared.settings import JobSettings
from shared.topic_names import HOOK_TOPIC, gate_topic, wake_topic
from stream_jobs.forward import at_most_once
from stream_jobs.forward.delivery import STAGE, read_gate
from stream_jobs.guards import checkpoint_identity


def start(settings: JobSettings, job: Job) -> Offsets | None:
    """None: it goes on from its checkpoint."""
    checkpoint, identity = settings.checkpoints / STAGE, checkpoint_identity.identity(settings, {})
    if checkpoint_identity.why_not(checkpoint, identity) is None:
        return None
    made_ms, oldest_ms = _since(settings)
    with LogOffsets(settings.kafka, of_job(STAGE), job.ignited_by) as log:
        ends, done = log.ends(), by_partition(log.committed().offsets)
        first, waits = (
            log.since(dict.fromkeys(ends, at_ms)) if at_ms is not None else {}
            for at_ms in (made_ms, oldest_ms)
        )
    begins = {}
    for at, end in ends.items():
        behind_all_hooks = end if (found := first.get(at)) is None else found
        still_waits = end if (found := waits.get(at)) is None else found
        begins[at] = max(behind_all_hooks, min(done.get(at, end), still_waits))
        if at[0] == wake_topic(STAGE):
            begins[at] = end
    checkpoint_identity.begin(checkpoint, identity)
    at_most_once.begin_anew(settings, ends)
    return by_topic(begins)


def _since(settings: JobSettings) -> tuple[int | None, int | None]:
    """When the first hook was made, and since when the oldest delivery waits."""
    hooks = Hooks()
    oldest: dict[bytes | None, int] = {}
    log = LogFollower(settings.kafka, HOOKS, [HOOK_TOPIC, gate_topic(STAGE)])
    try:
        log.go_on_from({})
        for message in log.to_the_end():
            key, value = message.key(), message.value()
            if message.topic() == HOOK_TOPIC:
                hooks.hear(key, value)
            elif value is None:
                oldest.pop(key, None)
            else:
                oldest[key] = read_gate(value)["oldest_ms"]
    finally:
        log.close()
    return _least(hook.made_ms for hook in hooks.all()), _least(oldest.values())


def _least(times_ms: Iterable[int]) -> int | None:
    return min(times_ms, default=None)
