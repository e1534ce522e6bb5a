from gateway.event_streams.event_channels import EventChannels
from gateway.event_streams.wanted_events import Wanted
from gateway.streams.log_position import Layout, Scope

SCOPE = Scope(Layout({"event.reading.v1": 1}), None)


def wanting(channels: EventChannels[str], key: bytes) -> set[str]:
    return {member for channel in channels.of(key) for member in channel.members}


def test_an_event_is_offered_to_those_of_its_tenant_that_want_its_entity() -> None:
    channels: EventChannels[str] = EventChannels()
    for name, wanted in {
        "one of acme": Wanted(b"acme", keys=frozenset({b"acme/one"})),
        "two of acme": Wanted(b"acme", keys=frozenset({b"acme/one", b"acme/two"})),
        "acme": Wanted(b"acme"),
        "beta": Wanted(b"beta"),
        "nobody's": Wanted(b""),
        "one": Wanted(b"", keys=frozenset({b"one"})),
    }.items():
        channels.join(name, wanted, SCOPE)
    assert wanting(channels, b"acme/one") == {"one of acme", "two of acme", "acme"}
    assert wanting(channels, b"acme/two") == {"two of acme", "acme"}
    assert wanting(channels, b"beta/one") == {"beta"}
    assert wanting(channels, b"one") == {"nobody's", "one"}
    assert wanting(channels, b"other") == {"nobody's"}


def test_those_who_want_the_same_share_a_channel_and_leave_nothing_behind() -> None:
    channels: EventChannels[str] = EventChannels()
    wanted = Wanted(b"", keys=frozenset({b"one", b"two"}))
    channel = channels.join("a", wanted, SCOPE)
    assert channels.join("b", wanted, SCOPE) is channel
    channels.leave("a", channel)
    assert wanting(channels, b"two") == {"b"}
    channels.leave("b", channel)
    assert channels.of(b"one") == channels.of(b"two") == []
    assert channels.join("c", wanted, SCOPE) is not channel


def test_what_a_round_has_is_owed_once_and_not_to_who_joins_then() -> None:
    channels: EventChannels[str] = EventChannels()
    channel = channels.join("early", Wanted(b""), SCOPE)
    channel.add(b"1")
    channel.add(b"2")
    channel.begin_round()
    channels.join("late", Wanted(b""), SCOPE)
    assert channel.owed("early") == b"12"
    assert channel.owed("early") == channel.owed("late") == b""
    channel.add(b"3")
    assert channel.owed("early") == b""  # not before the round
    channel.begin_round()
    assert channel.owed("early") == channel.owed("late") == b"3"
