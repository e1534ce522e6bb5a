from gateway.auth import token
from gateway.auth.credential_feed import CredentialFeed
from gateway.auth.credentials import Credentials, to_record
from gateway.http.problems import Problem
from gateway.state_view.records import Changes, Row
from gateway.state_view.store import ViewStore
from shared.settings import GatewaySettings
from shared.topic_names import CREDENTIAL_TOPIC
from tests.gateway.auth.support import Given, device

ONE, TWO = device("device-0001"), device("device-0002", "acme")


class Follower:
    def __init__(self, settings: GatewaySettings, store: ViewStore) -> None:
        self._credentials = Credentials()
        self._feed = CredentialFeed(settings.state_dir, self._credentials)
        self._store = store
        self._offset = 0

    def write(self, key: str, value: bytes | None) -> None:
        changes = Changes()
        if value is None:
            changes.delete(CREDENTIAL_TOPIC, key.encode())
        else:
            changes.put(Row(CREDENTIAL_TOPIC, key.encode(), value, None, 0, 0, self._offset))
        self._offset += 1
        changes.positions[CREDENTIAL_TOPIC, 0] = self._offset
        self._store.apply(changes)

    def add(self, one: Given) -> None:
        self.write(one.token.key_id, to_record(one.credential))

    def knows(self, one: Given) -> bool | None:
        """None: nothing is known yet."""
        self._feed.look()
        try:
            return token.Tokens(self._credentials).check(one.token.text.encode(), 0) is not None
        except Problem:
            return None


def test_it_follows_what_is_added_and_revoked(settings: GatewaySettings, store: ViewStore) -> None:
    follower = Follower(settings, store)
    assert follower.knows(ONE) is None
    store.begin_topic(CREDENTIAL_TOPIC, "an id")
    follower.add(ONE)
    assert follower.knows(ONE) is None  # it may be the half of what stands in Kafka
    store.caught_up([CREDENTIAL_TOPIC], 1)
    assert (follower.knows(ONE), follower.knows(TWO)) == (True, False)
    follower.add(TWO)
    assert (follower.knows(ONE), follower.knows(TWO)) == (True, True)
    follower.write(ONE.token.key_id, None)
    assert (follower.knows(ONE), follower.knows(TWO)) == (False, True)


def test_an_empty_topic_lets_nobody_in_but_is_known(
    settings: GatewaySettings, store: ViewStore
) -> None:
    store.begin_topic(CREDENTIAL_TOPIC, "an id")
    store.caught_up([CREDENTIAL_TOPIC], 1)
    assert Follower(settings, store).knows(ONE) is False


def test_what_was_known_holds_while_the_topic_is_read_again(
    settings: GatewaySettings, store: ViewStore
) -> None:
    follower = Follower(settings, store)
    store.begin_topic(CREDENTIAL_TOPIC, "an id")
    follower.add(ONE)
    store.caught_up([CREDENTIAL_TOPIC], 1)
    assert follower.knows(ONE)
    store.begin_topic(CREDENTIAL_TOPIC, "another id")
    assert follower.knows(ONE)
    follower.add(TWO)
    store.caught_up([CREDENTIAL_TOPIC], 2)
    assert (follower.knows(ONE), follower.knows(TWO)) == (False, True)


def test_a_record_that_is_none_lets_nobody_in_and_hinders_nobody(
    settings: GatewaySettings, store: ViewStore
) -> None:
    follower = Follower(settings, store)
    store.begin_topic(CREDENTIAL_TOPIC, "an id")
    store.caught_up([CREDENTIAL_TOPIC], 1)
    follower.write(ONE.token.key_id, b"\xff no json")
    follower.add(TWO)
    assert (follower.knows(ONE), follower.knows(TWO)) == (False, True)
    follower.add(ONE)
    assert follower.knows(ONE)
