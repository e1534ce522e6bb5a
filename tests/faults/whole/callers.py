"""How a request gets to the gateway: by hand on a connection of its own, and through the clients
that Java and Go bring with them, in small programs that are told what to send."""

import asyncio
import base64
import contextlib
import itertools
import json
import shutil
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from tests.faults.whole.posts import Post

Said = tuple[int, Any]  # status, and the answer's JSON
ANSWER_S = 20.0
_PROGRAM_ANSWERS_S = 30.0  # it gives up after 20 by itself
_SOURCES = Path(__file__).parent / "clients"


class Caller(Protocol):
    """OSError, EOFError or TimeoutError where there was no answer, ValueError where it was none of
    the gateway's."""

    async def post(self, post: Post) -> Said: ...

    def close(self) -> None: ...


class Connection:
    """Kept as long as it lasts."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._stream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    def close(self) -> None:
        if self._stream is not None:
            self._stream[1].transport.abort()
            self._stream = None

    async def post(self, post: Post) -> Said:
        async with asyncio.timeout(ANSWER_S):
            if self._stream is None:
                self._stream = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 20)
            reader, writer = self._stream
            headers = {"Host": "localhost", "Content-Length": str(len(post.body)), **post.headers}
            head = [f"POST {post.path} HTTP/1.1", *(f"{n}: {v}" for n, v in headers.items())]
            writer.write("\r\n".join([*head, "", ""]).encode() + post.body)
            lines = (await reader.readuntil(b"\r\n\r\n")).decode("ascii").lower().split("\r\n")
            fields = dict(line.split(": ", 1) for line in lines[1:] if line)
            said = json.loads(await reader.readexactly(int(fields["content-length"])))
        if fields.get("connection") == "close":
            self.close()
        return int(lines[0].split(" ")[1]), said


class Program:
    """A client in another language, of many connections: it reads lines of id, path, body and
    headers, and answers each with its id, the status and the body; 0 where there was no answer."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._numbers = itertools.count()
        self._waiting: dict[str, asyncio.Future[Said]] = {}
        self._reading = asyncio.create_task(self._read())

    def close(self) -> None:
        """Of one request: the program keeps its connections as it likes."""

    async def post(self, post: Post) -> Said:
        name = str(next(self._numbers))
        body = base64.b64encode(post.body).decode()
        headers = itertools.chain.from_iterable(post.headers.items())
        answered = self._waiting[name] = asyncio.get_running_loop().create_future()
        assert self._process.stdin is not None
        self._process.stdin.write(("\t".join([name, post.path, body, *headers]) + "\n").encode())
        try:
            async with asyncio.timeout(_PROGRAM_ANSWERS_S):
                return await answered
        finally:
            del self._waiting[name]

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            name, status, said = line.decode().rstrip("\n").split("\t")
            answered = self._waiting.get(name)
            if answered is None or answered.done():
                continue
            raw = base64.b64decode(said)
            try:
                if status == "0":
                    raise OSError(raw.decode(errors="replace"))
                answered.set_result((int(status), json.loads(raw)))
            except (OSError, ValueError) as error:
                answered.set_exception(error)
        for answered in self._waiting.values():
            if not answered.done():
                answered.set_exception(ValueError("the client's program has ended"))

    async def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), 10)
        if self._process.returncode is None:
            self._process.kill()
        await self._reading


async def _compiled(language: str, folder: Path) -> Sequence[str] | None:
    """The command that starts it; None where this machine cannot make it."""
    if language == "java":
        make = ["javac", "-d", str(folder), str(_SOURCES / "Client.java")]
        java = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx128m"]
        start = [*java, "-cp", str(folder), "Client"]
    else:
        make = ["go", "build", "-o", str(folder / "client"), str(_SOURCES / "client.go")]
        start = [str(folder / "client")]
    if any(shutil.which(command) is None for command in {make[0], start[0]} - {start[-1]}):
        return None
    folder.mkdir(parents=True, exist_ok=True)
    made = await asyncio.create_subprocess_exec(*make)
    return start if await made.wait() == 0 else None


@contextlib.asynccontextmanager
async def programs(folder: Path, url: str) -> AsyncIterator[dict[str, Program]]:
    """By language, those that this machine has what they need of."""
    started: dict[str, Program] = {}
    try:
        for language in ("java", "go"):
            command = await _compiled(language, folder / language)
            if command is None:
                continue
            pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
            process = await asyncio.create_subprocess_exec(*command, url, limit=1 << 24, **pipes)
            started[language] = Program(process)
        yield started
    finally:
        for program in started.values():
            await program.end()
