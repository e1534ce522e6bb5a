"""What the body of a request says: a browser's form, or a payload to try."""

from base64 import b64decode
from collections.abc import Mapping, Sequence
from urllib.parse import parse_qs

from starlette.requests import Request

from desk.letters.selection import STATUSES, Selection
from desk.web.access import check_csrf
from gateway.http.problems import Problem
from shared.topic_names import BODY_BYTES_MOST

_BYTES_MAX = 32 * 1024 * 1024  # of a letter of 8 MiB, every byte may be three here
_SIGN_IN_BYTES_MAX = 16 * 1024  # the longest token has half of it
_FIELDS_MAX = 2_000

FormFields = Mapping[str, Sequence[str]]


async def form(request: Request) -> FormFields:
    """Problem where it is none of ours."""
    return await _form(request, _BYTES_MAX)


async def sign_in_form(request: Request) -> FormFields:
    """The form of somebody whom nobody knows yet."""
    return await _form(request, _SIGN_IN_BYTES_MAX)


async def payload(request: Request) -> bytes:
    """As a device would send it."""
    return await read_body(request, BODY_BYTES_MOST, "a payload")


async def read_body(request: Request, bytes_max: int, what: str) -> bytes:
    """As it comes, and no more of it than that."""
    too_large = Problem(413, "too_large", f"{what} has {bytes_max} bytes at most here")
    if int(request.headers.get("content-length", 0)) > bytes_max:
        raise too_large
    taken = bytearray()
    async for chunk in request.stream():
        taken += chunk
        if len(taken) > bytes_max:
            raise too_large
    return bytes(taken)


async def _form(request: Request, bytes_max: int) -> FormFields:
    body = await read_body(request, bytes_max, "a form")
    try:
        fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=_FIELDS_MAX)
    except ValueError:
        raise Problem(400, "no_form", "the body is no form") from None
    if any("\0" in text for name, texts in fields.items() for text in (name, *texts)):
        raise Problem(400, "nul_in_text", "a NUL character can be stored nowhere as text")
    check_csrf(request, first(fields, "csrf"))
    return fields


def first(fields: FormFields, name: str) -> str:
    return (fields.get(name) or [""])[0]


def selection_of(fields: FormFields) -> Selection:
    """Empty fields ask for nothing; 'any' status is none."""
    given = {name: first(fields, name).strip() for name in Selection._fields if name != "ids"}
    if given["status"] not in ("", "any", *STATUSES):
        raise Problem(400, "bad_filter", f"a status is one of {', '.join(STATUSES)} or any")
    chosen = {name: text for name, text in given.items() if text and text != "any"}
    return Selection(ids=tuple(fields.get("ids", ())), **chosen)


def bytes_of(fields: FormFields) -> bytes:
    """A text field's lines end in CRLF on their way, whatever they ended in before."""
    text = first(fields, "bytes")
    if first(fields, "form") != "base64":
        return text.replace("\r\n", "\n").encode()
    try:
        return b64decode("".join(text.split()), validate=True)
    except ValueError:
        raise Problem(400, "no_base64", "these bytes are not written in base64") from None
