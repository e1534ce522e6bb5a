"""The takers that are looked up are those that a look at each hook finds."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shared.forwarding.cloud_event import CloudEvent, is_for
from shared.forwarding.hook import Hook, new_hook
from shared.forwarding.takers import Takers

_TYPES, _IDS = ("reading", "alarm"), ("a", "b")
_BEGINS = {"events": "", "completions": "completion.", "states": "state."}
_some_hooks = st.lists(
    st.fixed_dictionaries(
        {
            "of": st.sampled_from(sorted(_BEGINS)),
            "types": st.lists(st.sampled_from(_TYPES), unique=True),
            "entities": st.lists(st.sampled_from(_IDS)),
            "tenant": st.sampled_from([None, "", "acme"]),
            "where": st.sampled_from([[], ["value > 1"]]),
        }
    ),
    max_size=12,
)
_events = st.builds(
    lambda of, kind, key, value, id_: CloudEvent(
        key.encode(),
        b'{"data": {"value": %d, "state": {"value": %d}}}' % (value, value),
        [("ce_id", id_.encode()), ("ce_type", f"{_BEGINS[of]}{kind}".encode())],
    ),
    st.sampled_from(sorted(_BEGINS)),
    st.sampled_from([*_TYPES, "other", ""]),
    st.sampled_from([*_IDS, "acme/a", "other/b", "c", ""]),
    st.integers(0, 2),
    st.sampled_from(["event-1", ""]),
)


def _made(number: int, fields: dict[str, Any]) -> Hook:
    return new_hook(name=f"hook-{number}", url="https://example.org/in", made_ms=1, **fields)


@given(_some_hooks, _events)
def test_takers_are_those_that_a_look_at_each_finds(
    fields: list[dict[str, Any]], event: CloudEvent
) -> None:
    hooks = [_made(number, own) for number, own in enumerate(fields)]
    found = [hook.name for hook in Takers(hooks).of(event)]
    assert sorted(found) == sorted(hook.name for hook in hooks if is_for(hook, event))


def test_it_knows_whether_any_hook_wants_states() -> None:
    takers = Takers([_made(1, {"of": "events"}), _made(2, {"of": "states"})])
    assert takers.any_of("states")
    assert not takers.any_of("completions")
