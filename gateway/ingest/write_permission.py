"""What a caller may write: whose payloads, and that they are those which were signed."""

from gateway.auth.caller import Caller, not_your_id, other_body, writers_only
from gateway.ingest.record import Item, Key
from gateway.ingest.split_batch import Items


def refuse_others(caller: Caller, entity_id: str) -> None:
    """`entity_id`: as the path has it, empty where frames name their entities themselves."""
    if not caller.may_write:
        raise writers_only()
    if entity_id and not caller.is_own(entity_id):
        raise not_your_id(caller)


def refuse_other_body(caller: Caller, body_sha256: str) -> None:
    if caller.signed is not None and caller.signed.body_sha256 != body_sha256:
        raise other_body()


def key_of(caller: Caller, given: Key | None, number: int = 0) -> Key | None:
    """A signed request that comes twice is one event, also without an Idempotency-Key."""
    if given is None and caller.signed is not None:
        return caller.signed.key(number)
    return given


def items_of(caller: Caller, items: Items) -> Items:
    """The items of a batch, each payload judged alone."""
    for number, item in enumerate(items):
        if not isinstance(item, Item):
            yield item
        elif not caller.is_own(item.entity_id):
            yield not_your_id(caller)
        elif caller.signed is None:  # most are: no copy for those
            yield item
        else:
            yield Item(item.entity_id, item.payload, key_of(caller, item.key, number))
