"""The oracles go red for each kind of lie; else a green run would mean nothing."""

import random
from collections.abc import Callable
from hashlib import sha256

import pytest

from tests.faults.client_answers import Sent, Told
from tests.faults.oracles import Found, Place, doubled, violations

Run = tuple[list[Sent], dict[Place, Found]]


def _run() -> Run:
    """Twenty payloads of each of three entities; every fifth was spooled, every seventh refused."""
    sent: list[Sent] = []
    topic: dict[Place, Found] = {}
    for number in range(20):
        for partition, entity in enumerate(("a", "b", "c")):
            body = f"{entity} {number} {'x' * number}".encode()
            one = Sent(entity, number, sha256(body).hexdigest(), Told.DEFINITE)
            if number % 7 != 3:
                offset = sum(place[0] == partition for place in topic)
                topic[partition, offset] = Found(entity.encode(), body)
                spooled = number % 5 == 0
                one = one._replace(
                    told=Told.SPOOLED if spooled else Told.WRITTEN,
                    place=None if spooled else (partition, offset),
                )
            sent.append(one)
    return sent, topic


def _place(run: Run, chance: random.Random) -> Place:
    return chance.choice(sorted(run[1])[:-1])


def drop(run: Run, chance: random.Random) -> None:
    del run[1][_place(run, chance)]


def cut(run: Run, chance: random.Random) -> None:
    place = chance.choice([p for p, found in run[1].items() if found.value[-1:] == b"x"])
    run[1][place] = run[1][place]._replace(value=run[1][place].value[:-1])


def change(run: Run, chance: random.Random) -> None:
    place = _place(run, chance)
    run[1][place] = run[1][place]._replace(value=run[1][place].value[:-1] + b"?")


def reorder(run: Run, chance: random.Random) -> None:
    """Of two spooled ones, whose places nobody was told."""
    topic = run[1]
    entity = chance.choice("abc")
    first, second = (
        next(place for place, found in topic.items() if found.name == (entity, number))
        for number in (5, 15)
    )
    topic[first], topic[second] = topic[second], topic[first]


def move_to_another_key(run: Run, chance: random.Random) -> None:
    place = _place(run, chance)
    run[1][place] = run[1][place]._replace(key=b"z")


def write_what_was_refused(run: Run, chance: random.Random) -> None:
    one = chance.choice([one for one in run[0] if one.told is Told.DEFINITE])
    body = f"{one.entity} {one.number} {'x' * one.number}".encode()
    run[1][9, 0] = Found(one.entity.encode(), body)


def tell_one_place_twice(run: Run, chance: random.Random) -> None:
    written = [n for n, one in enumerate(run[0]) if one.told is Told.WRITTEN]
    one, other = chance.sample(written, 2)
    run[0][one] = run[0][one]._replace(place=run[0][other].place)


def test_a_run_without_a_lie_is_well() -> None:
    assert violations(*_run()) == []
    assert doubled(_run()[1]) == 0


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "lie",
    [drop, cut, change, reorder, move_to_another_key, write_what_was_refused, tell_one_place_twice],
)
def test_one_lie_in_a_run_is_found(lie: Callable[[Run, random.Random], None], seed: int) -> None:
    run = _run()
    lie(run, random.Random(seed))
    assert violations(*run)


@pytest.mark.parametrize("seed", range(5))
def test_a_doubled_record_is_counted_and_where_it_has_a_receipt_of_its_own_it_is_a_lie(
    seed: int,
) -> None:
    sent, topic = _run()
    place = _place((sent, topic), random.Random(seed))
    topic[place[0], 99] = topic[place]
    assert violations(sent, topic) == []
    assert doubled(topic) == 1
    topic[place] = Found(topic[place].key, topic[place].value + b"!")
    assert violations(sent, topic)
