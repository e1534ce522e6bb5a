"""The views of the flow: how far each is, and its rows, out of the copy of the gateway beside."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from desk.words import statuses
from gateway.auth.caller import ANYONE
from gateway.monitor.job_status import JobStatus
from gateway.pages.turns import Turns
from gateway.state_view.reader import StateView
from gateway.views.page import page_of, sorted_page_of
from gateway.views.view_request import asked_by
from shared.flow import load_flow
from shared.model import View
from shared.settings import Settings
from shared.timestamps import to_rfc3339


class ViewPage(NamedTuple):
    view: View
    rows: list[dict[str, Any]]
    next: str | None


class ViewDesk:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._flow = load_flow(settings.flow)
        self._turns = Turns(1, "too_many_sorts", "too many ask for rows in an order of their own")

    def all(self) -> list[dict[str, Any]]:
        """KafkaAwayError where Kafka does not answer."""
        said = statuses(self._settings.kafka, [row.job for row in self._flow.views])
        source = StateView(self._settings.state_dir)
        try:
            rows = {
                row.topic: source.count_of_view(row.topic)
                if source.topic_progress(row.topic).warm
                else None
                for row in self._flow.views
            }
        finally:
            source.close()
        return [
            {
                "name": row.name,
                "version": row.version,
                "of": ", ".join(row.of),
                "key": ", ".join(row.key),
                "results": row.results,
                "job": row.job,
                "rows": rows[row.topic],
                **_progress(said.get(row.job)),
            }
            for row in self._flow.views
        ]

    async def page(self, name: str, asked: Mapping[str, str]) -> ViewPage:
        """As GET /views/{name} of the gateway has it. Problem where it cannot be; CannotReadError
        where the gateway beside has no rows yet."""
        row, selection = asked_by(ANYONE, self._flow, name, asked)
        source = StateView(self._settings.state_dir)
        try:
            if selection.order is None:
                found = await page_of(source, row, selection, None)
            else:
                found = await sorted_page_of(
                    source, row, selection, selection.order, None, self._turns
                )
        finally:
            source.close()
        return ViewPage(row, found.rows, found.next)


def _progress(status: JobStatus | None) -> dict[str, Any]:
    if status is None or status.is_silent:
        nothing = dict.fromkeys(("behind_s", "watermark", "late", "corrections"))
        return {"state": "silent", **nothing}
    counts = status.of_view
    watermark_ms = counts.get("watermark_ms")
    return {
        "state": status.state,
        "behind_s": status.lag_s,
        "watermark": to_rfc3339(int(watermark_ms)) if watermark_ms else None,
        "late": int(counts.get("late", 0)),
        "corrections": int(counts.get("corrections", 0)),
    }
