"""A state folder stays with its flow: another one could not go on from what is in it."""

from collections.abc import Mapping
from pathlib import Path

from local_stack.errors import StackError
from shared.flow import load_flow
from shared.settings import Settings
from stream_jobs.checkpoints import why_not


def refuse_another_flow(state_dir: Path, settings: Mapping[str, str]) -> None:
    default = Settings.model_fields["flow"].default
    flow = load_flow(settings.get("HEADRACE_FLOW", default))
    chosen = settings.get("HEADRACE_CHECKPOINT_DIR")
    reason = why_not(Path(chosen) if chosen else state_dir / "checkpoints", flow)
    if reason:
        remove = f"./headrace reset --yes --state-dir {state_dir}"
        raise StackError(reason, f"choose another --state-dir, or remove all of this one: {remove}")
