"""How much a gateway holds at once. What does not fit is refused before it costs anything."""

from collections.abc import Hashable

from gateway.auth.holders import Holders

# so many bodies of a size fill the pot: those that are smaller are counted for nobody, which costs
# nothing
_SMALL_ONES = 8192


class Admission:
    """Bytes count from the moment they are received: a body that is still being read is memory
    too. Payloads count while they are written, so that idle clients take no one's place.

    Whoever holds more than a share of the bytes leaves the last share of them to others."""

    def __init__(
        self,
        payloads_max: int,
        bytes_max: int,
        share: float = 1.0,
        trusted_proxies: str = "none",
    ) -> None:
        self.payloads_max = payloads_max
        self.bytes_max = bytes_max
        self.share_bytes = int(bytes_max * share)
        self.small_bytes = bytes_max // _SMALL_ONES
        self.payloads = 0
        self.bytes = 0
        self.bytes_of: dict[Hashable, int] = {}
        self.holders = Holders(trusted_proxies)

    def hold(self, size_bytes: int) -> bool:
        if self.bytes + size_bytes > self.bytes_max:
            return False
        self.bytes += size_bytes
        return True

    def let_go(self, size_bytes: int) -> None:
        self.bytes -= size_bytes

    def hold_for(self, holder: Hashable, size_bytes: int) -> bool:
        """Counts a part of what `hold` has taken as one caller's."""
        held_bytes = self.bytes_of.get(holder, 0) + size_bytes
        if held_bytes > self.share_bytes and self.bytes > self.bytes_max - self.share_bytes:
            return False
        self.bytes_of[holder] = held_bytes
        return True

    def let_go_for(self, holder: Hashable, size_bytes: int) -> None:
        self.bytes_of[holder] -= size_bytes
        if not self.bytes_of[holder]:
            del self.bytes_of[holder]

    def enter(self, payloads: int = 1) -> bool:
        if self.payloads + payloads > self.payloads_max:
            return False
        self.payloads += payloads
        return True

    def leave(self, payloads: int = 1) -> None:
        self.payloads -= payloads
