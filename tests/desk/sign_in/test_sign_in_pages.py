"""A browser's way through the provider and back into the desk."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from pydantic import SecretStr

from desk.app import create_app
from desk.web.access import COOKIE
from shared.settings import GatewaySettings, WrongSetting
from tests.desk import dom
from tests.desk.sign_in.identity_provider import CLIENT, SECRET, IdentityProvider, provider
from tests.gateway.support import free_port, serving


class Desk(NamedTuple):
    issuer: IdentityProvider
    url: str
    browser: httpx.Client

    def goes(self, path: str) -> httpx.Response:
        """Wherever it leads."""
        return self.browser.get(f"{self.url}{path}", follow_redirects=True)


def settings(folder: Path, issuer: str, desk: str, **others: Any) -> GatewaySettings:
    its = {
        "state_dir": folder,
        "auth": "token",
        "kafka_bootstrap": "127.0.0.1:1",
        "desk_url": desk,
        "oidc_issuer": issuer,
        "oidc_client_id": CLIENT,
        "oidc_client_secret": SecretStr(SECRET),
        "oidc_roles": "ops=operate,readers=look",
    }
    return GatewaySettings(**{**its, **others})


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    at = f"http://127.0.0.1:{free_port()}"
    with provider() as issuer:
        its = settings(tmp_path, issuer.url, at)
        with serving(create_app(its), its, port=int(at.rpartition(":")[2])), httpx.Client() as http:
            yield Desk(issuer, at, http)


def test_an_operator_signs_in_does_what_the_groups_allow_and_signs_out(desk: Desk) -> None:
    assert desk.browser.get(f"{desk.url}/jobs").headers["location"] == "/login"
    (way,) = (one for one in dom.read(desk.goes("/login").text).all("a")
              if one.attributes["href"] == "/login/begin")  # fmt: skip
    assert "organization" in way.text
    page = desk.goes("/login/begin")
    assert (page.status_code, page.headers["refresh"]) == (200, "0; url=/")
    assert "Signed in" in page.text
    secret = desk.browser.cookies[COOKIE]
    answer = desk.browser.post(f"{desk.url}/api/credentials", json={"device": "d"})
    assert (answer.status_code, answer.json()["code"]) == (403, "may_not")
    assert "an operator who may administer, and your credential may operate" in answer.text
    answer = desk.browser.post(f"{desk.url}/api/jobs/nobody/pause")
    assert (answer.status_code, answer.json()["code"]) == (404, "no_job")
    bearer = httpx.get(f"{desk.url}/api/jobs", headers={"authorization": f"Bearer {secret}"})
    # a session is a browser's, and as a token it is none; nobody's is known here yet
    assert (bearer.status_code, bearer.json()["code"]) == (503, "credentials_unknown")
    beside = {"authorization": "Basic eDp5"}  # of a proxy before the desk
    assert desk.browser.get(f"{desk.url}/entities", headers=beside).status_code == 200

    form = next(one for one in dom.read(desk.goes("/entities").text).all("form")
                if one.attributes["action"] == "/logout")  # fmt: skip
    assert "ann@example.org (127.0.0.1 u-1), may operate" in form.text
    desk.browser.post(f"{desk.url}/logout", data=form.fields())
    desk.browser.cookies.set(COOKIE, secret)  # whoever has kept it
    assert desk.browser.get(f"{desk.url}/api/jobs").status_code == 401
    assert desk.browser.get(f"{desk.url}/jobs").headers["location"] == "/login"


def test_who_may_look_changes_nothing(desk: Desk) -> None:
    desk.issuer.claims["groups"] = ["readers"]
    desk.goes("/login/begin")
    assert desk.goes("/entities").status_code == 200
    for path in ("/api/jobs/fold/pause", "/api/discards", "/api/redrives", "/api/nobody/knows"):
        answer = desk.browser.post(f"{desk.url}{path}", json={})
        assert (answer.status_code, answer.json()["code"]) == (403, "may_not"), path
    page = desk.browser.post(f"{desk.url}/discard", data={"all": "yes"})
    assert page.status_code == 403
    assert "needs an operator who may operate" in dom.read(page.text).text


@pytest.mark.parametrize("groups", [["others"], []])
def test_nobody_is_signed_in_who_may_not_come_in(desk: Desk, groups: list[str]) -> None:
    desk.issuer.claims["groups"] = groups
    page = desk.goes("/login/begin")
    assert page.status_code == 403
    assert "Nobody is signed in: ann@example.org (127.0.0.1 u-1) is in none" in page.text
    assert COOKIE not in desk.browser.cookies


def test_a_way_back_that_nobody_began_is_refused(desk: Desk) -> None:
    page = desk.goes("/login/done?state=a&code=b")
    assert (page.status_code, "begin again" in page.text) == (403, True)
    away = desk.browser.get(f"{desk.url}/login/begin").headers["location"]
    back = httpx.get(away).headers["location"]
    assert httpx.get(back).status_code == 403  # another browser
    cookies = {"headrace-desk-sign-in": "a.b.c.d"}  # which this desk has not made
    asked = len(desk.issuer.asked)
    made_up = httpx.get(f"{desk.url}/login/done?state=a&code=b", cookies=cookies)
    assert (made_up.status_code, len(desk.issuer.asked)) == (403, asked)
    later = desk.browser.get(f"{desk.url}/login/begin").headers["location"]  # in another tab
    assert desk.browser.get(back).status_code == 403
    back = httpx.get(later).headers["location"]
    assert desk.browser.get(back).status_code == 200
    assert desk.browser.get(back).status_code == 403  # once


def test_cookies_are_for_https_alone_where_the_desk_has_it(tmp_path: Path) -> None:
    with provider() as issuer:
        its = settings(tmp_path, issuer.url, "https://desk.example.org")
        with serving(create_app(its), its) as served:
            answer = httpx.get(f"{served.url}/login/begin")
    asked = parse_qs(urlsplit(answer.headers["location"]).query)
    assert asked["redirect_uri"] == ["https://desk.example.org/login/done"]
    cookie = answer.headers["set-cookie"].lower()
    for needed in ("; secure", "; httponly", "samesite=lax", "path=/login"):
        assert needed in cookie


def test_a_provider_that_is_away_is_said(tmp_path: Path) -> None:
    its = settings(tmp_path, "http://127.0.0.1:1", "http://127.0.0.1:8081")
    with serving(create_app(its), its) as served:
        answer = httpx.get(f"{served.url}/login/begin")
    assert answer.status_code == 503
    assert "Nobody is signed in: 127.0.0.1 does not answer" in answer.text


def test_a_secret_that_cannot_be_read_is_the_desks_matter_alone(tmp_path: Path) -> None:
    gone = {"oidc_client_secret": None, "oidc_client_secret_file": tmp_path / "gone"}
    its = settings(tmp_path, "https://issuer.example", "https://desk.example.org", **gone)
    with pytest.raises(WrongSetting, match="HEADRACE_OIDC_CLIENT_SECRET_FILE"):
        create_app(its)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"auth": "none"}, "HEADRACE_AUTH"),
        ({"oidc_issuer": None}, "who knows the operators"),
        ({"oidc_issuer": "http://issuer.example"}, "https"),
        ({"oidc_client_id": None}, "HEADRACE_OIDC_CLIENT_ID"),
        ({"desk_url": None}, "HEADRACE_DESK_URL"),
        ({"desk_url": "http://desk.example.org"}, "https"),
        ({"oidc_roles": "none"}, "lets nobody in"),
        ({"oidc_roles": "ops=rule"}, "GROUP=look"),
        ({"oidc_roles": "ops"}, "GROUP=look"),
        ({"oidc_scopes": "email"}, "openid"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(
    tmp_path: Path, wrong: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        settings(tmp_path, "https://issuer.example", "https://desk.example.org", **wrong)
