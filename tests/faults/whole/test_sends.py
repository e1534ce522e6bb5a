import asyncio
from pathlib import Path

from tests.faults.ledger import Told
from tests.faults.whole.sends import EVENT, Answer, Message, Sends


def test_a_later_run_knows_what_an_earlier_one_has_sent_and_was_told(tmp_path: Path) -> None:
    message = Message(0, "telemetry", "device-0001", b"\xff1", "k0", EVENT)
    told = Answer(Told.WRITTEN, "id", ("ingest.telemetry.v1", 1, 2))

    async def send() -> Sends:
        sends = Sends(tmp_path / "ledger.jsonl")
        sends.add(message)
        await sends.before(message)
        sends.after(message, told)
        await sends.before(message)  # and then the rig died
        sends.close()
        return sends

    asyncio.run(send())
    later = Sends(tmp_path / "ledger.jsonl")
    later.close()
    assert later.messages == [message]
    assert (later.answers, later.tries) == ({0: [told]}, 2)
