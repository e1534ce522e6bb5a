"""A payload's bytes and headers -> what an enrichment is given."""

from collections.abc import Sequence
from typing import Any

from shared.formats.compression import decompressed
from shared.formats.format import Format, UndecodableError


def decoded(
    formats: Sequence[Format],
    value: bytes,
    media_type: bytes | None,
    encodings: bytes | None,
    bytes_max: int,
) -> tuple[Any, Format]:
    """And the format that it had. UndecodableError says what is wrong with it, and where."""
    if encodings:
        value = decompressed(value, encodings.decode(errors="backslashreplace"), bytes_max)
        if not value:
            raise UndecodableError("empty", "there is nothing in it when it is decompressed")
    form = formats[0] if len(formats) == 1 else _chosen(formats, media_type)
    return form.decode(value), form


def _chosen(formats: Sequence[Format], media_type: bytes | None) -> Format:
    """The format of this content type; the first one where the sender gave none. One format alone
    is never asked for its name: devices give wrong ones, and curl gives a form's to everything."""
    if not media_type:
        return formats[0]
    name = media_type.decode(errors="backslashreplace").partition(";")[0].strip().lower()
    for form in formats:
        if name in form.media_types:
            return form
    known = ", ".join(name for form in formats for name in form.media_types)
    raise UndecodableError("unknown_content_type", f"{name[:100]!r} is not one of {known}")


def refuse_bad_formats(owner: str, formats: Sequence[Format]) -> None:
    if not formats:
        raise ValueError(f"{owner} has no format: formats=(Json(),) is what it has by default")
    names = [name for form in formats for name in form.media_types]
    for form in formats:
        if isinstance(form, type) or not callable(getattr(form, "decode", None)):
            raise ValueError(f"{owner}: {form!r} is no format; write one as Json()")
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{owner}: two formats have the content type {name!r}")
