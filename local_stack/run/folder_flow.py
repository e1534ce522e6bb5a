"""A state folder stays with its flow: another one could not go on from what is in it."""

from collections.abc import Mapping
from pathlib import Path

from local_stack.terminal.errors import StackError
from shared.errors import CheckpointsAwayError
from shared.flow import load_flow
from shared.flow_table import Flow
from shared.settings import Settings
from stream_jobs.guards.checkpoint_folder import folder_at
from stream_jobs.guards.checkpoint_offsets import why_not


def flow_reference(settings: Mapping[str, str]) -> str:
    return settings.get("HEADRACE_FLOW", Settings.model_fields["flow"].default)


def refuse_another_flow(state_dir: Path, settings: Mapping[str, str]) -> None:
    flow = load_flow(flow_reference(settings))
    if stored := settings.get("HEADRACE_CHECKPOINT_STORE"):
        _refuse_another_flow_there(stored, flow)
        return
    elsewhere = settings.get("HEADRACE_CHECKPOINT_DIR")
    reason = why_not(Path(elsewhere) if elsewhere else state_dir / "checkpoints", flow)
    if reason:
        reset = f"./headrace reset --yes --state-dir {state_dir}"
        if elsewhere:  # which `reset` leaves alone
            fix = "choose another HEADRACE_CHECKPOINT_DIR and --state-dir, or remove both: "
            raise StackError(reason, f"{fix}rm -r {elsewhere}; {reset}")
        raise StackError(reason, f"choose another --state-dir, or remove all of this one: {reset}")


def _refuse_another_flow_there(stored: str, flow: Flow) -> None:
    try:
        reason = why_not(folder_at(stored), flow)
    except CheckpointsAwayError as error:
        raise StackError(
            str(error),
            "start the store, or look at HEADRACE_CHECKPOINT_STORE, AWS_ENDPOINT_URL and the keys",
        ) from None
    if reason:
        fix = "choose another HEADRACE_CHECKPOINT_STORE and --state-dir, or remove both"
        raise StackError(reason, fix)
