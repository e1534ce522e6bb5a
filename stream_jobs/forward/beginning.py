"""Where forward begins that has no checkpoint, or one that does not fit: with the first hook, and
with what still waits. It may send again what is done; it passes over nothing.

And where it begins on topics of states that its checkpoint knows nothing of."""

from collections.abc import Iterable

from clients.kafka.follow import whole_log
from clients.kafka.offsets import LogOffsets
from clients.kafka.records import Offsets, by_partition, by_topic, or_end
from shared.consumer_groups import HOOKS, of_job
from shared.flow_table import Flow
from shared.forwarding.hook import Hooks
from shared.settings import JobSettings
from shared.topic_names import HOOK_TOPIC, gate_topic, wake_topic
from stream_jobs.forward import at_most_once, bucket_state
from stream_jobs.forward.delivery import STAGE, read_gate
from stream_jobs.guards import checkpoint_identity
from stream_jobs.guards.checkpoint_folder import CheckpointFolder, checkpoint_of
from stream_jobs.guards.checkpoint_offsets import offsets_of, remember_ahead


def start(settings: JobSettings, flow: Flow) -> Offsets | None:
    """None: it goes on from its checkpoint."""
    job = flow.job(STAGE)
    checkpoint = checkpoint_of(settings, STAGE)
    identity = wanted_of(settings)
    if checkpoint_identity.why_not(checkpoint, identity) is None:
        _join_states(settings, flow, checkpoint)
        return None
    hooks, oldest_ms = _hooks_and_oldest(settings)
    made_ms = _least(hook.made_ms for hook in hooks.all())
    with LogOffsets(settings.kafka, of_job(STAGE), job.ignited_by) as log:
        ends, done = log.ends(), by_partition(log.committed().offsets)
        first, waits = (
            log.since(dict.fromkeys(ends, at_ms)) if at_ms is not None else {}
            for at_ms in (made_ms, oldest_ms)
        )
    begins = {}
    for at, end in ends.items():
        still_waits = or_end(waits, at, end)
        begins[at] = max(or_end(first, at, end), min(done.get(at, end), still_waits))
        if at[0] == wake_topic(STAGE):
            begins[at] = end
    checkpoint_identity.begin_anew(checkpoint, identity)
    at_most_once.begin_anew(settings, ends)
    return by_topic(begins)


def wanted_of(settings: JobSettings) -> checkpoint_identity.Identity:
    """What its checkpoint must be made for."""
    return checkpoint_identity.identity(settings, {"what waits": bucket_state.FORMAT})


def _join_states(settings: JobSettings, flow: Flow, checkpoint: CheckpointFolder) -> None:
    """Begins with the states of topics that it has not read, since it was of a version that read
    none or the entity is new: from the first hook of states on. Nobody gets what was before, and
    while forward read that all others would wait."""
    known = offsets_of(checkpoint).planned
    new = [topic for topic in flow.state_by_topic if topic not in known]
    if not known or not new:
        return
    with LogOffsets(settings.kafka, of_job(STAGE), new) as log:
        ends = log.ends()
        hooks, _ = _hooks_and_oldest(settings)  # one that is made from here on gets what is behind
        if hooks.wrong:
            return  # it may ask for states
        made_ms = _least(hook.made_ms for hook in hooks.all() if hook.of == "states")
        first = log.since(dict.fromkeys(ends, made_ms)) if made_ms is not None else {}
    remember_ahead(checkpoint, by_topic({at: or_end(first, at, end) for at, end in ends.items()}))


def _hooks_and_oldest(settings: JobSettings) -> tuple[Hooks, int | None]:
    """And since when the oldest delivery waits."""
    hooks = Hooks()
    oldest: dict[bytes | None, int] = {}
    for message in whole_log(settings.kafka, HOOKS, [HOOK_TOPIC, gate_topic(STAGE)]):
        key, value = message.key(), message.value()
        if message.topic() == HOOK_TOPIC:
            hooks.hear(key, value)
        elif value is None:
            oldest.pop(key, None)
        else:
            oldest[key] = read_gate(value)["oldest_ms"]
    return hooks, _least(oldest.values())


def _least(times_ms: Iterable[int]) -> int | None:
    return min(times_ms, default=None)
