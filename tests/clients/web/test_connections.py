"""Which connection a request goes on, by real servers of HTTP/1.1 and HTTP/2."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from clients.web import connections
from clients.web.open_internet import OpenInternet
from shared.forwarding.answer import Answer
from tests.certificates import Authority
from tests.clients.web.http2_server import Http2Server
from tests.kafka_log import eventually
from tests.stream_jobs.forward.target_server import TargetServer

HERE = frozenset({"127.0.0.1"})
Post = Callable[[int], Awaitable[list[Answer]]]


@pytest.fixture
def http2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Http2Server]:
    authority = Authority(tmp_path)
    issued = authority.issue("CN=here")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(issued.cert_file, issued.key_file)
    with Http2Server(tls) as server:
        yield server


def posting(url: str, what: Callable[[Post], Awaitable[None]], timeout_s: float = 60) -> None:
    async def run() -> None:
        web = OpenInternet(HERE)

        async def post(count: int) -> list[Answer]:
            return list(
                await asyncio.gather(
                    *(web.post(url, {"x-n": str(n)}, b"{}", timeout_s) for n in range(count))
                )
            )

        await what(post)
        await web.close()

    asyncio.run(run())


def test_a_server_of_http2_gets_many_requests_on_one_connection(http2: Http2Server) -> None:
    async def at_once(post: Post) -> None:
        await post(1)
        http2.holds = True
        under_way = asyncio.create_task(post(20))
        while len(http2.bodies) < 21:  # all of them are there, and none is answered
            await asyncio.sleep(0.01)
        http2.let_go()
        answers = await under_way
        assert {(one.status, one.said, one.retry_after) for one in answers} == {(200, "ok", "7")}
        assert http2.open == 1

    posting(f"https://127.0.0.1:{http2.port}/in?a=b", at_once)
    assert len(http2.connections) == 1
    assert http2.bodies == [b"{}"] * 21
    assert {one[b":path"] for one in http2.headers} == {b"/in?a=b"}
    assert {one[b":authority"] for one in http2.headers} == {f"127.0.0.1:{http2.port}".encode()}
    assert {one[b"x-n"] for one in http2.headers[1:]} == {str(n).encode() for n in range(20)}
    eventually(lambda: http2.open == 0)


def test_a_first_burst_ends_on_one_connection_too(http2: Http2Server) -> None:
    async def burst(post: Post) -> None:
        assert {one.status for one in await post(10)} == {200}
        while http2.open > 1:
            await asyncio.sleep(0.01)
        assert {one.status for one in await post(400)} == {200}

    posting(f"https://127.0.0.1:{http2.port}/in", burst)
    assert len(http2.connections) <= 10


def test_one_that_the_server_has_ended_meanwhile_costs_no_request(http2: Http2Server) -> None:
    async def again(post: Post) -> None:
        for _ in range(3):
            assert (await post(1))[0].status == 200
            http2.go_away()
            while http2.open:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)

    posting(f"https://127.0.0.1:{http2.port}/in", again)
    assert len(http2.bodies) == 3


def test_a_request_that_is_given_up_takes_none_of_the_others_with_it(http2: Http2Server) -> None:
    url = f"https://127.0.0.1:{http2.port}/in"

    async def one_is_impatient() -> None:
        web = OpenInternet(HERE)
        await web.post(url, {}, b"{}", 5)
        http2.holds = True
        others = [asyncio.create_task(web.post(url, {}, b"{}", 5)) for _ in range(5)]
        impatient = asyncio.create_task(web.post(url, {}, b"{}", 0.3))
        assert (await impatient).said == "it took longer than 0.3 s"
        later = asyncio.create_task(web.post(url, {}, b"{}", 5))
        while len(http2.connections) < 2:  # it goes where nobody has given up
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        http2.let_go()
        assert {(await one).status for one in [*others, later]} == {200}
        while http2.open > 1:  # the first one is closed with its last request
            await asyncio.sleep(0.01)
        await web.close()

    asyncio.run(one_is_impatient())
    eventually(lambda: http2.open == 0)


def test_an_answer_that_is_too_long_is_cut_and_its_connection_with_it(http2: Http2Server) -> None:
    http2.body = b"x" * 16_000

    async def long(post: Post) -> None:
        for _ in range(3):
            assert (await post(1))[0].said == "x" * 256

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connections, "_READ_BYTES_MAX", 1_000)
        posting(f"https://127.0.0.1:{http2.port}/in", long)
    assert len(http2.connections) == 3


@pytest.mark.parametrize("is_http2", [False, True])
def test_what_nobody_uses_any_more_is_closed(
    http2: Http2Server, monkeypatch: pytest.MonkeyPatch, is_http2: bool
) -> None:
    """Also where the server would keep it for ever."""
    monkeypatch.setattr(connections, "_KEPT_S", 0.4)
    with TargetServer() as http1:

        def still_open() -> int:
            return http2.open if is_http2 else http1.open

        async def wait(post: Post) -> None:
            assert {one.status for one in await post(8)} == {200}
            async with asyncio.timeout(10):
                while still_open():
                    await asyncio.sleep(0.02)
            assert (await post(1))[0].status == 200

        posting(f"https://127.0.0.1:{http2.port}/in" if is_http2 else f"{http1.url}/in", wait)


def test_as_many_are_kept_as_had_requests_under_way() -> None:
    with TargetServer() as http1:

        async def twice(post: Post) -> None:
            for _ in range(5):
                assert {one.status for one in await post(100)} == {200}

        posting(f"{http1.url}/in", twice)
        assert http1.connections <= 100
