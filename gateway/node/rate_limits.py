"""How many payloads a second a device, an address and a tenant may send.

A leaky bucket needs one number: until when what it has let through is paid for. They lie in a
table of fixed size that a node's workers share, so a million made-up ids take no more memory than
one. Where room has to be made, the bucket goes that owes least: a noisy one stays known.
"""

import math
import mmap
import os
import time
from collections.abc import Callable
from typing import NamedTuple

from gateway.http.client_address import ClientAddress, Headers
from gateway.http.problems import Problem, refused, retry_after
from shared.settings import GatewaySettings

_SETS = 1 << 16
_WAYS = 4
_TABLE_BYTES = _SETS * _WAYS * 16
_ROUNDING_S = 1e-6


DeviceLimit = Callable[[str], Problem | None]


class Buckets:
    """Keys are told apart by Python's hash of text, whose seed nobody outside knows; workers that
    share a table share that seed, too. There is no lock: of two workers that take from a bucket in
    the same microsecond, one may take for nothing."""

    def __init__(self, memory_fd: int = -1) -> None:
        memory = memoryview(mmap.mmap(memory_fd, _TABLE_BYTES))
        self._keys = memory[: _TABLE_BYTES // 2].cast("q")
        self.paid_until_s = memory[_TABLE_BYTES // 2 :].cast("d")

    @staticmethod
    def memory_to_share() -> int:
        memory_fd = os.memfd_create("headrace-buckets")
        os.ftruncate(memory_fd, _TABLE_BYTES)
        return memory_fd

    def place(self, key: int) -> int:
        keys = self._keys
        first = (key & (_SETS - 1)) * _WAYS
        if keys[first] == key:
            return first
        if keys[first + 1] == key:
            return first + 1
        if keys[first + 2] == key:
            return first + 2
        if keys[first + 3] == key:
            return first + 3
        paid_until_s = self.paid_until_s
        place, least_s = first, paid_until_s[first]
        for way in (first + 1, first + 2, first + 3):  # half the time that `min` takes
            if paid_until_s[way] < least_s:
                place, least_s = way, paid_until_s[way]
        keys[place], paid_until_s[place] = key, 0.0
        return place


class _Limit(NamedTuple):
    number: int  # as _WHOSE counts
    rate: float
    interval_s: float
    ahead_max_s: float


_WHOSE = ("device", "address", "tenant")


class RateLimits:
    def __init__(
        self,
        settings: GatewaySettings,
        buckets: Buckets | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        rates = (settings.rate_per_device, settings.rate_per_address, settings.rate_per_tenant)
        self._limits = [
            # a bucket that holds less than one payload would never let one through
            _Limit(number, rate, 1 / rate, max(settings.rate_burst_s, 1 / rate) + _ROUNDING_S)
            for number, rate in enumerate(rates)
            if rate
        ]
        self._by_address = bool(settings.rate_per_address)
        self._addresses = ClientAddress(settings.trusted_proxies)
        self._buckets = buckets or Buckets()
        self._clock = clock

    def of(self, tenant: str, peer: str, headers: Headers) -> DeviceLimit:
        """For the payloads of one request."""
        address = self._addresses.of(peer, headers) if self._by_address else ""
        return lambda device: self.refusal(tenant, device, address)

    def refusal(self, tenant: str, device: str, address: str) -> Problem | None:
        """Takes one payload from each bucket, or from none."""
        place, paid_until_s = self._buckets.place, self._buckets.paid_until_s
        now_s = self._clock()
        keys = (hash((tenant, device)), hash(address) ^ 1, hash(tenant) ^ 2)
        taken: list[tuple[int, float]] = []
        for number, rate, interval_s, ahead_max_s in self._limits:
            at = place(keys[number])
            until_s = paid_until_s[at]
            until_s = (until_s if until_s > now_s else now_s) + interval_s
            if until_s - now_s > ahead_max_s:
                return _refused(_WHOSE[number], rate, until_s - now_s - ahead_max_s)
            taken.append((at, until_s))
        for at, until_s in taken:
            paid_until_s[at] = until_s
        return None


def rate_limits(settings: GatewaySettings, buckets: Buckets | None = None) -> RateLimits | None:
    """None where nothing is limited: then nothing is asked."""
    rates = (settings.rate_per_device, settings.rate_per_address, settings.rate_per_tenant)
    return RateLimits(settings, buckets) if any(rates) else None


def _refused(whose: str, rate: float, wait_s: float) -> Problem:
    seconds = math.ceil(wait_s)
    return refused(
        429,
        "rate_limited",
        f"this {whose} sends more than {rate:g} payloads a second; the payload was not written, "
        f"send it again after {seconds} s",
        retry_after(seconds),
    )
