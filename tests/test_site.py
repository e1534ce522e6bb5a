"""The site of the documents: complete, without a link that leads nowhere, and nothing fetched."""

import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from local_stack.contracts.flow_picture import PICTURE
from local_stack.machine.paths import CHECKOUT
from local_stack.verbs.site import sphinx

pytestmark = pytest.mark.slow

DOCUMENTS = sorted(
    path.relative_to(CHECKOUT)
    for pattern in ("*.md", "docs/*.md", "docs/decisions/*.md", "benchmarks/*.md", "tests/*/*.md")
    for path in CHECKOUT.glob(pattern)
)
FROM_ELSEWHERE = re.compile(r"(https?:)?//")


class Page(HTMLParser):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []  # by the browser, without being asked
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        has = {name: value or "" for name, value in attrs}
        self.anchors |= {has[name] for name in ("id", "name") if name in has}
        if "href" in has:
            (self.loaded if tag == "link" else self.links).append(has["href"])
        if "src" in has:
            self.loaded.append(has["src"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "local_stack", "site", "--out", str(folder)]
    ran = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html")}


def test_every_document_is_a_page(pages: dict[Path, Page], site: Path) -> None:
    assert len(DOCUMENTS) > 50
    assert [name for name in DOCUMENTS if site / name.with_suffix(".html") not in pages] == []


def test_every_link_of_every_page_leads_somewhere(pages: dict[Path, Page]) -> None:
    assert [broken for page in pages.values() for broken in _broken(page, pages)] == []


def _broken(page: Page, pages: dict[Path, Page]) -> Iterator[str]:
    for link in [*page.links, *page.loaded]:
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = unquote(link).partition("#")
        target = (page.path.parent / name.partition("?")[0]).resolve() if name else page.path
        if not target.is_file() or (anchor and anchor not in pages[target].anchors):
            yield f"{page.path}: {link}"


def test_a_link_into_the_code_shows_the_code(pages: dict[Path, Page], site: Path) -> None:
    assert "code/gateway/ingest/accept.py.html" in pages[site / "ARCHITECTURE.html"].links
    assert "Reception" in (site / "code" / "gateway" / "ingest" / "accept.py.html").read_text()
    assert "openapi.json.html" in (site / "code" / "contracts.html").read_text()


def test_the_picture_of_the_flow_is_shown(pages: dict[Path, Page], site: Path) -> None:
    page = pages[site / "docs" / "README.html"]
    (shown,) = [name for name in page.loaded if name.endswith("flow.svg")]
    assert (page.path.parent / shown).read_text() == (CHECKOUT / PICTURE).read_text()


def test_a_reader_s_browser_fetches_nothing_from_elsewhere(
    pages: dict[Path, Page], site: Path
) -> None:
    loaded = {name for page in pages.values() for name in page.loaded}
    assert {name for name in loaded if FROM_ELSEWHERE.match(name)} == set()
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert not re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", styles)


@pytest.mark.parametrize(
    "text",
    [
        "[gone](gone.md)",
        "[gone](code.py/gone)",
        "[gone](#gone)",
        "[gone](page.md#gone)",
        "![gone](gone.png)",
    ],
)
def test_what_leads_nowhere_fails_the_build(text: str, tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("pass\n")
    (tmp_path / "page.md").write_text(f"# Page\n\n[code](code.py) {text}\n")
    alone = ["-D", "root_doc=page", "-D", "include_patterns=page.md"]

    def build() -> "subprocess.CompletedProcess[str]":
        command = sphinx(tmp_path, tmp_path / "made", *alone)
        return subprocess.run(command, capture_output=True, text=True, check=False)

    failed = build()
    assert failed.returncode != 0
    assert "gone" in failed.stderr
    (tmp_path / "page.md").write_text("# Page\n\n[code](code.py)\n")
    assert build().returncode == 0
    assert (tmp_path / "made" / "code" / "code.py.html").exists()
