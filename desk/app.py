"""The desk over HTTP: pages for people, and under /api the same for programs."""

from functools import partial

from fastapi import FastAPI
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import Response

from desk.api.credentials import credential_api
from desk.api.entities import entity_api
from desk.api.flow import flow_api
from desk.api.hooks import hook_api
from desk.api.jobs import job_api
from desk.api.ledger import ledger_api
from desk.api.letters import letter_api
from desk.api.master import master_api, sources_api
from desk.api.metrics import DeskMetrics
from desk.api.openapi import describe
from desk.credentials.service import BadCredentialError, CredentialDesk, NoCredentialError
from desk.entities.service import NoEntityError
from desk.flow.health import GatewayHealth
from desk.flow.service import FlowDesk
from desk.hooks.service import BadHookError, HookDesk, NoHookError
from desk.jobs.service import BadOrderError, JobDesk, NoJobError
from desk.ledger.service import LedgerDesk
from desk.letters.service import NoLetterError, desk
from desk.letters.store import open_book
from desk.master.row_file import BadFileError
from desk.master.service import (
    ChangedMeanwhileError,
    NoRowError,
    NoTableError,
    ReadOnlyTableError,
)
from desk.pages.credentials import credential_pages
from desk.pages.entities import entity_pages
from desk.pages.flow import flow_pages
from desk.pages.hooks import hook_pages
from desk.pages.jobs import job_pages
from desk.pages.ledger import ledger_pages
from desk.pages.letters import letter_pages
from desk.pages.provider import provider_pages
from desk.pages.site import site
from desk.pages.views import view_pages
from desk.pages.waiting import waiting_pages
from desk.sign_in.provider import Provider
from desk.sign_in.sessions import Sessions
from desk.views.service import ViewDesk
from desk.waiting.service import NobodyWaitsError
from desk.web.access import AccessMiddleware, is_page
from desk.web.shell import shown
from gateway.auth.setup import known_callers
from gateway.http.problems import HANDLERS, Problem, retry_after
from gateway.server.app import application
from gateway.whereabouts.finder import BadPlaceError
from shared.errors import RowRefusedError, StaleMasterDataError, StoreAwayError
from shared.kafka_access import KafkaAwayError
from shared.master_data.rows import BadRowError
from shared.settings import GatewaySettings


def create_app(settings: GatewaySettings) -> FastAPI:
    """Each request has connections of its own: operators are few."""
    who, kept = known_callers(settings) if settings.ways_to_ask else (None, None)

    open_desk = partial(desk, settings)
    app = application(
        [],
        None,
        docs=False,
        background=[kept] if kept else [],
        title="Headrace desk",
        handlers={**HANDLERS, **dict.fromkeys((Problem, *_TROUBLE), _on_trouble)},
    )
    app.include_router(letter_api(open_desk))
    app.include_router(master_api(settings))
    app.include_router(sources_api(settings))
    open_its_book = partial(open_book, settings)
    hooks = HookDesk(settings, open_its_book)
    credentials = CredentialDesk(settings, open_its_book)
    app.include_router(hook_api(hooks))
    app.include_router(hook_pages(hooks, open_desk))
    flow, health = FlowDesk(settings, open_its_book), GatewayHealth(settings)
    app.include_router(flow_api(flow, health))
    app.include_router(flow_pages(flow, health, settings.lag_warn_s))
    jobs = JobDesk(settings, open_its_book)
    app.include_router(job_api(jobs))
    app.include_router(job_pages(jobs))
    app.include_router(credential_api(credentials))
    app.include_router(credential_pages(credentials, somebody_asks=who is not None))
    ledger = LedgerDesk(settings)
    app.include_router(ledger_api(ledger))
    app.include_router(ledger_pages(ledger))
    app.include_router(view_pages(ViewDesk(settings)))
    app.include_router(entity_api(open_desk, credentials))
    app.include_router(entity_pages(open_desk, credentials))
    app.include_router(waiting_pages(open_desk))
    app.include_router(letter_pages(open_desk))
    secure = settings.tls_cert_file is not None or (settings.desk_url or "").startswith("https:")
    sessions = None
    if sign_in := settings.sign_in:
        sessions, provider = Sessions(sign_in.hold_s), Provider(sign_in)
        app.include_router(provider_pages(provider, sessions, secure_cookie=secure))
    app.include_router(site(who, sessions, secure_cookie=secure))

    @app.get("/metrics")
    def metrics() -> Response:
        with open_desk() as opened:
            text = generate_latest(DeskMetrics(opened.book))
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    describe(app)
    app.add_middleware(
        AccessMiddleware,
        who=who,
        is_open=settings.open != "no",
        sessions=sessions,
        refusal=_refusal,
    )
    return app


_REFUSALS: dict[type[Exception], tuple[int, str]] = {
    NoLetterError: (404, "no_letter"),
    NoEntityError: (404, "no_entity"),
    NobodyWaitsError: (404, "nobody_waits"),
    BadPlaceError: (404, "no_payload_there"),
    NoTableError: (404, "no_table"),
    NoRowError: (404, "no_row"),
    ChangedMeanwhileError: (412, "changed_meanwhile"),
    ReadOnlyTableError: (409, "read_only_table"),
    BadRowError: (422, "bad_row"),
    BadFileError: (422, "bad_file"),
    NoHookError: (404, "no_hook"),
    BadHookError: (422, "bad_hook"),
    NoCredentialError: (404, "no_credential"),
    BadCredentialError: (422, "bad_credential"),
    NoJobError: (404, "no_job"),
    BadOrderError: (422, "bad_order"),
}
_TROUBLE = *_REFUSALS, StoreAwayError, KafkaAwayError, StaleMasterDataError, RowRefusedError


async def _on_trouble(request: Request, error: Exception) -> Response:
    return _refusal(request, error if isinstance(error, Problem) else _problem(error))


def _refusal(request: Request, problem: Problem) -> Response:
    if not is_page(request):
        return problem.response(request.scope)
    said, status, headers = problem.detail, problem.status, problem.headers
    return shown(request, problem.code, [], told=said, status=status, headers=headers)


def _problem(error: Exception) -> Problem:
    if refusal := _REFUSALS.get(type(error)):
        return Problem(*refusal, str(error))
    if isinstance(error, RowRefusedError):
        return Problem(400, "bad_filter", f"PostgreSQL cannot look for that: {error.detail}")
    store = "PostgreSQL: " if isinstance(error, StoreAwayError) else ""
    said = f"{store}{error}; the letters are safe in their topics, ask again"
    return Problem(503, "store_away", said, headers=retry_after(2))
