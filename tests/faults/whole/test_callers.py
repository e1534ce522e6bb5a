import asyncio
from pathlib import Path

import pytest

from tests.faults.whole import posts
from tests.faults.whole.callers import programs
from tests.faults.whole.sends import EVENT, Message

BODY = b'{"value": 1}\n\xff\t'
MESSAGE = Message(0, "telemetry", "device-0001", BODY, "a-key", EVENT)


@pytest.mark.slow
@pytest.mark.parametrize(("language", "asks_for_h2c"), [("java", True), ("go", False)])
def test_a_real_client_sends_what_it_is_told(
    language: str, asks_for_h2c: bool, tmp_path: Path
) -> None:
    heard = asyncio.run(_heard(language, tmp_path))
    if heard is None:
        pytest.skip(f"what makes a client in {language} is not on this machine")
    head, _, body = heard.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/telemetry/device-0001 HTTP/1.1\r\n")
    assert b"idempotency-key: a-key" in head.lower()
    assert (b"upgrade: h2c" in head.lower()) == asks_for_h2c
    assert body == BODY


async def _heard(language: str, folder: Path) -> bytes | None:
    """By a server that takes one request and drops the next."""
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        heard.append(head + await reader.readexactly(len(BODY)))
        if len(heard) == 1:
            said = b'{"id": "an-id"}'
            writer.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: %d\r\n\r\n" % len(said) + said)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, programs(folder, f"http://127.0.0.1:{port}") as started:
        if language not in started:
            return None
        post = posts.single(MESSAGE)
        assert await started[language].post(post) == (202, {"id": "an-id"})
        with pytest.raises(OSError, match=r"."):
            await started[language].post(post._replace(headers={}))
    return heard[0]
