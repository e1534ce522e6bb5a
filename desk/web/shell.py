"""What stands around each page. Forms and links do all that can be done, so it works with a
keyboard and without a script."""

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import HTMLResponse

from desk.web.access import by, csrf_of, may_of
from desk.web.components import form
from desk.web.html import Html, page, tag

_PLACES = {
    "Flow": "/flow",
    "Letters": "/",
    "Redrives": "/redrives",
    "Waiting": "/waiting",
    "Jobs": "/jobs",
    "Entities": "/entities",
    "Views": "/views",
    "Ledger": "/ledger",
    "Webhooks": "/webhooks",
    "Credentials": "/credentials",
    "Audit": "/audit",
}


def shell(
    title: str,
    *content: object,
    csrf: str,
    signed_in: str = "",
    may: str = "",
    told: str = "",
    script: str | None = None,
) -> bytes:
    """`signed_in`: who, and what that one may; `may`: this alone."""
    here = [
        tag("a", name, href=href, aria_current="page" if name == title else None)
        for name, href in _PLACES.items()
    ]
    away = None
    if signed_in:
        away = form("/logout", csrf, tag("span", signed_in), " ", tag("button", "Sign out"))
    return page(
        tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", name="viewport", content="width=device-width"),
            tag("title", f"{title} · Headrace"),
            tag("link", rel="stylesheet", href="/style.css"),
            tag("script", src=script, defer=True) if script else None,
        ),
        tag(
            "body",
            tag("a", "Skip to content", class_="skip", href="#content"),
            tag("header", tag("h1", "Headrace"), tag("nav", *here, aria_label="Desk"), away),
            tag(
                "main",
                tag("p", told, class_="told", role="status") if told else None,
                tag("p", id="news", role="status") if script else None,
                *content,
                id="content",
            ),
            class_=f"may-{may}" if may else None,
        ),
    )


def shown(
    request: Request,
    title: str,
    content: list[Html],
    told: str = "",
    script: str | None = None,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> HTMLResponse:
    """`script`: of the page's, which writes into what has the id `news`."""
    who = {"csrf": csrf_of(request), "signed_in": signed_in(request), "may": may_of(request)}
    return HTMLResponse(shell(title, *content, **who, told=told, script=script), status, headers)


def signed_in(request: Request) -> str:
    may = may_of(request)
    return f"{by(request)}, may {may}" if may else ""
