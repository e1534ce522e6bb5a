"""URLs of search servers."""

import pytest

from shared.search.access import search_access
from shared.settings import JobSettings


def test_user_and_server_are_told_apart() -> None:
    access = search_access("https://head%40race@search.example:9200/path/", "secret")
    assert (access.url, access.user) == ("https://search.example:9200/path", "head@race")
    assert "secret" not in repr(access)


@pytest.mark.parametrize(
    ("url", "password", "said"),
    [
        ("search.example:9200", "", "names no server"),
        ("https://a:b@search.example", "c", "it has a password"),
        ("https://a@search.example", "", "go together"),
        ("https://search.example", "c", "go together"),
        ("https://search.example/?a=b", "", "more than a user"),
        ("http://a@search.example", "c", "unencrypted"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(url: str, password: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        JobSettings(search_url=url, search_password=password or None)  # type: ignore[arg-type]


def test_on_this_machine_a_password_needs_no_tls() -> None:
    settings = JobSettings(search_url="http://a@127.0.0.1:9200", search_password="b")  # type: ignore[arg-type]
    assert settings.search is not None and settings.search.password == "b"
    assert JobSettings().search is None


def test_settings_of_no_server_are_refused() -> None:
    with pytest.raises(ValueError, match="HEADRACE_SEARCH_URL is not set"):
        JobSettings(search_password="b")  # type: ignore[arg-type]
