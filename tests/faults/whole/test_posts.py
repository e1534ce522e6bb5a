import json

import pytest

from tests.faults.client_answers import Told
from tests.faults.whole import posts
from tests.faults.whole.sends import EVENT, Answer, Message

BODIES = (b'{"value": 1}', b'{"value": 2}', b'{"value": 3}')
LINES = [
    Message(n, "telemetry", "device-0001", body, "b", EVENT, True) for n, body in enumerate(BODIES)
]
WRITTEN = {"status": 202, "id": "an-id", "topic": "ingest.telemetry.v1", "partition": 1}


def test_a_blank_line_moves_the_numbers_of_those_behind_it() -> None:
    post = posts.lines(LINES, blank_after=1)
    assert (post.body.split(b"\n")[1], post.places) == (b"", [0, 2, 3])
    assert post.headers["Idempotency-Key"] == "b"
    receipts = [
        {**WRITTEN, "line": 0, "offset": 7},
        {"line": 2, "status": 503, "outcome": "unknown"},
        {"status": 202, "id": "other", "line": 3, "topic": "ingest.telemetry.v1", "spooled": True},
    ]
    said = {"accepted": 2, "refused": 1, "receipts": receipts}
    assert posts.answers(post, 207, said) == [
        Answer(Told.WRITTEN, "an-id", ("ingest.telemetry.v1", 1, 7)),
        Answer(Told.UNKNOWN),
        Answer(Told.SPOOLED, "other"),
    ]


def test_what_is_refused_as_a_whole_is_refused_line_by_line() -> None:
    found = posts.answers(posts.lines(LINES), 503, {"outcome": "definite"})
    assert found == [Answer(Told.DEFINITE)] * 3


@pytest.mark.parametrize(
    "said",
    [
        {"accepted": 1, "refused": 0, "receipts": [{**WRITTEN, "line": 0, "offset": 7}]},
        {"accepted": 3, "refused": 0, "receipts": [{**WRITTEN, "line": 0, "offset": 7}] * 3},
        {
            "accepted": 2,
            "refused": 1,
            "receipts": [{**WRITTEN, "line": n, "offset": n} for n in range(3)],
        },
    ],
)
def test_a_batch_s_answer_that_names_not_each_line_once_is_wrong(said: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"receipts of lines|were accepted"):
        posts.answers(posts.lines(LINES), 207, said)


def test_frames_are_what_the_gateway_cuts() -> None:
    keyed = [m._replace(key=f"k{m.number}", is_line=False) for m in LINES]
    assert posts.frames(keyed).body.startswith(
        b'device-0001 12 k0\n{"value": 1}\ndevice-0001 12 k1'
    )
    assert posts.frames([m._replace(key=None) for m in keyed]).body.startswith(b"device-0001 12\n")


def test_a_line_is_known_by_its_key_and_what_it_holds() -> None:
    assert len({line.known_as for line in LINES}) == 3
    assert LINES[0]._replace(key=None).known_as is None
    assert json.loads(LINES[0].body) == {"value": 1}
