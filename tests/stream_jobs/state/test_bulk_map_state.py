"""Against a server that speaks the protocol of Spark's; the real one is in test_race."""

import pickle
import socket
import struct
import threading
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql.streaming.proto import StateMessage_pb2 as messages
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle
from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorApiClient

from stream_jobs.state.bulk_map_state import AT_ONCE, States

LARGE = b"x" * 3_000_000  # more than a socket's buffer holds


class Server:
    """Answers each question before it reads the next one, as Spark's does."""

    def __init__(self, connection: socket.socket) -> None:
        self.states: dict[str, dict[Any, Any]] = defaultdict(dict)
        self.refused: set[Any] = set()
        self._file = connection.makefile("rwb")

    def run(self) -> None:
        while head := self._file.read(8):
            version, length = struct.unpack("!ii", head)
            assert version == 0
            request = messages.StateRequest.FromString(self._file.read(length))
            if request.HasField("statefulProcessorCall"):  # a state is declared
                self._tell(messages.StateResponse())
                continue
            self._tell(self._answer(request.stateVariableRequest.mapStateCall))

    def _tell(self, response: messages.StateResponse) -> None:
        answer = response.SerializeToString()
        self._file.write(struct.pack("!i", len(answer)) + answer)
        self._file.flush()

    def _answer(self, call: messages.MapStateCall) -> messages.StateResponse:
        values = self.states[call.stateName]
        kind = call.WhichOneof("method")
        key = pickle.loads(getattr(call, kind).userKey)
        if key in self.refused:
            return messages.StateResponse(statusCode=1, errorMessage="no such thing")
        if kind == "removeKey":
            values.pop(key, None)
            return messages.StateResponse()
        if kind == "getValue":
            found = values.get(key)
            return messages.StateResponse(value=b"" if found is None else pickle.dumps(found))
        values[key] = pickle.loads(call.updateValue.value)
        return messages.StateResponse()


@pytest.fixture
def server_and_states() -> Iterator[tuple[Server, States]]:
    ours, theirs = socket.socketpair()
    server = Server(theirs)
    thread = threading.Thread(target=server.run)
    thread.start()
    client = StatefulProcessorApiClient.__new__(StatefulProcessorApiClient)
    client._client_socket, client.sockfile = ours, ours.makefile("rwb")
    yield server, States(StatefulProcessorHandle(client))
    client.sockfile.close()
    ours.close()
    thread.join(10)
    theirs.close()
    assert not thread.is_alive()


def test_what_was_put_is_found_however_many_and_large(
    server_and_states: tuple[Server, States],
) -> None:
    server, states = server_and_states
    snapshots = states.of("snapshots", "entity", "id")
    put = {("device", f"dev-{n}"): b"%d" % n * n for n in range(5 * AT_ONCE)}
    put |= {("device", f"large-{n}"): LARGE for n in range(3)}
    snapshots.put(put)
    states.settle()
    assert server.states["snapshots"] == {key: (value,) for key, value in put.items()}
    asked = [*put, ("device", "unknown")]
    assert snapshots.get(asked) == [*put.values(), None]
    assert snapshots.get([]) == []
    snapshots.remove(list(put)[1:])
    states.settle()
    assert list(server.states["snapshots"]) == list(put)[:1]


def test_each_question_gets_its_own_answer_whenever_it_is_looked_at(
    server_and_states: tuple[Server, States],
) -> None:
    _, states = server_and_states
    snapshots, held = states.of("snapshots", "id"), states.of("held", "id")
    snapshots.put({(f"{n}",): b"snapshot %d" % n for n in range(AT_ONCE)})
    held.put({("1",): b"held"})
    first, second = snapshots.ask([("1",), ("none",)]), snapshots.ask([("2",)])
    snapshots.put({("2",): b"new"})
    assert held.get([("1",)]) == [b"held"]
    assert second() == [b"snapshot 2"]
    assert first() == [b"snapshot 1", None]
    assert snapshots.get([("2",)]) == [b"new"]


def test_nobody_waits_for_the_other_to_read_first(server_and_states: tuple[Server, States]) -> None:
    _, states = server_and_states
    snapshots = states.of("snapshots", "id")
    large = {(f"{n}",): LARGE for n in range(3)}
    snapshots.put(large)
    for _ in range(3):
        asked = snapshots.ask(list(large))
        snapshots.put(large)
        assert asked() == [LARGE] * 3
    states.settle()


def test_a_refusal_is_raised_and_the_next_question_gets_its_own_answer(
    server_and_states: tuple[Server, States],
) -> None:
    server, states = server_and_states
    snapshots = states.of("snapshots", "entity", "id")
    server.refused = {("device", "b")}
    snapshots.put({("device", name): name.encode() for name in "abc"})
    with pytest.raises(PySparkRuntimeError, match="snapshots: no such thing"):
        states.settle()
    assert snapshots.get([("device", "c"), ("device", "a")]) == [b"c", b"a"]
