"""Many keys of a map state at once. Spark's own client asks for one, waits for its answer, and
takes tens of microseconds to write the question down; here questions go out together, in its
protocol, and whoever asks goes on with other things until it needs the answers.

All states of a handler share one connection, on which answers come in the order of the questions.
Those without an answer are kept so few and small that they fit into the socket's buffer: whoever
writes them never waits for a server that itself waits for somebody to read its answers.
"""

import pickle
import struct
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any

from pyspark.errors import PySparkRuntimeError
from pyspark.sql.streaming.proto import StateMessage_pb2 as messages
from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StringType, StructType

Key = tuple[str, ...]

AT_ONCE = 64
_QUESTIONS_BYTES_MAX = 32 * 1024
_UNREAD_ROUNDS_MAX = 2
_HEAD = struct.Struct("!ii")  # version of the protocol, length of the message


class States:
    """Those of one handler. Nothing may be left unread where a method of it returns: Spark would
    take it for the answer to its next question."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._connection: Connection | None = None

    def of(self, name: str, *key: str) -> "ManyStates":
        """One whose keys have these parts."""
        schema = StructType()
        for part in key:
            schema.add(part, StringType())
        # a schema as text is sent to Spark first, to be read there
        state = self._handle.getMapState(name, schema, StructType().add("value", BinaryType()))
        if type(state) is MapState and self._connection is None:
            self._connection = Connection(state._mapStateClient._stateful_processor_api_client)
        return ManyStates(state, self._connection)

    def settle(self) -> None:
        if self._connection is not None:
            self._connection.settle()


class Connection:
    """The connection of a task's handler to Spark's state."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._unread: deque[_Round] = deque()

    def ask(self, state: str, questions: Sequence[bytes]) -> Callable[[], list[bytes]]:
        """Gives what waits for the answers."""
        rounds = [self._send(state, some) for some in _rounds(questions)]

        def answers() -> list[bytes]:
            while any(one.answers is None for one in rounds):
                self._read()
            return [answer for one in rounds for answer in one.answers or ()]

        return answers

    def settle(self) -> None:
        while self._unread:
            self._read()

    def _send(self, state: str, questions: Sequence[bytes]) -> "_Round":
        raw = b"".join([_HEAD.pack(0, len(one)) + one for one in questions])
        if len(self._unread) >= _UNREAD_ROUNDS_MAX or len(raw) > _QUESTIONS_BYTES_MAX:
            self.settle()
        self._client.sockfile.write(raw)
        self._client.sockfile.flush()
        sent = _Round(state, len(questions))
        self._unread.append(sent)
        return sent

    def _read(self) -> None:
        its = self._unread.popleft()
        # all of them, before any is looked at: one that is left unread would answer the next call
        read = [self._client._receive_proto_message() for _ in range(its.questions)]
        its.answers = [value for _, _, value in read]
        for status, error, _ in read:
            if status != 0:
                raise PySparkRuntimeError(f"state {its.state}: {error}")


class _Round:
    def __init__(self, state: str, questions: int) -> None:
        self.state = state
        self.questions = questions
        self.answers: list[bytes] | None = None


class ManyStates:
    """A map state whose values are bytes."""

    def __init__(self, state: MapState, connection: Connection | None) -> None:
        self._state = state
        # None: whatever else calls itself a map state (a test's) is asked key by key
        self._connection = connection

    def get(self, keys: Sequence[Key]) -> list[bytes | None]:
        return self.ask(keys)()

    def ask(self, keys: Sequence[Key]) -> Callable[[], list[bytes | None]]:
        """Spark looks for them at once. What is put before they are asked for is not in them."""
        if self._connection is None:
            values = [self._state.getValue(key) for key in keys]
            return lambda: [bytes(value[0]) if value else None for value in values]
        request, call = self._call()
        questions = []
        for key in keys:
            call.getValue.userKey = pickle.dumps(key)
            questions.append(request.SerializeToString())
        answers = self._connection.ask(self._state._stateName, questions)
        return lambda: [_value(raw) if raw else None for raw in answers()]

    def put(self, values: Mapping[Key, bytes]) -> None:
        """Without a wait; a refusal is raised by a later call, at the latest by `settle`."""
        if self._connection is None:
            for key, value in values.items():
                self._state.updateValue(key, (value,))
            return
        request, call = self._call()
        questions = []
        for key, value in values.items():
            call.updateValue.userKey = pickle.dumps(key)
            call.updateValue.value = pickle.dumps((value,))
            questions.append(request.SerializeToString())
        self._connection.ask(self._state._stateName, questions)

    def remove(self, keys: Sequence[Key]) -> None:
        """As `put`."""
        if self._connection is None:
            for key in keys:
                self._state.removeKey(key)
            return
        request, call = self._call()
        questions = []
        for key in keys:
            call.removeKey.userKey = pickle.dumps(key)
            questions.append(request.SerializeToString())
        self._connection.ask(self._state._stateName, questions)

    def _call(self) -> tuple[messages.StateRequest, messages.MapStateCall]:
        request = messages.StateRequest()
        call = request.stateVariableRequest.mapStateCall
        call.stateName = self._state._stateName
        return request, call


class _Rows(pickle.Unpickler):
    """A row as a tuple. Spark sends the row's type with it, as JSON, each time: to read that takes
    five times as long as all the rest."""

    def find_class(self, module: str, name: str) -> Any:
        match module, name:
            case "pyspark.sql.types", "_parse_datatype_json_string":
                return str
            case "pyspark.sql.types", "_create_row_inbound_converter":
                return lambda _type: lambda *values: values
        return super().find_class(module, name)


def _value(raw: bytes) -> bytes:
    (value,) = _Rows(BytesIO(raw)).load()
    return bytes(value)


def _rounds(questions: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    begin = 0
    while begin < len(questions):
        end, size = begin, 0
        while end < len(questions) and end - begin < AT_ONCE:
            size += _HEAD.size + len(questions[end])
            if size > _QUESTIONS_BYTES_MAX and end > begin:
                break
            end += 1
        yield questions[begin:end]
        begin = end
