"""`./headrace spool`: what the gateway's spool has set aside, and its way into Kafka."""

import fcntl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from clients.kafka.records import Outgoing
from gateway.spool.frame import Frame, brought, pack
from gateway.spool.set_aside import DAMAGED, FOLDER, Kept, SetAside, in_spool, kept_at, sync_folder
from local_stack.run.options import StateDir, folder_of
from local_stack.run.server_addresses import kafka_bootstrap
from local_stack.servers.gateways import node_folders
from local_stack.terminal.errors import LOOK, StackError
from local_stack.terminal.output import Output, OutputOption, say_json, say_rows, table
from local_stack.terminal.progress import say
from shared.consumer_groups import OPERATOR
from shared.events.envelope import ID, text
from shared.timestamps import to_rfc3339

if TYPE_CHECKING:
    from clients.kafka.write import AckedWriter
    from shared.settings import Settings

_AT_ONCE = 100  # of 8 MiB each at most, and mostly of far less
_ANSWER_DEADLINE_S = 30
_CONNECT_DEADLINE_S = 10

app = typer.Typer(
    no_args_is_help=True,
    help="""What the gateway has accepted and could not bring to Kafka: look, send again.

    Example: ./headrace spool list
    """,
)


@app.command("list")
def list_(output: OutputOption = Output.TABLE, state_dir: StateDir = None) -> None:
    """What is set aside: what Kafka has refused for good, and what the disk has damaged.

    Example: ./headrace spool list
    """
    say_rows(list(listed(folder_of(state_dir))), output, "Nothing is set aside.")


@app.command()
def replay(
    file: Annotated[
        str | None, typer.Option("--file", help="This one alone; a name that `list` shows.")
    ] = None,
    output: OutputOption = Output.TABLE,
    state_dir: StateDir = None,
) -> None:
    """Send what is whole to Kafka again, once its topic takes it. What goes is set aside no more.

    A gateway may run meanwhile. To do it twice does no harm: each has kept its event id.

    Example: ./headrace spool replay
    """
    from shared.settings import Settings

    settings = Settings(kafka_bootstrap=kafka_bootstrap(state_dir))
    done = send_again(settings, folder_of(state_dir), file)
    if output is Output.JSON:
        refused = [refusal._asdict() for refusal in done.refused]
        say_json({"sent": done.sent, "refused": refused, "unreadable": done.unreadable})
    else:
        if done.refused:
            say("\n".join([*table(list(done.refused[0]._fields), done.refused), ""]))
        say(f"{done.sent} payloads are in Kafka now.")
        if done.unreadable:
            say("no payload can be made out in these, so they stay; once looked at, remove them:")
            say("\n".join(f"  {name}" for name in done.unreadable))
    if done.refused:
        raise StackError(
            f"Kafka refused {len(done.refused)} payloads; they stay set aside",
            "mend what it says (`max.message.bytes` of the topic, an ACL) and replay again",
        )


class Refusal(NamedTuple):
    file: str
    topic: str
    entity: str
    event_id: str | None
    why: str


class Replayed(NamedTuple):
    sent: int
    refused: list[Refusal]
    unreadable: list[str]  # files that stay, since no frame can be made out in them


def listed(state_dir: Path) -> Iterator[dict[str, Any]]:
    """A row for each payload, and one for what cannot be read of a file."""
    for node, folder in node_folders(state_dir).items():
        yield from _listed_of(node, folder / "spool")


def _listed_of(node: str, spool: Path) -> Iterator[dict[str, Any]]:
    for kept in in_spool(spool):
        read_bytes = 0
        for frame in kept.frames():
            size_bytes = len(pack(frame))
            read_bytes += size_bytes
            yield {
                "file": kept.path.name,
                "gateway": node,
                "why": kept.why,
                "topic": frame.topic,
                "entity": _entity(frame),
                "event_id": _event_id(frame),
                "bytes": size_bytes,
                "spooled_at": to_rfc3339(frame.spooled_ms),
            }
        if read_bytes < kept.bytes or not kept.bytes:
            yield {
                "file": kept.path.name,
                "gateway": node,
                "why": DAMAGED if kept.has_frames else kept.why,
                "topic": kept.topic or None,
                "entity": None,
                "event_id": None,
                "bytes": kept.bytes - read_bytes,
                "spooled_at": None,
            }


def send_again(settings: "Settings", state_dir: Path, file: str | None) -> Replayed:
    """Each goes under the event id that its sender was told, so to come twice has no effect."""
    from clients.kafka.write import for_at_most

    sent, refused, unreadable = 0, list[Refusal](), list[str]()
    with _alone(state_dir) as spools:
        chosen = _chosen(spools, file)
        writer = _writer(settings)
        left = iter([one for kept in chosen for one in _one_by_one(kept)])
        while some := list(islice(left, _AT_ONCE)):
            frames = [(kept, frame) for kept in some for frame in kept.frames()]
            readable = {kept.path for kept, _ in frames}
            unreadable += [kept.path.name for kept in some if kept.path not in readable]
            records = [_outgoing(frame) for _, frame in frames]
            refusals = writer.send(records, for_at_most(_ANSWER_DEADLINE_S))
            for number, (kept, frame) in enumerate(frames):
                if why := refusals.get(number):
                    place = kept.path.name, frame.topic, _entity(frame), _event_id(frame)
                    refused.append(Refusal(*place, why))
                else:
                    kept.path.unlink(missing_ok=True)
                    sent += 1
            for folder in {kept.path.parent for kept in some}:
                sync_folder(folder)
    return Replayed(sent, refused, unreadable)


def _chosen(spools: Sequence[Path], file: str | None) -> list[Kept]:
    found = [kept for spool in spools for kept in in_spool(spool)]
    chosen = [kept for kept in found if file in (None, kept.path.name)]
    if file is not None and not chosen:
        raise StackError(f"no file {file!r} is set aside", "see: ./headrace spool list")
    return chosen


def _one_by_one(kept: Kept) -> list[Kept]:
    """A file for each payload: so each goes, or stays, alone."""
    if not kept.has_frames or kept.payloads() == 1:
        return [kept]
    aside, parts, read_bytes = SetAside(kept.path.parent), list[Path](), 0
    for frame in kept.frames():
        raw = pack(frame)
        read_bytes += len(raw)
        parts.append(aside.keep(kept.why, frame.topic, raw))
    with kept.path.open("rb") as whole:
        whole.seek(read_bytes)
        if rest := whole.read():
            parts.append(aside.keep(DAMAGED, kept.topic, rest))
    kept.path.unlink()
    return [kept_at(part) for part in dict.fromkeys(parts)]


def _writer(settings: "Settings") -> "AckedWriter":
    from confluent_kafka import KafkaException

    from clients.kafka.offsets import LogOffsets
    from clients.kafka.write import AckedWriter

    try:
        with LogOffsets(settings.kafka, OPERATOR, answer_s=_CONNECT_DEADLINE_S) as log:
            log.metadata()
    except KafkaException as error:
        why = error.args[0].str()
        raise StackError(
            f"Kafka at {settings.kafka_bootstrap} does not answer: {why}; nothing was sent", LOOK
        ) from error
    return AckedWriter(settings.kafka)


def _outgoing(frame: Frame) -> Outgoing:
    record = brought(frame)
    return Outgoing(frame.topic, record.key, record.value, list(record.headers))


def _entity(frame: Frame) -> str:
    return frame.record.key.decode(errors="backslashreplace")


def _event_id(frame: Frame) -> str | None:
    return text(frame.record.headers, ID)


@contextmanager
def _alone(state_dir: Path) -> Iterator[list[Path]]:
    """The spools that are there."""
    spools = [folder / "spool" for folder in node_folders(state_dir).values()]
    spools = [spool for spool in spools if (spool / FOLDER).exists()]
    if not spools:
        raise StackError(f"there is no spool in {state_dir}", "choose a --state-dir")
    with (spools[0] / "replay.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StackError("another replay is under way", "wait until it has ended") from error
        yield spools
