"""How often, and after which pauses, a record is handled again. Pure."""

from dataclasses import dataclass


class Refused(Exception):  # noqa: N818 - it is what the handler says of the event
    """The handler raises it for what no further attempt would change: the record goes to the dead
    letters at once."""


@dataclass(frozen=True, slots=True)
class Retry:
    attempts_max: int = 5
    first_pause_s: float = 0.5
    factor: float = 2.0
    pause_max_s: float = 60.0

    def __post_init__(self) -> None:
        if self.attempts_max < 1:
            raise ValueError(f"attempts_max is {self.attempts_max}: one attempt is the least")
        if min(self.first_pause_s, self.pause_max_s) < 0 or self.factor < 1:
            raise ValueError("pauses are not negative, and the factor is 1 or more")

    def pause_s(self, attempts: int) -> float | None:
        """After so many attempts; None: there is no further one."""
        if attempts >= self.attempts_max:
            return None
        try:
            pause_s = self.first_pause_s * self.factor ** (attempts - 1)
        except OverflowError:
            return self.pause_max_s
        return min(pause_s, self.pause_max_s)
