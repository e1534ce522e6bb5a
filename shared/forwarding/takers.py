"""Whose event it is among many hooks, without a look at each of them. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from shared.forwarding.cloud_event import CloudEvent, is_for
from shared.forwarding.hook import Hook

_ALL = ""  # stands for any entity, or any type: none is called so


class Takers:
    """Hooks by what they name first: entities, or else types. A stack may have thousands, of which
    most name the few entities that they are for."""

    def __init__(self, hooks: Iterable[Hook]) -> None:
        self._by: defaultdict[tuple[str, str, str], list[Hook]] = defaultdict(list)
        self._of: set[str] = set()
        for hook in hooks:
            self._of.add(hook.of)
            if hook.entities:
                for entity in {*hook.entities}:
                    self._by[hook.of, entity, _ALL].append(hook)
            else:
                for kind in {*hook.types} or {_ALL}:
                    self._by[hook.of, _ALL, kind].append(hook)

    def any_of(self, of: str) -> bool:
        return of in self._of

    def of(self, event: CloudEvent) -> Iterator[Hook]:
        """Those that it is for."""
        places = ((event.own_id, _ALL), (_ALL, event.type), (_ALL, _ALL))
        for place in dict.fromkeys(places):
            for hook in self._by.get((event.of, *place), ()):
                if is_for(hook, event):
                    yield hook
