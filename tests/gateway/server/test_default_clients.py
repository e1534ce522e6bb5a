"""What the world's usual clients send with nothing but their defaults: every payload arrives, byte
for byte and once."""

import asyncio
import os
import random
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
import requests
import urllib3

from local_stack.machine.java import find_java
from shared.settings import GatewaySettings
from tests.gateway.server.test_wire import _answer, _some
from tests.gateway.support import Gateway, Served, gateway_of, serving

Client = Callable[[bytes], list[bytes]]
CLIENTS = Path(__file__).parent / "clients"
COUNT = 100
_SIZES = (1, 2, 100, 1000, 1460, 16_384, 65_535, 65_536, 65_537, 300_000)


class World:
    """A gateway, and the payloads that it has to get."""

    def __init__(self, gateway: Gateway, served: Served, folder: Path) -> None:
        chance = random.Random(1)
        self.payloads = [chance.randbytes(_SIZES[n % len(_SIZES)]) for n in range(COUNT)]
        for number, payload in enumerate(self.payloads):
            (folder / str(number)).write_bytes(payload)
        self.folder = folder
        self.served = served
        self.url = f"{served.url}/v1/telemetry/device-"
        self._log = gateway.log

    def run(self, *command: str | Path) -> None:
        whole = [*command, self.url, self.folder, str(COUNT)]
        ended = subprocess.run(whole, capture_output=True, text=True, timeout=120)
        assert ended.returncode == 0, ended.stderr
        self.check()

    def check(self) -> None:
        got = sorted((record.key, record.value) for record in self._log.records)
        sent = sorted((b"device-%d" % n, payload) for n, payload in enumerate(self.payloads))
        assert len(got) == len(sent)
        assert [key for key, _ in got] == [key for key, _ in sent]
        assert got == sent


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    (folder := tmp_path / "payloads").mkdir()
    settings = GatewaySettings(state_dir=tmp_path)
    with gateway_of(settings) as gateway, serving(gateway, settings) as served:
        yield World(gateway, served, folder)


def _needs(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"there is no {program}")
    return found


@pytest.mark.slow
def test_java(world: World) -> None:
    """`java.net.http.HttpClient` asks for h2c with each request. The sources are compiled by the
    launcher, which the JRE of a wheel has no compiler for."""
    java = find_java()
    modules = subprocess.run(
        [java.command, "--list-modules"], capture_output=True, text=True
    ).stdout
    if "java.net.http@" not in modules:
        pytest.skip(f"{java.command} has no java.net.http")
    if "jdk.compiler@" in modules:
        world.run(java.command, CLIENTS / "Post.java")
        return
    javac = shutil.which("javac")
    if javac is None:
        pytest.skip(f"{java.command} has no compiler, and there is no javac")
    compiled = [javac, "--release", "17", "-d", world.folder, CLIENTS / "Post.java"]
    subprocess.run(compiled, check=True, timeout=120)
    world.run(java.command, "-cp", world.folder, "Post")


@pytest.mark.slow
def test_go(world: World, tmp_path: Path) -> None:
    go, built = _needs("go"), tmp_path / "post"
    # it keeps what it compiles of its own library; the first time takes minutes on a busy machine
    alone = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": ""}
    building = [go, "build", "-o", built, CLIENTS / "post.go"]
    subprocess.run(building, check=True, timeout=500, env=alone)
    world.run(built)


@pytest.mark.slow
def test_node(world: World) -> None:
    world.run(_needs("node"), CLIENTS / "post.mjs")


@pytest.mark.slow
def test_curl(world: World) -> None:
    """It waits for a 100 before a body that is larger than a mebibyte, and before one in chunks."""
    curl = _needs("curl")

    def some(first: int) -> None:
        options: list[str] = []
        for number in range(first, COUNT, 4):
            options += ["--next"] * bool(options)
            options += ["-sS", "--fail", "-o", os.devnull, "--data-binary"]
            options += [f"@{world.folder / str(number)}", f"{world.url}{number}"]
            if number % 2:
                options += ["-H", "Transfer-Encoding: chunked"]
        subprocess.run([curl, *options], check=True, timeout=60)

    with ThreadPoolExecutor(4) as four:
        list(four.map(some, range(4)))
    world.check()


def _in_parts(payload: bytes) -> Iterator[bytes]:
    for at in range(0, len(payload), 20_000):
        yield payload[at : at + 20_000]


def test_requests(world: World) -> None:
    with requests.Session() as session:
        for number, payload in enumerate(world.payloads):
            body = payload if number % 2 == 0 else _in_parts(payload)
            assert session.post(f"{world.url}{number}", data=body).status_code == 202
    world.check()


def test_urllib3(world: World) -> None:
    pool = urllib3.PoolManager()

    def post(number: int) -> int:
        payload = world.payloads[number]
        body = payload if number % 2 == 0 else _in_parts(payload)
        return pool.request("POST", f"{world.url}{number}", body=body).status

    with ThreadPoolExecutor(4) as four:
        assert set(four.map(post, range(COUNT))) == {202}
    pool.clear()
    world.check()


def test_httpx(world: World) -> None:
    async def run() -> None:
        async with httpx.AsyncClient() as client:
            answers = await asyncio.gather(
                *(
                    client.post(f"{world.url}{n}", content=p if n % 2 == 0 else _later(p))
                    for n, p in enumerate(world.payloads)
                )
            )
        assert {answer.status_code for answer in answers} == {202}

    asyncio.run(run())
    world.check()


async def _later(payload: bytes) -> AsyncIterator[bytes]:
    for part in _in_parts(payload):
        await asyncio.sleep(0)
        yield part


def _dotnet(payload: bytes) -> list[bytes]:
    """`PostAsync` of a `ByteArrayContent`: one write."""
    return [b"Host: {host}\r\nContent-Length: %d\r\n\r\n%b" % (len(payload), payload)]


def _dotnet_json(payload: bytes) -> list[bytes]:
    """`PostAsJsonAsync`: of unknown length, chunk by chunk."""
    head = b"Host: {host}\r\nTransfer-Encoding: chunked\r\n"
    return [head + b"Content-Type: application/json; charset=utf-8\r\n\r\n", *_chunks(payload)]


def _dotnet_framework(payload: bytes) -> list[bytes]:
    """`HttpWebRequest` of .NET Framework waits a third of a second for the 100, then goes on."""
    head = b"Content-Type: application/octet-stream\r\nHost: {host}\r\nContent-Length: %d\r\n"
    return [head % len(payload) + b"Expect: 100-continue\r\n\r\n", payload]


def _reqwest(payload: bytes) -> list[bytes]:
    """Of Rust: names in small letters, the host among the others."""
    head = b"content-type: application/octet-stream\r\naccept: */*\r\nhost: {host}\r\n"
    return [head + b"content-length: %d\r\n\r\n%b" % (len(payload), payload)]


def _reqwest_stream(payload: bytes) -> list[bytes]:
    head = b"accept: */*\r\nhost: {host}\r\ntransfer-encoding: chunked\r\n\r\n"
    return [head, *_chunks(payload)]


def _aiohttp(payload: bytes) -> list[bytes]:
    head = b"Host: {host}\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate\r\n"
    head += b"User-Agent: Python/3.11 aiohttp/3.12.15\r\nContent-Length: %d\r\n"
    return [head % len(payload) + b"Content-Type: application/octet-stream\r\n\r\n", payload]


def _esp32(payload: bytes) -> list[bytes]:
    """A minimal client: the head alone, then what its small buffer holds."""
    pieces = [payload[at : at + 1436] for at in range(0, min(len(payload), 8000), 1436)]
    rest = [payload[len(b"".join(pieces)) :]]
    return [b"Host: {host}\r\nContent-Length: %d\r\n\r\n" % len(payload), *pieces, *rest]


def _esp32_line_by_line(payload: bytes) -> list[bytes]:
    """`client.println` of a sketch: each line is a segment of its own, and the end of it, too."""
    lines = [b"Host: {host}", b"\r\n", b"Content-Length: %d" % len(payload), b"\r\n", b"\r\n"]
    return [*lines, payload]


def _closing(payload: bytes) -> list[bytes]:
    return [
        b"Host: {host}\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(payload),
        payload,
    ]


def _http_1_0(payload: bytes) -> list[bytes]:
    return [b"Content-Length: %d\r\n\r\n%b" % (len(payload), payload)]


def _http_1_0_kept_alive(payload: bytes) -> list[bytes]:
    """It may be told that the connection ends all the same."""
    return [b"Connection: Keep-Alive\r\nHost: {host}\r\n", *_http_1_0(payload)]


def _chunks(payload: bytes) -> Iterator[bytes]:
    for part in _in_parts(payload):
        yield b"%X\r\n%b\r\n" % (len(part), part)
    yield b"0\r\n\r\n"


_KEPT = (_dotnet, _dotnet_json, _dotnet_framework, _reqwest, _reqwest_stream, _aiohttp)
_ON_BOARDS = (_esp32, _esp32_line_by_line, _closing, _http_1_0, _http_1_0_kept_alive)


@pytest.mark.parametrize("client", [*_KEPT, *_ON_BOARDS], ids=lambda client: client.__name__[1:])
def test_the_bytes_of_other_clients(world: World, client: Client) -> None:
    """As they put them on the wire; the slow ones pause between two writes."""
    version = b"1.0" if client in (_http_1_0, _http_1_0_kept_alive) else b"1.1"
    is_last = client in (_closing, _http_1_0, _http_1_0_kept_alive)
    host = f"{world.served.host}:{world.served.port}".encode()

    def some(first: int) -> None:
        connection = world.served.connect()
        for number in range(first, COUNT, 4):
            line = b"POST /v1/telemetry/device-%d HTTP/%b\r\n" % (number, version)
            head, *writes = client(world.payloads[number])
            head = line + head.replace(b"{host}", host)
            for write in (head, *writes):
                connection.sendall(write)
                time.sleep(0.001 * (client in _ON_BOARDS))
                if write.endswith(b"Expect: 100-continue\r\n\r\n"):
                    assert _some(connection) == b"HTTP/1.1 100 Continue\r\n\r\n"
            status, raw, _ = _answer(connection)
            assert (status, b"connection: close" in raw) == (202, is_last)
            if is_last:
                assert connection.recv(1) == b""
                connection.close()
                connection = world.served.connect()
        connection.close()

    with ThreadPoolExecutor(4) as four:
        list(four.map(some, range(4)))
    world.check()
