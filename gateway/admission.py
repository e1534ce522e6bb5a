"""How much a gateway holds at once. What does not fit is refused before it costs anything."""


class Admission:
    """Bytes count from the moment they are received: a body that is still being read is memory
    too. Payloads count while they are written, so that idle clients take no one's place."""

    def __init__(self, payloads_max: int, bytes_max: int) -> None:
        self.payloads_max = payloads_max
        self.bytes_max = bytes_max
        self.payloads = 0
        self.bytes = 0

    def hold(self, size_bytes: int) -> bool:
        if self.bytes + size_bytes > self.bytes_max:
            return False
        self.bytes += size_bytes
        return True

    def let_go(self, size_bytes: int) -> None:
        self.bytes -= size_bytes

    def enter(self, payloads: int = 1) -> bool:
        if self.payloads + payloads > self.payloads_max:
            return False
        self.payloads += payloads
        return True

    def leave(self, payloads: int = 1) -> None:
        self.payloads -= payloads
