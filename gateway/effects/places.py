"""How many requests of this process may wait at once, whatever they wait for."""


class Places:
    def __init__(self, most: int) -> None:
        self._most = most
        self.taken = 0

    def take(self) -> bool:
        """False where all are taken. Whoever has one gives it back."""
        if self.taken >= self._most:
            return False
        self.taken += 1
        return True

    def give_back(self) -> None:
        self.taken -= 1

    @property
    def pause_s(self) -> float:
        """Between two looks of one of them, so that all together cost a part of a core."""
        return self.taken / _LOOKS_A_SECOND_MAX


_LOOKS_A_SECOND_MAX = 2_000
