"""Whether an operator is told what is the matter: faults of the rig, one after the other, on a
whole stack with a little load. Each has one cause. Within ten seconds /health and the desk's page
have to name it, and nothing else, for as long as the fault lasts.

    python -m tests.faults.causes_run [--only "Kafka away" …]
    python -m tests.faults.causes_run --drill FOLDER

In a drill somebody who knows nothing of the faults looks at the desk alone, whose address is in
FOLDER, and writes into `answer-1` and so on what the matter is. Then the next fault comes.
"""

import argparse
import asyncio
import contextlib
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from tests.desk import dom
from tests.faults.causes import CAUSES, Cause
from tests.faults.whole.rig import NotWellError, Rig

_WITHIN_S, _LASTS_S, _LOOK_EVERY_S = 10.0, 20.0, 1.0
_POSTS_EVERY_S = 0.1


class Judge:
    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._http = httpx.AsyncClient(timeout=5, trust_env=False)
        self._numbers = 0

    async def load(self) -> None:
        while True:
            self._numbers += 1
            device = f"device-{self._numbers % 50 + 1:04}"
            body = b'{"value": %d, "temp_f": 70}' % (self._numbers % 80)
            url = f"{self._rig.launcher.gateway_url}/v1/telemetry/{device}"
            with contextlib.suppress(httpx.HTTPError):
                await self._http.post(url, content=body)
            await asyncio.sleep(_POSTS_EVERY_S)

    async def judge(self, cause: Cause) -> list[str]:
        """What did not hold."""
        await self._until_well()
        await cause.plant(self._rig)
        try:
            named_s, wrong = await self._watch(cause)
        finally:
            await cause.heal(self._rig)
        told = "never" if named_s is None else f"after {named_s:.1f} s"
        verdict = f"wrong: {'; '.join(wrong[:2])}" if wrong else "named"
        print(f"{cause.name}: {told}, {verdict}", flush=True)
        return wrong

    async def _watch(self, cause: Cause) -> tuple[float | None, list[str]]:
        """After how long it was named, and what did not hold."""
        began_s, named_s, wrong = time.monotonic(), None, list[str]()
        while (at_s := time.monotonic() - began_s) < _LASTS_S:
            health, page = await self._said_by_health(), await self._said_by_the_page()
            for who, said in (("/health", health), ("the page", page)):
                print(f"    {at_s:4.1f} s {who}: {said}", flush=True)
            is_named = health == page == cause.named
            if is_named and named_s is None:
                named_s = at_s
            if at_s > _WITHIN_S and not is_named:
                wrong.append(f"{at_s:.0f} s: /health {sorted(health)}, page {sorted(page)}")
            await asyncio.sleep(_LOOK_EVERY_S)
        return named_s, wrong

    async def drill(self, number: int, cause: Cause, folder: Path) -> None:
        await self._until_well()
        await cause.plant(self._rig)
        await asyncio.sleep(_WITHIN_S)
        try:
            (folder / "desk").write_text(self._rig.launcher.status()["desk_url"])
            (folder / f"planted-{number}").touch()
            answer = folder / f"answer-{number}"
            while not answer.exists():
                await asyncio.sleep(0.5)
            print(f"{number}: {cause.name} | {answer.read_text().strip()}", flush=True)
        finally:
            await cause.heal(self._rig)

    async def _said_by_health(self) -> frozenset[str]:
        try:
            told = (await self._http.get(f"{self._rig.launcher.gateway_url}/health")).json()
        except (httpx.HTTPError, ValueError):
            return frozenset({"no answer"})
        return frozenset(causes_of(told))

    async def _said_by_the_page(self) -> frozenset[str]:
        url = f"{self._rig.launcher.status()['desk_url']}/flow"
        try:
            page = dom.read((await self._http.get(url)).content)
        except httpx.HTTPError:
            return frozenset({"no answer"})
        return frozenset(named_on(page))

    async def _until_well(self) -> None:
        deadline_s = time.monotonic() + 240
        said: Any = None
        while time.monotonic() < deadline_s:
            said = await self._said_by_health()
            if not said:
                return
            await asyncio.sleep(1)
        raise NotWellError(f"before a fault, {said}")


def causes_of(told: Any) -> list[str]:
    return [*told["causes"]]


def named_on(page: dom.Element) -> list[str]:
    named: list[str] = []
    for region in page.all("div"):
        if region.attributes.get("aria-label") == "What is wrong":
            for row in list(region.all("tr"))[1:]:
                named += next(row.all("td", "th")).text.split(", ")
    return named or (["no answer"] if "Nobody knows" in page.text else [])


async def run(folder: Path, causes: Sequence[Cause], answers: Path | None) -> int:
    wrong = 0
    async with Rig(folder) as rig:
        rig.launcher.more["HEADRACE_HOOKS_HOSTS_ALLOWED"] = "127.0.0.1"
        await rig.start()
        judge = Judge(rig)
        load = asyncio.create_task(judge.load())
        for number, cause in enumerate(causes, 1):
            if answers is not None:
                await judge.drill(number, cause, answers)
                continue
            print(f"{cause.name}: {', '.join(sorted(cause.named))}", flush=True)
            try:
                wrong += bool(await judge.judge(cause))
            except NotWellError as error:
                print(f"wrong: {cause.name}: {error}", flush=True)
                wrong += 1
        load.cancel()
    print(f"{len(causes)} faults, {wrong} not named as they should be")
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", help="of these names")
    parser.add_argument("--drill", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    causes = [one for one in CAUSES if not options.only or one.name in options.only]
    if options.drill:
        random.shuffle(causes)
    with tempfile.TemporaryDirectory(prefix="headrace-causes-") as folder:
        return asyncio.run(run(Path(folder), causes, options.drill))


if __name__ == "__main__":
    sys.exit(main())
