"""Records as Kafka's client hands them out."""

from typing import NamedTuple

from shared.events.envelope import Header, Position


class Message(NamedTuple):
    place: Position
    its_key: bytes | None
    its_value: bytes | None
    its_headers: list[Header] | None
    arrived_ms: int = 0

    def topic(self) -> str:
        return self.place.topic

    def partition(self) -> int:
        return self.place.partition

    def offset(self) -> int:
        return self.place.offset

    def key(self) -> bytes | None:
        return self.its_key

    def value(self) -> bytes | None:
        return self.its_value

    def headers(self) -> list[Header] | None:
        if self.its_headers is None:  # as the real one does where a name is no UTF-8
            raise SystemError("returned a result with an exception set")
        return self.its_headers or None

    def timestamp(self) -> tuple[int, int]:
        return 1, self.arrived_ms
