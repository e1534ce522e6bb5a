"""Links from the documents into the code lead to pages of the site that show it.

The documents link to files and folders of the checkout, as a code host shows them. Sphinx would
offer such a file as a download, and call a link to a folder broken.
"""

import posixpath
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

LANGUAGES = {".py": "python", ".json": "json"}


def setup(app: Sphinx) -> None:
    app.connect("builder-inited", forget)
    app.connect("doctree-read", link_to_pages, priority=1)  # before the downloads are collected
    app.connect("html-collect-pages", code_pages)


def forget(app: Sphinx) -> None:
    app.env.linked_code = set()


def link_to_pages(app: Sphinx, document: nodes.document) -> None:
    page = app.env.docname
    for link in list(document.findall(_is_myst_link)):
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), link["reftarget"]))
        target = app.srcdir / path
        if isinstance(link, addnodes.download_reference) or target.is_dir():
            app.env.linked_code.add(path)
            uri = app.builder.get_relative_uri(page, _name(path))
            link.replace_self(nodes.reference("", "", *link.children, refuri=uri, internal=True))


def _is_myst_link(node: nodes.Node) -> bool:
    kinds = (addnodes.download_reference, addnodes.pending_xref)
    return isinstance(node, kinds) and node["reftype"] == "myst" and not node["refdomain"]


def code_pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    for path in sorted(app.env.linked_code):
        target = app.srcdir / path
        if target.is_dir():
            files = sorted(file.name for file in target.iterdir() if file.is_file())
            beside = posixpath.basename(path)
            rows = [f'<li><a href="{beside}/{n}.html">{escape(n)}</a></li>' for n in files]
            yield _page(path, f"<ul>{''.join(rows)}</ul>")
            for name in files:
                yield _page(f"{path}/{name}", _shown(app, target / name))
        else:
            yield _page(path, _shown(app, target))


def _name(path: str) -> str:
    return f"code/{path}"


def _shown(app: Sphinx, file: Path) -> str:
    language = LANGUAGES.get(file.suffix, "text")
    return app.builder.highlighter.highlight_block(file.read_text(), language)


def _page(path: str, body: str) -> tuple[str, dict[str, Any], str]:
    return _name(path), {"title": path, "body": f"<h1>{escape(path)}</h1>{body}"}, "page.html"
