"""Against a server that speaks the protocol of Spark's; the real one is in test_race."""

import pickle
import socket
import struct
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql.streaming.proto import StateMessage_pb2 as messages
from pyspark.sql.streaming.stateful_processor import MapState
from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorApiClient

from stream_jobs.many_states import AT_ONCE, ManyStates

LARGE = b"x" * 3_000_000  # more than a socket's buffer holds


class Server:
    """Answers each question before it reads the next one, as Spark's does."""

    def __init__(self, connection: socket.socket) -> None:
        self.values: dict[Any, Any] = {}
        self.refused: set[Any] = set()
        self._file = connection.makefile("rwb")

    def run(self) -> None:
        while head := self._file.read(8):
            version, length = struct.unpack("!ii", head)
            assert version == 0
            request = messages.StateRequest.FromString(self._file.read(length))
            answer = self._answer(request.stateVariableRequest.mapStateCall).SerializeToString()
            self._file.write(struct.pack("!i", len(answer)) + answer)
            self._file.flush()

    def _answer(self, call: messages.MapStateCall) -> messages.StateResponse:
        assert call.stateName == "snapshots"
        kind = call.WhichOneof("method")
        key = pickle.loads(getattr(call, kind).userKey)
        if key in self.refused:
            return messages.StateResponse(statusCode=1, errorMessage="no such thing")
        if kind == "removeKey":
            self.values.pop(key, None)
            return messages.StateResponse()
        if kind == "getValue":
            found = self.values.get(key)
            return messages.StateResponse(value=b"" if found is None else pickle.dumps(found))
        self.values[key] = pickle.loads(call.updateValue.value)
        return messages.StateResponse()


@pytest.fixture
def server_and_states() -> Iterator[tuple[Server, ManyStates]]:
    ours, theirs = socket.socketpair()
    server = Server(theirs)
    thread = threading.Thread(target=server.run)
    thread.start()
    client = StatefulProcessorApiClient.__new__(StatefulProcessorApiClient)
    client._client_socket, client.sockfile = ours, ours.makefile("rwb")
    state = MapState(SimpleNamespace(_stateful_processor_api_client=client), "snapshots")  # type: ignore[arg-type]
    yield server, ManyStates(state)
    client.sockfile.close()
    ours.close()
    thread.join(10)
    theirs.close()
    assert not thread.is_alive()


def test_what_was_put_is_found_however_many_and_large(
    server_and_states: tuple[Server, ManyStates],
) -> None:
    server, states = server_and_states
    put = {("device", f"dev-{n}"): b"%d" % n * n for n in range(5 * AT_ONCE)}
    put |= {("device", f"large-{n}"): LARGE for n in range(3)}
    states.put(put)
    assert server.values == {key: (value,) for key, value in put.items()}
    asked = [*put, ("device", "unknown")]
    assert states.get(asked) == [*put.values(), None]
    assert states.get([]) == []
    states.remove(list(put)[1:])
    assert list(server.values) == list(put)[:1]


def test_a_refusal_is_raised_and_the_next_question_gets_its_own_answer(
    server_and_states: tuple[Server, ManyStates],
) -> None:
    server, states = server_and_states
    server.refused = {("device", "b")}
    with pytest.raises(PySparkRuntimeError, match="snapshots: no such thing"):
        states.put({("device", name): name.encode() for name in "abc"})
    assert states.get([("device", "c"), ("device", "a")]) == [b"c", b"a"]
