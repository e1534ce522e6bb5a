import asyncio
from pathlib import Path

from tests.faults.client_answers import Told
from tests.faults.whole.sends import EVENT, Answer, Message, Sends


def test_a_later_run_knows_what_an_earlier_one_has_sent_and_was_told(tmp_path: Path) -> None:
    message = Message(0, "telemetry", "device-0001", b"\xff1", "k0", EVENT)
    told = Answer(Told.WRITTEN, "id", ("ingest.telemetry.v1", 1, 2))

    async def send() -> Sends:
        sends = Sends(tmp_path / "ledger.jsonl")
        sends.add([message])
        sent_at = await sends.before([message])
        sends.after(sent_at, [message], [told])
        await sends.before([message])  # and then the rig died
        sends.close()
        return sends

    asyncio.run(send())
    later = Sends(tmp_path / "ledger.jsonl")
    later.close()
    assert later.messages == [message]
    assert later.answers == {0: [told._replace(sent_at=1, answered_at=2)]}
    assert later.tries == 2
