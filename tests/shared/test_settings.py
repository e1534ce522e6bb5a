import pytest

from shared.flow import load_flow
from shared.settings import WRONG_SETTINGS, GatewaySettings, JobSettings, explain
from shared.topic_names import BODY_BYTES_MOST


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("HEADRACE_PARTITIONS", "zero", "HEADRACE_PARTITIONS='zero': Input should be a valid int"),
        ("HEADRACE_SPARK_CONF", "x", "HEADRACE_SPARK_CONF: it is not valid JSON"),
        ("HEADRACE_FLOW", "nowhere:FLOW", "HEADRACE_FLOW: there is no module 'nowhere'; "),
        ("HEADRACE_FLOW", "", "HEADRACE_FLOW: there is no module ''; "),
        ("HEADRACE_FLOW", "shared.flow:NONE", "HEADRACE_FLOW: 'shared.flow:NONE' is no"),
    ],
)
def test_a_wrong_setting_is_named_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, says: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(WRONG_SETTINGS) as raised:
        load_flow(JobSettings().flow)
    assert isinstance(raised.value, Exception)
    assert explain(raised.value).startswith(says)
    assert "http" not in explain(raised.value)


def test_a_body_that_could_not_be_parked_is_not_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_BODY_BYTES_MAX", str(BODY_BYTES_MOST))
    assert GatewaySettings().body_bytes_max == BODY_BYTES_MOST
    monkeypatch.setenv("HEADRACE_BODY_BYTES_MAX", str(8 * 1024 * 1024))
    with pytest.raises(WRONG_SETTINGS) as raised:
        GatewaySettings()
    assert isinstance(raised.value, Exception)
    assert explain(raised.value).startswith(
        f"HEADRACE_BODY_BYTES_MAX=8388608: {BODY_BYTES_MOST} is the most"
    )


def test_an_origin_is_written_as_a_browser_does(monkeypatch: pytest.MonkeyPatch) -> None:
    def origins(text: str) -> set[str]:
        monkeypatch.setenv("HEADRACE_CORS_ORIGINS", text)
        return {*GatewaySettings().page_origins}

    assert origins("none") == GatewaySettings(cors_origins="none").page_origins == set()
    named = "https://app.example.org,http://localhost:3000,http://[::1]:8080"
    assert origins(named) == {*named.split(",")}
    for wrong in (
        *("*", "null", "https://App.example", "https://app.example/", "app.example", ""),
        *("https://a.example,", "https://*.example", "https://a.example\r\nx: y", "file:///x"),
    ):
        with pytest.raises(WRONG_SETTINGS, match=r"such as https://app\.example\.org"):
            origins(wrong)
