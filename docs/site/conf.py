"""The documents as a site. Sphinx reads them where they are; nothing is fetched.

Build it with `./headrace site`. NAVIGATION is the only thing to change for a new page.
"""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "Headrace"
extensions = ["myst_parser", "code_pages"]
root_doc = "README"
include_patterns = [
    *("*.md", "docs/*.md", "docs/decisions/*.md"),
    *("benchmarks/README.md", "tests/*/README.md"),
]
exclude_patterns = [".*"]
highlight_language = "text"
myst_heading_anchors = 6  # as code hosts make them

html_theme = "furo"
html_title = project
html_extra_path = ["index.html"]
html_static_path = ["wide.css"]
html_css_files = ["wide.css"]
html_copy_source = False
html_use_index = False
html_show_copyright = False

DECISIONS = "docs/decisions/README"
# by reader; a page that is missing here, or there and no file, fails the build
NAVIGATION = {
    "": ["All pages, and the flow <docs/README>"],
    "You build devices": ["docs/devices"],
    "You consume events": ["docs/consumers", "docs/webhooks"],
    "You run it": [
        *("docs/operations", "docs/desk", "docs/runbook", "docs/configuration", "docs/security"),
    ],
    "You write a domain": ["docs/your-own-domain"],
    "You change Headrace": [
        *("CONTRIBUTING", "ARCHITECTURE", "docs/glossary", "docs/where-files-went"),
        *("benchmarks/README", "tests/faults/README", "tests/desk/README"),
    ],
    "Decisions and changes": [DECISIONS, "CHANGELOG"],
}


def setup(app: "Sphinx") -> None:
    app.connect("source-read", add_navigation)


def add_navigation(_app: "Sphinx", page: str, text: list[str]) -> None:
    """Code hosts would show it as a block of code, so it is not in the files."""
    if page == root_doc:
        text[0] += "".join(_tree(caption, pages) for caption, pages in NAVIGATION.items())
    elif page == DECISIONS:
        linked = re.findall(r"^- \[.+?\]\(([\w-]+)\.md\)", text[0], re.MULTILINE)
        text[0] += _tree("", linked)


def _tree(caption: str, pages: list[str]) -> str:
    options = [":hidden:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(["", "", "```{toctree}", *options, "", *pages, "```", ""])
