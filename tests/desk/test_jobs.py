"""Jobs at the desk: by a program, and by the pages. No job runs here."""

import httpx
import pytest

from clients.kafka.records import Outgoing
from clients.kafka.write import write_now
from shared.published.job_orders import JobOrder, Wanted
from shared.timestamps import now_ms
from shared.topic_names import JOB_ORDER_TOPIC
from stream_jobs.job_orders.feed import OrderFeed
from tests.desk import dom
from tests.desk.desk_room import Room
from tests.desk.said import says

pytestmark = pytest.mark.stack


def stands(room: Room, job: str) -> JobOrder | None:
    """For a job that is started now."""
    return OrderFeed(room.settings.kafka).of(job)


def test_a_program_pauses_resumes_and_rebuilds(room: Room) -> None:
    async def steps(http: httpx.AsyncClient) -> None:
        says(room, "fold", lag_s=3.4, lag_records=7)
        found = (await http.get("/api/jobs")).json()["jobs"]
        by_name = {one["job"]: one for one in found}
        assert {"enrich", "fold", "persist", "forward"} <= by_name.keys()
        fold = by_name["fold"]
        assert (fold["state"], fold["lag_s"], fold["lag_records"]) == ("running", 3.4, 7)
        assert (fold["order"], fold["can_be_rebuilt"]) == (None, True)
        says(room, "relay")
        relay = (await http.get("/api/jobs/relay")).json()
        assert (relay["state"], relay["takes_orders"]) == ("running", False)
        refused = await http.post("/api/jobs/relay/pause")
        assert refused.status_code == 422
        assert "relay takes no orders" in refused.text
        page = dom.read((await http.get("/jobs/relay")).content)
        assert not [one for one in page.all("button") if one.text == "Pause"]
        paused = await http.post("/api/jobs/fold/pause", json={"why": "the disk is changed"})
        assert paused.status_code == 202, paused.text
        assert paused.json()["order"]["why"] == "the disk is changed"
        order = stands(room, "fold")
        assert order is not None
        assert (order.order, order.by) == (Wanted.PAUSE, paused.json()["order"]["by"])
        assert abs(order.at_ms - now_ms()) < 60_000
        assert (await http.post("/api/jobs/fold/rebuild")).status_code == 202
        order = stands(room, "fold")
        assert order is not None
        assert order.order is Wanted.REBUILD
        resumed = await http.post("/api/jobs/fold/resume")
        assert (resumed.status_code, resumed.json()["order"]) == (202, None)
        assert stands(room, "fold") is None
        assert (await http.post("/api/jobs/persist/pause")).status_code == 202  # no reason given
        await http.post("/api/jobs/persist/resume")
        audit = (await http.get("/api/audit")).json()["audit"]
        noted = [(one["what"], one["reason"]) for one in audit if one["what"].endswith(" job")]
        assert noted[::-1] == [
            ("pause job", "fold: the disk is changed"),
            ("rebuild job", "fold"),
            ("resume job", "fold"),
            ("pause job", "persist"),
            ("resume job", "persist"),
        ]

    room.ask(steps)


def test_a_rebuild_that_is_followed_by_a_pause_is_done_when_the_job_goes_on(room: Room) -> None:
    """The job may have seen nothing of it yet."""

    async def steps(http: httpx.AsyncClient) -> None:
        await http.post("/api/jobs/fold/rebuild", json={"why": "its folds are new"})
        rebuild = stands(room, "fold")
        for why in ("the disk is changed", "and the board"):
            await http.post("/api/jobs/fold/pause", json={"why": why})
            paused = stands(room, "fold")
            assert paused is not None
            assert (paused.order, paused.why, paused.then) == (Wanted.PAUSE, why, rebuild)
        await http.post("/api/jobs/fold/resume")
        assert stands(room, "fold") == rebuild
        await http.post("/api/jobs/fold/resume")
        assert stands(room, "fold") is None

    room.ask(steps)


@pytest.mark.parametrize(
    ("asked", "status", "says"),
    [
        (("GET", "/api/jobs/nobody", None), 404, "this flow has no job nobody: enrich"),
        (("POST", "/api/jobs/nobody/pause", None), 404, "this flow has no job nobody"),
        (("POST", "/api/jobs/relay/resume", None), 422, "relay takes no orders: enrich"),
        (("POST", "/api/jobs/enrich/rebuild", None), 422, "enrich keeps no state"),
        (("POST", "/api/jobs/fold/pause", {"why": "a" * 501}), 422, "why"),
        (("POST", "/api/jobs/fold/pause", {"because": "a"}), 422, "because"),
        (("POST", "/api/jobs/fold/stop", None), 404, ""),
    ],
)
def test_what_cannot_be_is_a_sentence_and_orders_nothing(
    room: Room, asked: tuple[str, str, object], status: int, says: str
) -> None:
    async def steps(http: httpx.AsyncClient) -> None:
        method, path, body = asked
        refused = await http.request(method, path, json=body)
        assert refused.status_code == status
        assert says in refused.text
        assert stands(room, path.split("/")[3]) is None

    room.ask(steps)


def test_the_page_orders_what_its_buttons_say(room: Room) -> None:
    async def steps(http: httpx.AsyncClient) -> None:
        says(room, "fold", state="waiting", detail="Kafka: <away>")
        listed = (await http.get("/jobs")).text
        assert "Kafka: &lt;away&gt;" in listed
        page = (await http.get("/jobs/fold")).text
        (form,) = (one for one in dom.read(page).all("form")
                   if one.attributes["action"] == "/jobs/fold")  # fmt: skip
        csrf = form.fields()["csrf"]
        for button, wanted in (("pause", Wanted.PAUSE), ("rebuild", Wanted.REBUILD)):
            fields = {"csrf": csrf, "order": button, "why": "we look"}
            assert (await http.post("/jobs/fold", data=fields)).status_code == 303
            order = stands(room, "fold")
            assert order is not None
            assert (order.order, order.why) == (wanted, "we look")
            assert f"{button}, by {order.by}" in (await http.get("/jobs/fold")).text
        assert "Make its state anew" not in (await http.get("/jobs/enrich")).text
        wrong = await http.post("/jobs/fold", data={"csrf": csrf, "order": "stop"})
        assert wrong.status_code == 400
        fields = {"csrf": "00", "order": "pause"}
        assert (await http.post("/jobs/fold", data=fields)).status_code == 403
        await http.post("/jobs/fold", data={"csrf": csrf, "order": "resume"})
        assert stands(room, "fold") is None
        assert (await http.get("/jobs/nobody")).status_code == 404

    room.ask(steps)


def test_an_order_that_no_job_can_read_is_none_here_either(room: Room) -> None:
    async def steps(http: httpx.AsyncClient) -> None:
        write_now(room.settings.kafka, Outgoing(JOB_ORDER_TOPIC, b"fold", b"whatever", []))
        assert (await http.get("/api/jobs/fold")).json()["order"] is None
        await http.post("/api/jobs/fold/resume")

    room.ask(steps)
