from typing import Any

from prometheus_client.core import Metric

from gateway.monitor.job_news import JobNews
from gateway.monitor.view_metrics import view_metrics
from gateway.state_view.reader import StateView
from gateway.state_view.store import ViewStore
from shared.settings import GatewaySettings
from shared.timestamps import now_ms
from tests.gateway.views.support import HOT, Rows
from tests.stream_jobs.views_flow import FLOW


def numbers(metrics: list[Metric]) -> dict[tuple[Any, ...], float]:
    return {(s.name, *s.labels.values()): s.value for one in metrics for s in one.samples}


def test_each_view_tells_its_rows_and_how_far_it_is(
    settings: GatewaySettings, store: ViewStore
) -> None:
    rows, view = Rows(store), StateView(settings.state_dir)
    for key in "abc":
        rows.put(HOT, {"event_id": key})
    rows.said("hot", watermark_ms=now_ms() - 30_000, late=7)
    found = numbers([*view_metrics(FLOW.views, JobNews(view), view)])
    assert found["headrace_view_rows", "hot", "1"] == 3
    assert found["headrace_view_rows", "totals", "1"] == 0
    assert 30 <= found["headrace_view_watermark_delay_seconds", "hot", "1"] < 60
    assert found["headrace_view_events_total", "hot", "1", "late"] == 7
    # of the others nothing is known yet
    assert ("headrace_view_watermark_delay_seconds", "totals", "1") not in found
    assert numbers([*view_metrics((), JobNews(view), view)]) == {}
    view.close()
