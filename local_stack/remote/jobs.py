from typing import Any

from local_stack.remote.asking import RemoteDesk


class RemoteJobs:
    """`by`: the desk knows whose token it is."""

    def __init__(self, desk: RemoteDesk) -> None:
        self._desk = desk

    def all(self) -> list[dict[str, Any]]:
        return list(self._desk.get("jobs")["jobs"])

    def pause(self, job: str, why: str, *, by: str) -> None:  # noqa: ARG002
        self._desk.post("jobs", job, "pause", document={"why": why})

    def resume(self, job: str, *, by: str) -> None:  # noqa: ARG002
        self._desk.post("jobs", job, "resume")

    def rebuild(self, job: str, why: str, *, by: str) -> None:  # noqa: ARG002
        self._desk.post("jobs", job, "rebuild", document={"why": why})
