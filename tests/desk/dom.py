"""A page as a browser's tree would have it, by the standard library's parser."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = ("input", "link", "meta", "br")


@dataclass
class Element:
    name: str
    attributes: dict[str, str | None]
    parent: "Element | None" = None
    children: list["Element | str"] = field(default_factory=list)

    def all(self, *names: str) -> Iterator["Element"]:
        for child in self.children:
            if isinstance(child, Element):
                if not names or child.name in names:
                    yield child
                yield from child.all(*names)

    @property
    def text(self) -> str:
        return "".join(c if isinstance(c, str) else c.text for c in self.children)

    def within(self, name: str) -> bool:
        return self.parent is not None and (self.parent.name == name or self.parent.within(name))

    def fields(self) -> dict[str, str]:
        """Of a form, as a browser would send it with its first button."""
        sent = {}
        for one in self.all("input", "textarea", "select"):
            kind, name = one.attributes.get("type"), one.attributes.get("name") or ""
            if one.name == "select":
                chosen = [o for o in one.all("option") if "selected" in o.attributes]
                sent[name] = (chosen or [*one.all("option")])[0].attributes["value"] or ""
            elif one.name == "textarea":
                sent[name] = one.text.removeprefix("\n")
            elif kind != "checkbox":
                sent[name] = one.attributes.get("value") or ""
        return sent


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = self.now = Element("", {})

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs), self.now)
        self.now.children.append(element)
        if tag not in _VOID:
            self.now = element

    def handle_endtag(self, tag: str) -> None:
        assert self.now.name == tag, f"</{tag}> ends <{self.now.name}>"
        assert self.now.parent
        self.now = self.now.parent

    def handle_data(self, data: str) -> None:
        self.now.children.append(data)


def read(page: bytes | str) -> Element:
    parser = _Parser()
    parser.feed(page if isinstance(page, str) else page.decode())
    parser.close()
    assert parser.now is parser.root, f"<{parser.now.name}> does not end"
    return parser.root
