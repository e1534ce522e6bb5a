"""What a hook's answer, or its silence, means for what was sent. Pure."""

from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import NamedTuple

_WAIT_MAX_S = 86_400  # whoever asks for more gets a try a day
_GONE = 410
_MAY_NAME_A_TIME = (429, 503)
# these say something of the very event; all else that is no 2xx says something of the target
_OF_THE_EVENT = (400, 406, 409, 411, 412, 413, 414, 415, 416, 417, 422)


class HookVerdict(StrEnum):
    DONE = "done"
    FAILED = "failed"  # to be tried again
    GONE = "gone"  # the target wants no more, of anything


class Answer(NamedTuple):
    status: int | None  # None: there was none
    ms: int
    said: str = ""  # the first bytes of its body, or why there was no answer
    retry_after: str | None = None

    @property
    def verdict(self) -> HookVerdict:
        if self.status is None:
            return HookVerdict.FAILED
        if 200 <= self.status < 300:
            return HookVerdict.DONE
        return HookVerdict.GONE if self.status == _GONE else HookVerdict.FAILED

    @property
    def is_of_the_target(self) -> bool:
        """Others of this hook would fail the same way."""
        return self.verdict is not HookVerdict.DONE and self.status not in _OF_THE_EVENT

    def wait_ms(self, now_ms: int) -> int:
        """How long it asks not to be tried again; 0: it says nothing."""
        if self.status not in _MAY_NAME_A_TIME or self.retry_after is None:
            return 0
        told = self.retry_after.strip()
        if told.isascii() and told.isdigit():
            wait_s = float(min(int(told[:9]), _WAIT_MAX_S))
        else:
            try:
                at = parsedate_to_datetime(told)
                if at.tzinfo is None:  # -0000, of which no zone is known
                    at = at.replace(tzinfo=UTC)
                wait_s = at.timestamp() - now_ms / 1000
            except (ValueError, TypeError, OverflowError):
                return 0
        return int(min(max(wait_s, 0), _WAIT_MAX_S) * 1000)

    def told(self) -> str:
        """In a few words."""
        answer = "no answer" if self.status is None else f"status {self.status}"
        return f"{answer}: {self.said}".removesuffix(": ")
