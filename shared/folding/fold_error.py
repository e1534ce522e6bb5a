"""What a fold's own code raised, told to who wrote it. Pure."""

from collections.abc import Callable

from shared.folding.snapshot import Snapshot
from shared.model import Entity, MissingMasterData, NotYet
from shared.user_code import describe_error

_CANNOT_WAIT = (
    "a fold cannot wait, for asked again it would get the same state and event; let the payload "
    "wait in its enrichment, keep in the state what is open, or give an Action a time limit"
)


def first_snapshot(entity: Entity, entity_id: str) -> Snapshot | str:
    """Or why there can be none: `initial` is a user's code, too."""
    try:
        return Snapshot(state=entity.initial(entity_id))
    except Exception as error:
        return told(error, entity.initial)


def told(error: Exception, function: Callable[..., object]) -> str:
    said = describe_error(error, function)
    if isinstance(error, NotYet | MissingMasterData):
        return f"{said}: {_CANNOT_WAIT}"
    return said
