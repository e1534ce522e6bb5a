"""Many keys of a map state at once. Spark's own client asks for one, waits for its answer, and
takes tens of microseconds to write the question down; here questions go out together, in its
protocol.

Questions are kept so few and small that they fit into the socket's buffer: whoever writes them
never waits for a server that itself waits for somebody to read its answers.
"""

import pickle
import struct
from collections.abc import Iterator, Mapping, Sequence

from pyspark.errors import PySparkRuntimeError
from pyspark.sql.streaming.proto import StateMessage_pb2 as messages
from pyspark.sql.streaming.stateful_processor import MapState

Key = tuple[str, ...]

AT_ONCE = 64
_QUESTIONS_BYTES_MAX = 32 * 1024
_HEAD = struct.Struct("!ii")  # version of the protocol, length of the message


class ManyStates:
    """A map state whose values have one binary field."""

    def __init__(self, state: MapState) -> None:
        self._state = state
        # whatever else calls itself one (a test's) is asked key by key
        self._client = state._mapStateClient if type(state) is MapState else None

    def get(self, keys: Sequence[Key]) -> list[bytes | None]:
        if self._client is None:
            values = [self._state.getValue(key) for key in keys]
            return [bytes(value[0]) if value else None for value in values]
        request, call = self._call()
        questions = []
        for key in keys:
            call.getValue.userKey = pickle.dumps(key)
            questions.append(request.SerializeToString())
        return [pickle.loads(answer)[0] if answer else None for answer in self._ask(questions)]

    def put(self, values: Mapping[Key, bytes]) -> None:
        if self._client is None:
            for key, value in values.items():
                self._state.updateValue(key, (value,))
            return
        request, call = self._call()
        questions = []
        for key, value in values.items():
            call.updateValue.userKey = pickle.dumps(key)
            call.updateValue.value = pickle.dumps((value,))
            questions.append(request.SerializeToString())
        self._ask(questions)

    def remove(self, keys: Sequence[Key]) -> None:
        if self._client is None:
            for key in keys:
                self._state.removeKey(key)
            return
        request, call = self._call()
        questions = []
        for key in keys:
            call.removeKey.userKey = pickle.dumps(key)
            questions.append(request.SerializeToString())
        self._ask(questions)

    def items(self) -> Iterator[tuple[Key, bytes]]:
        for key, (value,) in self._state.iterator():
            yield tuple(key), bytes(value)

    def _call(self) -> tuple[messages.StateRequest, messages.MapStateCall]:
        request = messages.StateRequest()
        call = request.stateVariableRequest.mapStateCall
        call.stateName = self._state._stateName
        return request, call

    def _ask(self, questions: Sequence[bytes]) -> list[bytes]:
        answers: list[bytes] = []
        begin = 0
        while begin < len(questions):
            end, size = begin, 0
            while end < len(questions) and end - begin < AT_ONCE:
                size += _HEAD.size + len(questions[end])
                if size > _QUESTIONS_BYTES_MAX and end > begin:
                    break
                end += 1
            answers += self._answers(questions[begin:end])
            begin = end
        return answers

    def _answers(self, questions: Sequence[bytes]) -> list[bytes]:
        assert self._client is not None
        api = self._client._stateful_processor_api_client
        head = _HEAD.pack
        api.sockfile.write(b"".join([head(0, len(one)) + one for one in questions]))
        api.sockfile.flush()
        # all of them, before any is looked at: one that is left unread would answer the next call
        answers = [api._receive_proto_message() for _ in questions]
        for status, error, _ in answers:
            if status != 0:
                raise PySparkRuntimeError(f"state {self._state._stateName}: {error}")
        return [value for _, _, value in answers]
