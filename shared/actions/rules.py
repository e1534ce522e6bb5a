"""What makes a row of an action one that does not add up, told with what to do. Pure."""

import re
from typing import Protocol

from shared.actions.action import Action
from shared.model import Endpoint, Entity, EventType

_GROUP = re.compile(r"[a-zA-Z0-9._-]{1,200}")
_OURS = "headrace-"
_WITHIN_MAX_S = 365 * 86_400


class Table(Protocol):
    @property
    def actions(self) -> tuple[Action, ...]: ...
    @property
    def open_endpoints(self) -> tuple[Endpoint, ...]: ...
    @property
    def event_types(self) -> tuple[EventType, ...]: ...
    @property
    def entities(self) -> tuple[Entity, ...]: ...


def refuse_bad_actions(flow: Table) -> None:
    types = {row.name: row for row in flow.event_types}
    endpoints = {row.name: row for row in flow.open_endpoints}
    for action in flow.actions:
        who = f"action {action.name}"
        if action.ignited_by not in types:
            raise ValueError(
                f"{who} is ignited by event type {action.ignited_by!r}, which no row declares"
            )
        if action.after not in ("event", "completion"):
            raise ValueError(f"{who}: after is {action.after!r}: say 'event' or 'completion'")
        if not _GROUP.fullmatch(action.group) or action.group.startswith(_OURS):
            raise ValueError(
                f"{who}: group {action.group!r}: use 1 to 200 letters, digits, dots, underscores "
                f"and dashes, and do not begin with {_OURS!r}"
            )
        if action.answered_at not in endpoints:
            known = ", ".join(endpoints)
            raise ValueError(
                f"{who} is answered at {action.answered_at!r}, which is no endpoint of this flow; "
                f"there are: {known}"
            )
        if action.within_s is not None:
            _refuse_bad_limit(action, flow.entities, types, endpoints[action.answered_at])
        elif action.entity is not None or action.waits is not None:
            raise ValueError(f"{who}: entity and waits are for a time limit: give within_s, too")


def _refuse_bad_limit(
    action: Action,
    entities: tuple[Entity, ...],
    types: dict[str, EventType],
    answered_at: Endpoint,
) -> None:
    who = f"action {action.name}"
    if action.within_s is None or not 0 < action.within_s <= _WITHIN_MAX_S:
        raise ValueError(f"{who}: within_s is {action.within_s}: above 0, at most a year")
    entity = next((row for row in entities if row.name == action.entity), None)
    if entity is None or action.waits is None:
        raise ValueError(
            f"{who} has a time limit: name the entity that waits, and in `waits` a function that "
            "tells by its state whether it still does"
        )
    if action.ignited_by not in (*entity.folds, *entity.emits):
        raise ValueError(
            f"{who}: entity {entity.name} neither folds nor emits {action.ignited_by}, so its "
            "state cannot know that it waits"
        )
    if action.timed_out not in types:
        raise ValueError(
            f"{who} has a time limit: declare its event, EventType({action.timed_out!r}, "
            "data=TimedOut)"
        )
    if action.timed_out not in entity.folds:
        raise ValueError(f"{who}: entity {entity.name} does not fold {action.timed_out}")
    for name in answered_at.emits:
        if name in entity.folds and types[name].topic != types[action.timed_out].topic:
            raise ValueError(
                f"{who}: {name} and {action.timed_out} may race, and which of them was first only "
                "a topic that they share can tell: give both one `stream`"
            )
