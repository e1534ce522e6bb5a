"""Devices that send at a steady rate, and send again whatever was not acknowledged."""

import itertools
import threading
import time
from typing import NamedTuple

import httpx

from tests.end_to_end.hard_input import Randomness

CLIENTS = 4
DEVICES_OF_A_CLIENT = 5
PAUSE_S = 0.05
PATIENCE_S = 180.0


class Accepted(NamedTuple):
    id: str
    body: bytes
    endpoint: str
    topic: str
    place: tuple[int, int] | None  # it has none yet where it was spooled
    is_letter: bool
    tries: int


class Load:
    def __init__(self, gateway_url: str, seed: int) -> None:
        self.accepted: list[Accepted] = []
        self.wrong_answers: list[str] = []
        self._url = gateway_url
        self._over = threading.Event()
        self._clients = [
            threading.Thread(target=self._send, args=(number, Randomness(f"{seed} {number}")))
            for number in range(CLIENTS)
        ]

    @property
    def devices(self) -> list[str]:
        return [f"device-{n + 1:04}" for n in range(CLIENTS * DEVICES_OF_A_CLIENT)]

    def start(self) -> None:
        for client in self._clients:
            client.start()

    def stop(self) -> None:
        """What is under way is sent until it is accepted."""
        self._over.set()
        for client in self._clients:
            client.join()

    def _send(self, client_number: int, rng: Randomness) -> None:
        first = client_number * DEVICES_OF_A_CLIENT
        devices = self.devices[first : first + DEVICES_OF_A_CLIENT]
        with httpx.Client(base_url=self._url, timeout=20) as http:
            for number in itertools.count():
                if self._over.wait(PAUSE_S):
                    return
                endpoint, body, is_letter = _payload(number, rng)
                path = f"/v1/{endpoint}/{rng.choice(devices)}"
                tries = 0
                deadline_s = time.monotonic() + PATIENCE_S
                while not self._post(
                    http, path, body, f"{client_number}-{number}", tries, is_letter
                ):
                    tries += 1
                    if time.monotonic() > deadline_s:
                        self.wrong_answers.append(f"{path} was not taken within {PATIENCE_S} s")
                        return
                    time.sleep(0.1)

    def _post(
        self, http: httpx.Client, path: str, body: bytes, key: str, tries: int, is_letter: bool
    ) -> bool:
        try:
            answer = http.post(path, content=body, headers={"idempotency-key": key})
        except httpx.TransportError:
            return False
        said = answer.json()
        if answer.status_code == 202:
            place = None if "spooled" in said else (said["partition"], said["offset"])
            endpoint = path.split("/")[2]
            self.accepted.append(
                Accepted(said["id"], body, endpoint, said["topic"], place, is_letter, tries)
            )
            return True
        if answer.status_code != 503 or said["outcome"] not in ("definite", "unknown"):
            self.wrong_answers.append(f"{path}: {answer.status_code} {answer.text}")
        return False


def _payload(number: int, rng: Randomness) -> tuple[str, bytes, bool]:
    """Endpoint, body, and whether it is one that can be no event."""
    choice = rng.random()
    if choice < 0.05:
        return "telemetry", b'{"value": "warm", "temp_f": "warm"}', True
    at_ms = int(time.time() * 1000) + rng.randint(-60_000, 1000)
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at_ms / 1000)) + f".{at_ms % 1000:03}Z"
    when = f', "at": "{at}"' if rng.random() < 0.5 else ""
    if choice < 0.2:
        status = rng.choice(("online", "offline"))
        return "status", f'{{"status": "{status}"{when}}}'.encode(), False
    value = rng.randint(0, 100)
    return (
        "telemetry",
        f'{{"value": {value}, "temp_f": {value}, "n": {number}{when}}}'.encode(),
        False,
    )
