"""A domain with a table of its own on a whole stack: sales wait for their price, an operator sets
it at a terminal, over HTTP, or by a file, and each kiosk has sold in its order."""

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from local_stack import cli
from local_stack.run.stack import Stack
from tests.kafka_log import eventually, read_topic
from tests.killed import killing, post_until_accepted, wait_for_states
from tests.kiosk.conftest import FOLDER

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    settings = {"HEADRACE_FLOW": "kiosk:FLOW", "PYTHONPATH": str(FOLDER)}
    folder = tmp_path_factory.mktemp("kiosk")
    with Stack(folder, random_ports=True, settings=settings) as stack:
        yield stack


@pytest.fixture(autouse=True)
def terminal(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_FLOW", "kiosk:FLOW")
    monkeypatch.setenv("HEADRACE_STATE_DIR", str(stack.state_dir))
    for name in ("HEADRACE_POSTGRES_URL", "HEADRACE_KAFKA_BOOTSTRAP"):
        monkeypatch.delenv(name, raising=False)


def _master(*arguments: str) -> str:
    done = CliRunner().invoke(cli.app, ["master", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def _sell(stack: Stack, kiosk: str, articles: list[str]) -> None:
    for number, article in enumerate(articles):
        body = b'{"article": "%s", "count": 1}' % article.encode()
        post_until_accepted(stack, f"/v1/sale/{kiosk}", body, f"{kiosk}-{number}")


def _reasons(stack: Stack) -> set[bytes]:
    records = read_topic(stack.kafka_bootstrap, "gate.enrich.v1")
    last = {record.key: record.value for record in records}
    return {key or b"" for key, value in last.items() if value and b"missing_price" in value}


def _sold(kiosk: str, **cents: int) -> dict[tuple[str, str], object]:
    state = {"kiosk": kiosk, "cents": sum(cents.values()), "articles": [*cents]}
    return {("kiosk", kiosk): state}


def test_a_sale_waits_for_its_price_and_goes_on_when_it_is_set(
    stack: Stack, tmp_path: Path
) -> None:
    _master("set", "price", "water", '{"cents": 100}')
    _sell(stack, "k-water", ["water"])
    _sell(stack, "k-cola", ["cola", "water"])
    _sell(stack, "k-chips", ["chips", "water"])
    _sell(stack, "k-nuts", ["nuts", "water"])
    wait_for_states(stack, _sold("k-water", water=100))
    eventually(lambda: _reasons(stack) == {b"k-cola", b"k-chips", b"k-nuts"}, 240)

    began_s = time.monotonic()
    _master("set", "price", "cola", '{"cents": 150}')
    wait_for_states(stack, _sold("k-cola", cola=150, water=100))
    print(f"the waiting ended {time.monotonic() - began_s:.1f} s after the price was set")
    assert _reasons(stack) >= {b"k-chips", b"k-nuts"}

    answer = httpx.put(f"{stack.desk_url}/api/master/price/chips", json={"cents": 200}, timeout=60)
    assert answer.status_code == 200, answer.text
    file = tmp_path / "prices.csv"
    file.write_text("article,cents\nnuts,250\n")
    assert "1 added" in _master("import", "price", str(file))
    wait_for_states(
        stack,
        {**_sold("k-chips", chips=200, water=100), **_sold("k-nuts", nuts=250, water=100)},
    )
    eventually(lambda: _reasons(stack) == set(), 240)


@pytest.mark.long
def test_prices_that_come_while_all_is_killed_end_the_waiting_all_the_same(stack: Stack) -> None:
    kiosks = [f"late-{number}" for number in range(12)]
    for kiosk in kiosks:
        _sell(stack, kiosk, [f"of-{kiosk}", "water"])
    eventually(lambda: len(_reasons(stack)) == len(kiosks), 240)
    with killing(stack, ("relay", "spark", "relay"), every_s=3):
        for kiosk in kiosks:
            _master("set", "price", f"of-{kiosk}", '{"cents": 7}')
            time.sleep(1)
    expected: dict[tuple[str, str], object] = {}
    for kiosk in kiosks:
        expected |= _sold(kiosk, **{f"of-{kiosk}": 7, "water": 100})
    wait_for_states(stack, expected)
    assert read_topic(stack.kafka_bootstrap, "dlq.enrich.v1") == []
