"""What stands on the topics of a running stack is what is published of them."""

import json
from typing import Any

import jsonschema_rs
import orjson
import pytest
from typer.testing import CliRunner

from clients.postgres import master_data, store
from local_stack import cli
from local_stack.verbs import credentials, jobs
from shared.flow import FLOW
from shared.published.schemas.by_topic import messages
from shared.published.schemas.shapes import RecordSchema
from shared.topic_names import REFOLD_TOPIC, REFOLDED_TOPIC, REPEAT_TOPIC, again_topic, gate_topic
from tests.end_to_end.conftest import Running
from tests.kafka_log import Record, read_topic
from tests.stream_jobs.forward.target_server import Reply, TargetServer

pytestmark = pytest.mark.stack


def keeps(schema: dict[str, Any], value: Any) -> bool:
    return jsonschema_rs.validator_for(schema, validate_formats=True).is_valid(value)


def is_one(record: Record, message: RecordSchema, any_value: bool) -> bool:
    headers = {name: text.decode() for name, text in record.headers.items()}
    if headers.keys() - message.headers["properties"].keys():
        return False
    key = record.key.decode() if record.key is not None else None
    return (
        keeps(message.key, key)
        and keeps(message.headers, headers)
        and (any_value or keeps(message.value or {}, orjson.loads(record.value or b"null")))
    )


def _correct_all(running: Running, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_POSTGRES_URL", running.stack.postgres_url)
    monkeypatch.setenv("HEADRACE_KAFKA_BOOTSTRAP", running.stack.kafka_bootstrap)
    times = ["--from", "1d", "--to", "2099-01-01T00:00:00Z"]
    result = CliRunner().invoke(cli.app, ["reenrich", "--device", device, *times])
    assert result.exit_code == 0, result.output


def _wait_and_go_on(running: Running, device: str) -> None:
    """Its gate is opened and closed."""

    def gates() -> list[bytes | None]:
        records = read_topic(running.stack.kafka_bootstrap, gate_topic("enrich"))
        return [record.value for record in records if record.key == device.encode()]

    running.post_all([(device, b'{"value": 1}')])
    running.eventually(lambda: bool(gates()))
    with store.connect(running.stack.postgres_url, "test") as connection:
        master_data.add_device(connection, device, "area-01", "thermo-c")
    running.eventually(lambda: gates()[-1] is None)


def _end_a_hook(running: Running, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its server is away for a while, and gone then; a letter of it is sent on again, and parked
    again."""
    monkeypatch.setenv("HEADRACE_HOOKS_HOSTS_ALLOWED", "127.0.0.1")

    def run(*arguments: str) -> Any:
        state_dir = ("--state-dir", str(running.stack.state_dir))
        done = CliRunner().invoke(cli.app, [*arguments, *state_dir, "-o", "json"])
        assert done.exit_code == 0, done.exception
        return json.loads(done.stdout)

    def letters() -> list[dict[str, Any]]:
        found = run("letters", "list", "--entity", device, "--status", "parked")
        return [letter for letter in found if letter["stage"] == "forward"]

    replies = [500, 500]
    with TargetServer(lambda _: Reply(replies.pop() if replies else 410)) as server:
        settings = ("--entity", device, "--type", "reading")
        run("hooks", "add", "contracts", f"{server.url}/in", *settings)
        running.eventually(lambda: running.job_status("forward") == "pass")
        running.post_all([(device, b'{"value": 21.75}')])
        running.eventually(lambda: len(letters()) == 1)
    assert [reply.status for _, reply in server.received()] == [500, 500, 410]
    assert run("letters", "redrive", letters()[0]["id"])["sent"] == 1
    running.eventually(lambda: [letter["times"] for letter in letters()] == [2])
    # /health warns as long as there is one that has ended
    gone = CliRunner().invoke(
        cli.app, ["hooks", "delete", "contracts", "--state-dir", str(running.stack.state_dir)]
    )
    assert gone.exit_code == 0, gone.exception


def test_every_record_of_every_topic_is_as_it_is_published(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, forwarded = "device-0707", "device-0708"
    kafka = running.stack.kafka_bootstrap
    payloads = [b'{"value": 21.5, "room": "lab"}', b'{"value": 95}', b'{"value": "warm"}', b"{"]
    receipts = running.post_all([(device, body) for body in payloads] + [("nobody", b"{}")])
    online = running.http.post(f"/v1/status/{device}", content=b'{"status": "online"}')
    assert online.status_code == 202
    for _ in range(2):  # a repeat, which fold tells
        running.http.post(
            f"/v1/telemetry/{device}", content=b'{"value": 22}', headers={"idempotency-key": "k"}
        )
    # an alarm that is raised and cleared, and the end of a device that an area has known
    cooled = running.http.post(f"/v1/telemetry/{device}", content=b'{"value": 5}').json()
    for topic in ("state.area.v1", REPEAT_TOPIC):
        running.eventually(lambda topic=topic: len(read_topic(kafka, topic)) >= 1)
    retired = running.http.post(f"/v1/status/{device}", content=b'{"status": "retired"}').json()
    receipts += [cooled, retired]
    credentials.add(device=device, state_dir=running.stack.state_dir)
    taken = {receipts[n]["id"] for n in (0, 1, -2, -1)} | {online.json()["id"]}
    running.eventually(lambda: running.rows_of(taken) == 5)
    running.eventually(lambda: len(running.completions_of({receipts[0]["id"]})) >= 1)
    for name in ("status_changed", "retired", "alarm_raised", "alarm_cleared"):
        topic = FLOW.event_type(name).completion_topic
        running.eventually(lambda topic=topic: len(read_topic(kafka, topic)) >= 1)

    jobs.pause("aggregate", "to see its order", running.stack.state_dir)
    jobs.resume("aggregate", running.stack.state_dir)
    _wait_and_go_on(running, "contracts-late")
    _correct_all(running, device, monkeypatch)
    _end_a_hook(running, forwarded, monkeypatch)
    # its own: other tests may have written there before
    written = {
        again_topic("enrich"): device,
        REFOLD_TOPIC: f"device:{device}",
        REFOLDED_TOPIC: device,
    }

    def keys_of(topic: str) -> set[bytes | None]:
        return {record.key for record in read_topic(kafka, topic)}

    for topic, key in written.items():
        running.eventually(lambda topic=topic, key=key: key.encode() in keys_of(topic))

    posted = {endpoint.topic for endpoint in FLOW.endpoints}
    untouched = posted | {again_topic("enrich"), *FLOW.lanes}  # whatever was posted
    ours = {device.encode(), forwarded.encode(), b"nobody"}
    seen: set[tuple[str, str]] = set()
    for topic, known in messages(FLOW).items():
        for record in read_topic(kafka, topic):
            if topic in untouched and record.key not in ours:
                continue  # other tests also write to these, as no gateway would
            kinds = [m.name for m in known if is_one(record, m, any_value=topic in untouched)]
            assert len(kinds) == 1, f"{topic}: {kinds} {record}"
            seen.add((topic, kinds[0]))
    # nothing has gone wrong in these
    silent = {"dlq.fold.v1", "dlq.aggregate.v1", "dlq.persist.v1"}
    published = {(topic, m.name) for topic, known in messages(FLOW).items() for m in known}
    assert {pair for pair in published if pair[0] not in silent} <= seen
