"""The application that answers all requests but those of payloads, made from its routes; the desk's
is one, too."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Protocol

from fastapi import FastAPI
from starlette.routing import BaseRoute

from gateway.auth.asgi_guard import Guard
from gateway.auth.authenticate import Authenticator
from gateway.http.page_origins import ForPages
from gateway.http.problems import HANDLERS, Handler
from shared import VERSION


class Background(Protocol):
    """Something that runs as long as the application does."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


def application(
    routes: Sequence[BaseRoute],
    who: Authenticator | None,
    *,
    docs: bool,
    background: Sequence[Background] = (),
    title: str = "Headrace",
    handlers: Mapping[int | type[Exception], Handler] = HANDLERS,
    page_origins: Collection[str] = (),
) -> FastAPI:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for part in background:
                await part.start()
                stack.push_async_callback(part.stop)
            yield

    app = FastAPI(
        title=title,
        version=VERSION,
        routes=[*routes],
        exception_handlers={**handlers},
        lifespan=lifespan,
        docs_url="/docs" if docs else None,
        redoc_url=None,
        openapi_url="/openapi.json" if docs else None,
        redirect_slashes=False,
        # merely asking at each request whether these are on costs a fifth of it
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    if who is not None:
        app.add_middleware(Guard, who=who)
    if page_origins:
        app.add_middleware(ForPages, origins=page_origins)
    return app
