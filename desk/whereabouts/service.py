"""Where an event is, by the id on its receipt: asked at the desk and at a terminal."""

from contextlib import closing

from desk.letters.service import Desk
from gateway.peers.lookup import Lookup
from gateway.whereabouts.finder import Finder
from gateway.whereabouts.log_clients import LogClients
from gateway.whereabouts.stages import told
from shared.consumer_groups import DESK
from shared.flow import load_flow
from shared.model import Fields


class Whereabouts:
    """KafkaAwayError, StoreAwayError or StaleMasterDataError where one that the answer needs is not
    there."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._flow = load_flow(desk.settings.flow)

    def find(self, event_id: str, place: str | None = None) -> Fields:
        """`place`: topic/partition/offset, as the receipt says. BadPlaceError."""
        settings = self._desk.settings
        with (
            closing(Lookup(settings)) as states,
            closing(LogClients(settings.kafka, DESK)) as log,
        ):
            finder = Finder(self._flow, log, states.find)
            return told(finder.find(self._desk.book.connection, event_id, place))
