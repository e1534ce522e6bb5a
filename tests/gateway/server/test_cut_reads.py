"""The corpus, cut into two reads at each of its bytes, also behind a head that is known: how it is
read depends neither on where a read ends nor on what was read before."""

import asyncio
import random
import re
from collections.abc import Iterator

import pytest

from gateway.server.head_cache import KnownHeads
from shared.settings import GatewaySettings
from tests.gateway.driven import Driven, Outcome
from tests.gateway.smuggling_corpus import CORPUS, PATH, SMUGGLED, Vector
from tests.gateway.support import Gateway, gateway_of

KNOWN = b"POST /v1/telemetry/known HTTP/1.1\r\nHost: gateway\r\nContent-Length: 4\r\n\r\ngood"
UPGRADE = b"Connection: Upgrade\r\nUpgrade: h2c\r\n"
_LONG_BYTES = 600  # of what is longer, the middle is cut here and there


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("cut")
    settings = GatewaySettings(state_dir=folder, body_bytes_max=1000, hosts="gateway")
    with gateway_of(settings) as gateway:
        yield gateway


@pytest.mark.slow
@pytest.mark.parametrize("before", [b"", KNOWN], ids=["alone", "behind a known head"])
@pytest.mark.parametrize("vector", CORPUS, ids=lambda vector: vector.name)
def test_a_request_is_read_the_same_wherever_it_is_cut(
    target: Gateway, vector: Vector, before: bytes
) -> None:
    async def run() -> list[str]:
        driven = Driven(target)
        await _learn(driven)
        return await _faults(driven, before, vector)

    assert asyncio.run(run()) == []


async def _learn(driven: Driven) -> None:
    for known in (KNOWN, SMUGGLED):
        assert (await driven.outcome([known])).statuses == [202]


async def _faults(driven: Driven, before: bytes, vector: Vector) -> list[str]:
    """Where it is read otherwise than as a whole. `before`: what comes with its first part."""
    whole = await driven.outcome([vector.sent])
    assert whole.written == _right(vector)
    if before:
        whole = Outcome([202, *whole.statuses], [(b"known", b"good"), *whole.written])
    sent = before + vector.sent
    faults = []
    for cut in (len(sent), *(len(before) + cut for cut in _cuts(vector.sent))):
        found = await driven.outcome([sent[:cut], sent[cut:]])
        if found != whole:
            faults.append(f"{sent[:cut]!r} | {sent[cut:]!r}: {found}")
    return faults


def _right(vector: Vector) -> list[tuple[bytes, bytes]]:
    return [] if vector.taken is None else [(PATH.rpartition(b"/")[2], vector.taken)]


def _cuts(sent: bytes) -> Iterator[int]:
    if len(sent) <= _LONG_BYTES:
        yield from range(1, len(sent))
        return
    ends = _LONG_BYTES // 2
    yield from range(1, ends)
    yield from random.Random(1).sample(range(ends, len(sent) - ends), 50)
    yield from range(len(sent) - ends, len(sent))


def test_the_wish_for_another_protocol_changes_nothing(target: Gateway) -> None:
    async def run() -> int:
        driven, looked_at = Driven(target), 0
        for vector in CORPUS:
            line, end, rest = vector.sent.partition(b"\r\n")
            if not line or re.search(rb"(?i)connection:|upgrade:|^PRI|^CONNECT", vector.sent):
                continue
            wishing = line + end + UPGRADE + rest
            whole = await driven.outcome([vector.sent])
            for cut in (len(wishing), len(line + end + UPGRADE), len(wishing) - 3):
                found = await driven.outcome([wishing[:cut], wishing[cut:]])
                assert found == whole, wishing
            looked_at += 1
        return looked_at

    assert asyncio.run(run()) > 100


def test_known_heads_change_nothing_about_what_is_read(
    target: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Streams of requests, cut at random: the same with all heads known as with none."""
    chance = random.Random(1)
    streams = [_stream(chance) for _ in range(3000)]

    async def outcomes() -> list[Outcome]:
        driven = Driven(target)
        await _learn(driven)
        return [await driven.outcome(reads) for reads in streams]

    with_known = asyncio.run(outcomes())
    monkeypatch.setattr(KnownHeads, "find", lambda *_: None)
    without = asyncio.run(outcomes())
    for reads, one, other in zip(streams, with_known, without, strict=True):
        assert one == other, reads
    assert sum(len(outcome.written) for outcome in without) > len(streams)


def _stream(chance: random.Random) -> list[bytes]:
    short = [vector.sent for vector in CORPUS if len(vector.sent) < _LONG_BYTES]
    some = [KNOWN, SMUGGLED, KNOWN[: chance.randrange(len(KNOWN))], b"\r\n", chance.choice(short)]
    sent = b"".join(chance.choices(some, weights=(5, 3, 1, 1, 1), k=chance.randrange(1, 5)))
    # where one of them begins is where a reader that forgets its place would begin
    begins = [found.start() for found in re.finditer(rb"POST|good|evil", sent)]
    places = [*begins, *(chance.randrange(len(sent) + 1) for _ in range(2))]
    cuts = sorted(chance.sample(places, min(len(places), chance.randrange(4))))
    return [sent[i:j] for i, j in zip([0, *cuts], [*cuts, len(sent)], strict=True) if i < j]
