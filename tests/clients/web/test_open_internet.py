"""Requests to real servers on this machine, by names that lead where a test says."""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clients.web import open_internet
from clients.web.open_internet import Connections, OpenInternet
from shared.forwarding.answer import Answer
from tests.certificates import Authority
from tests.kafka_log import eventually
from tests.shared.forwarding.test_address import HIDDEN, INSIDE
from tests.stream_jobs.forward.target_server import Reply, TargetServer

NOBODY: frozenset[str] = frozenset()
MINE = frozenset({"hook.test"})


class Names:
    """What names lead to, one answer after the other, and who has asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lead_to: dict[str, list[list[str]]] = {}
        self.asked: list[str] = []
        real = asyncio.BaseEventLoop.getaddrinfo

        async def getaddrinfo(loop: Any, host: Any, port: Any, **options: Any) -> Any:
            if host not in self.lead_to:
                return await real(loop, host, port, **options)
            self.asked.append(host)
            answers = self.lead_to[host]
            found = answers.pop(0) if len(answers) > 1 else answers[0]
            kinds = [socket.AF_INET6 if ":" in one else socket.AF_INET for one in found]
            return [(kind, 1, 6, "", (one, port)) for kind, one in zip(kinds, found, strict=True)]

        monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    return Names(monkeypatch)


@pytest.fixture
def target() -> Iterator[TargetServer]:
    with TargetServer() as server:
        yield server


def port_of(target: TargetServer) -> int:
    return int(target.url.rpartition(":")[2])


def post(*urls: str, allowed: frozenset[str] = NOBODY, timeout_s: float = 5) -> list[Answer]:
    async def all_of_them() -> list[Answer]:
        web = OpenInternet(allowed)
        answers = [await web.post(url, {"x-one": "1"}, b"{}", timeout_s) for url in urls]
        await web.close()
        return answers

    return asyncio.run(all_of_them())


def test_no_form_of_an_address_of_this_network_is_reached(
    names: Names, target: TargetServer
) -> None:
    names.lead_to = {f"n{number}.test": [[one]] for number, one in enumerate(INSIDE)}
    # one of several, or after one that is open
    names.lead_to["mixed.test"] = [["93.184.216.34", "127.0.0.1"]]
    bare = [f"[{one}]" if ":" in one else one for one in INSIDE if "%" not in one]
    hosts = [*names.lead_to, *HIDDEN, *bare]
    port = port_of(target)
    urls = [f"{scheme}://{host}:{port}/in" for scheme in ("http", "https") for host in hosts]
    for url, answer in zip(urls, post(*urls, timeout_s=1), strict=True):
        assert answer.status is None
        assert answer.said.startswith("not sent: "), f"{url}: {answer.said}"
    assert not target.received()


def test_a_name_that_leads_elsewhere_at_a_second_look_up_leads_nowhere(
    names: Names, target: TargetServer
) -> None:
    names.lead_to = {"hook.test": [["127.0.0.1"], ["169.254.169.254"]]}
    url = f"http://hook.test:{port_of(target)}/in?a=b"
    answers = post(url, url, url, allowed=MINE)
    assert [answer.status for answer in answers] == [200, 200, 200]
    assert names.asked == ["hook.test"]
    for received, _ in target.received():
        assert received.headers["host"] == f"hook.test:{port_of(target)}"
        assert received.path == "/in?a=b"


def test_a_redirect_is_not_followed(names: Names, target: TargetServer) -> None:
    names.lead_to = {"hook.test": [["127.0.0.1"]]}
    there = f"http://127.0.0.1:{port_of(target)}/secret"
    target.answers = lambda _: Reply(307, (("location", there),))
    (answer,) = post(f"http://hook.test:{port_of(target)}/in", allowed=MINE)
    assert answer.status == 307
    assert [received.path for received, _ in target.received()] == ["/in"]


def test_no_proxy_of_the_environment_is_asked(
    names: Names, target: TargetServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    names.lead_to = {"hook.test": [["127.0.0.1"]]}
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    (answer,) = post(f"http://hook.test:{port_of(target)}/in", allowed=MINE)
    assert answer.status == 200


def test_a_body_without_end_is_cut_and_one_that_is_slow_is_no_answer(
    names: Names, target: TargetServer
) -> None:
    names.lead_to = {"hook.test": [["127.0.0.1"]]}
    url = f"http://hook.test:{port_of(target)}/in"
    target.answers = lambda _: Reply(200, body=b"x" * 8_000_000)
    (answer,) = post(url, allowed=MINE)
    assert answer.status == 200
    assert answer.said == "x" * 256
    target.answers = lambda _: Reply(200, body=b"x" * 50, slow_s=0.1)
    (answer,) = post(url, allowed=MINE, timeout_s=0.4)
    assert answer.status is None
    assert answer.said == "it took longer than 0.4 s"


@pytest.mark.parametrize(("certified", "status"), [("hook.test", 200), ("other.test", None)])
def test_the_certificate_is_checked_for_the_name_and_not_for_the_address(
    names: Names,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    certified: str,
    status: int | None,
) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue("CN=hook", san=certified)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(issued.cert_file, issued.key_file)
    names.lead_to = {"hook.test": [["127.0.0.1"]]}
    with TargetServer(tls=tls) as target:
        (answer,) = post(f"https://hook.test:{port_of(target)}/in", allowed=MINE)
        assert answer.status == status
        assert len(target.received()) == (1 if status else 0)
        if not status:
            assert "CERTIFICATE_VERIFY_FAILED" in answer.said


def connections_made(monkeypatch: pytest.MonkeyPatch) -> list[Connections]:
    made: list[Connections] = []
    real = Connections

    def connections(*its: Any) -> Connections:
        made.append(real(*its))
        return made[-1]

    monkeypatch.setattr(open_internet, "Connections", connections)
    return made


def test_a_name_with_several_addresses_has_one_set_of_connections(
    names: Names, target: TargetServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However its addresses are sorted, and however many ask at first."""
    monkeypatch.setattr(open_internet, "_LOOKED_UP_S", 0.0)
    made = connections_made(monkeypatch)
    names.lead_to["hook.test"] = [["127.0.0.1", "127.0.0.2"], ["127.0.0.2", "127.0.0.1"]]
    url = f"http://hook.test:{port_of(target)}/in"

    async def all_at_once() -> list[Answer]:
        web = OpenInternet(MINE)
        found = await asyncio.gather(*(web.post(url, {}, b"{}", 5) for _ in range(5)))
        found += [await web.post(url, {}, b"{}", 5) for _ in range(3)]
        await web.close()
        return found

    assert {answer.status for answer in asyncio.run(all_at_once())} == {200}
    assert len(made) == 1


def test_what_a_name_leads_to_no_more_is_closed_when_its_last_request_has_ended(
    names: Names, target: TargetServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_internet, "_LOOKED_UP_S", 0.0)
    made = connections_made(monkeypatch)
    target.answers = lambda _: Reply(after_s=1.0)
    names.lead_to["hook.test"] = [["127.0.0.1"], ["127.0.0.2"]]
    url = f"http://hook.test:{port_of(target)}/in"

    async def one_then_the_other() -> Answer:
        web = OpenInternet(MINE)
        first = asyncio.create_task(web.post(url, {}, b"{}", 5))
        while not target.received():  # the first one is on its way then
            await asyncio.sleep(0.01)
        await web.post(url, {}, b"{}", 0.1)  # nobody need be there
        old, new = made
        assert (old.is_closed, new.is_closed) == (True, False)
        assert target.open == 1  # the first request has it still
        answer = await first
        await web.close()
        assert new.is_closed
        return answer

    assert asyncio.run(one_then_the_other()).status == 200
    eventually(lambda: target.open == 0)


def test_no_cookie_is_kept(target: TargetServer) -> None:
    target.answers = lambda _: Reply(headers=(("set-cookie", "a=b; Path=/"),))
    url = f"http://127.0.0.1:{port_of(target)}/in"
    post(url, url, allowed=frozenset({"127.0.0.1"}))
    assert len(target.received()) == 2
    assert not any("cookie" in received.headers for received, _ in target.received())


def test_connections_are_used_again_and_no_more_are_open_than_requests_are_under_way(
    target: TargetServer,
) -> None:
    url = f"http://127.0.0.1:{port_of(target)}/in"

    async def some() -> set[int | None]:
        web = OpenInternet(MINE | {"127.0.0.1"})
        found = set()
        for _ in range(20):
            answers = await asyncio.gather(*(web.post(url, {}, b"{}", 5) for _ in range(5)))
            found |= {answer.status for answer in answers}
        await web.close()
        return found

    assert asyncio.run(some()) == {200}
    assert target.connections <= 5
