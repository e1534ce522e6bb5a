"""HTML from values: whatever is not an element made here is text, and stands escaped. So nothing
that a device has sent can ever be read as HTML."""

from html import escape

_VOID = frozenset({"input", "link", "meta"})


class Html(str):
    """An element; only `tag` and `page` make it."""

    __slots__ = ()


def tag(element: str, /, *children: object, **attributes: object) -> Html:
    """`class_` is class, `aria_label` is aria-label; None and False leave an attribute out."""
    given = "".join(_attribute(key, value) for key, value in attributes.items())
    if element in _VOID:
        return Html(f"<{element}{given}>")
    return Html(f"<{element}{given}>{''.join(map(_child, children))}</{element}>")


def page(*children: object) -> bytes:
    return f"<!doctype html>{tag('html', *children, lang='en')}".encode(errors="backslashreplace")


def _child(child: object) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return child
    if isinstance(child, list | tuple):
        return "".join(map(_child, child))
    return escape(str(child))


def _attribute(key: str, value: object) -> str:
    name = key.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'
