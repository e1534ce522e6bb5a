"""Through the provider and back in a real browser, which has its own mind about cookies."""

from pathlib import Path

import pytest

from desk.app import create_app
from tests.desk import browser
from tests.desk.browser import ENTER, Browser
from tests.desk.sign_in.identity_provider import provider
from tests.desk.sign_in.test_sign_in_pages import settings
from tests.gateway.support import free_port, serving

pytestmark = [pytest.mark.stack, browser.needed("THE SIGN-IN IS")]


def test_an_operator_signs_in_by_the_keyboard_and_out_again(tmp_path: Path) -> None:
    port = free_port()
    with provider() as issuer, Browser(tmp_path / "chromium") as chromium:
        issuer.asks_first = True  # so the browser comes from a page of its site
        # to a browser another site than 127.0.0.1
        issuer.url = issuer.url.replace("127.0.0.1", "localhost")
        its = settings(tmp_path, issuer.url, f"http://127.0.0.1:{port}")
        with serving(create_app(its), its, port=port) as served:
            chromium.open(f"{served.url}/entities")
            chromium.until_it_says("Sign in with your organization")
            chromium.tab_to("main a", "Sign in with")
            chromium.press(ENTER)
            chromium.until_it_says("Is it you?")
            chromium.tab_to("a", "Yes")
            chromium.press(ENTER)
            # at once to the first page, which has no PostgreSQL here, and not back to the sign-in
            chromium.until_it_says("PostgreSQL: ")
            assert "ann@example.org (localhost u-1), may operate" in chromium.text()
            chromium.open(f"{served.url}/entities")
            assert chromium.run("return document.cookie") == ""
            chromium.tab_to("button", "Sign out")
            chromium.press(ENTER)
            chromium.until_it_says("An operator's token")
            chromium.open(f"{served.url}/entities")
            chromium.until_it_says("An operator's token")
