"""What stands around each page. Forms and links do all that can be done, so it works with a
keyboard and without a script."""

from starlette.requests import Request
from starlette.responses import HTMLResponse

from desk.web.access import csrf_of, token_of
from desk.web.components import form
from desk.web.html import Html, page, tag

_PLACES = {
    "Flow": "/flow",
    "Letters": "/",
    "Redrives": "/redrives",
    "Waiting": "/waiting",
    "Jobs": "/jobs",
    "Entities": "/entities",
    "Webhooks": "/webhooks",
    "Credentials": "/credentials",
    "Audit": "/audit",
}


def shell(
    title: str,
    *content: object,
    csrf: str,
    signed_in: bool = False,
    told: str = "",
    script: str | None = None,
) -> bytes:
    here = [
        tag("a", name, href=href, aria_current="page" if name == title else None)
        for name, href in _PLACES.items()
    ]
    away = form("/logout", csrf, tag("button", "Sign out")) if signed_in else None
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
        ),
    )


def shown(
    request: Request, title: str, content: list[Html], told: str = "", script: str | None = None
) -> HTMLResponse:
    """`script`: of the page's, which writes into what has the id `news`."""
    signed_in, csrf = bool(token_of(request)), csrf_of(request)
    page = shell(title, *content, csrf=csrf, signed_in=signed_in, told=told, script=script)
    return HTMLResponse(page)
