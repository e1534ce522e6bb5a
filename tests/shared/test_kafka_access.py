"""One description, told to three libraries; what does not go together is refused by name."""

import re
import ssl
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from cryptography.hazmat.primitives import serialization

from shared.settings import WRONG_SETTINGS, Settings, explain
from tests.certificates import Authority, Issued

PREFIX = "HEADRACE_KAFKA_"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def issued(authority: Authority) -> Issued:
    return authority.issue("CN=headrace-fold")


def refusal(monkeypatch: pytest.MonkeyPatch, **given: object) -> str:
    _set(monkeypatch, **given)
    with pytest.raises(WRONG_SETTINGS) as raised:
        Settings()
    assert isinstance(raised.value, Exception)
    assert "hush" not in str(raised.value)  # as a process that explains nothing would show it
    return explain(raised.value)


def _set(monkeypatch: pytest.MonkeyPatch, **given: object) -> None:
    for name, value in given.items():
        monkeypatch.setenv(PREFIX + name, str(value))


def test_without_settings_nothing_is_secret_and_nobody_logs_in() -> None:
    kafka = Settings().kafka
    assert kafka.for_aiokafka()["security_protocol"] == "PLAINTEXT"
    assert set(kafka.for_librdkafka()) == {"bootstrap.servers", "security.protocol"}


def test_a_reader_neither_commits_by_itself_nor_rests_once_its_queue_is_full() -> None:
    reading = Settings().kafka.for_reading("test")
    Consumer({**reading, "log_level": 0}).close()  # each of its names is known
    assert (reading["group.id"], reading["enable.auto.commit"]) == ("test", False)
    assert reading["fetch.queue.backoff.ms"] <= 50  # of itself, a second


def test_a_login_is_told_in_the_words_of_each_library(monkeypatch: pytest.MonkeyPatch) -> None:
    password = 'a "quoted" \\ one'
    _set(monkeypatch, SECURITY="sasl_ssl", SASL_USERNAME="fold", SASL_PASSWORD=password)
    settings = Settings()
    assert settings.kafka.for_librdkafka() == {
        "bootstrap.servers": "127.0.0.1:9092",
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "fold",
        "sasl.password": password,
    }
    told = settings.kafka.for_aiokafka()
    assert told.pop("ssl_context").verify_mode is ssl.CERT_REQUIRED
    assert told["sasl_plain_password"] == password
    for shown in (str(settings), repr(settings), repr(settings.kafka)):
        assert "quoted" not in shown


def test_a_password_file_ends_with_its_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "password").write_text("secret\n")
    _set(monkeypatch, SECURITY="sasl_plaintext", SASL_USERNAME="fold")
    _set(monkeypatch, SASL_PASSWORD_FILE=tmp_path / "password")
    assert Settings().kafka.password == "secret"


def test_a_certificate_of_ones_own_is_told_to_each_library(
    monkeypatch: pytest.MonkeyPatch, authority: Authority, issued: Issued
) -> None:
    _set(monkeypatch, SECURITY="ssl", CA_FILE=authority.file)
    _set(monkeypatch, CERT_FILE=issued.cert_file, KEY_FILE=issued.key_file)
    kafka = Settings().kafka
    Consumer({**kafka.for_librdkafka(), "group.id": "test", "log_level": 0}).close()
    (trusted,) = kafka.for_aiokafka()["ssl_context"].get_ca_certs()
    assert trusted["subject"] == ((("commonName", "test CA"),),)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"SECURITY": "tls"}, "HEADRACE_KAFKA_SECURITY='tls': Input should be 'plaintext', 'ssl'"),
        ({"SECURITY": "sasl_ssl"}, "HEADRACE_KAFKA_SASL_USERNAME is missing"),
        (
            {"SECURITY": "sasl_ssl", "SASL_USERNAME": "fold"},
            "HEADRACE_KAFKA_SASL_PASSWORD or HEADRACE_KAFKA_SASL_PASSWORD_FILE: ",
        ),
        (
            {"SECURITY": "sasl_ssl", "SASL_USERNAME": "fold", "SASL_PASSWORD_FILE": "nowhere"},
            "HEADRACE_KAFKA_SASL_PASSWORD_FILE='nowhere' cannot be read",
        ),
        ({"SASL_USERNAME": "fold"}, "HEADRACE_KAFKA_SASL_USERNAME is set, but HEADRACE_KAFKA_SEC"),
        ({"SASL_PASSWORD": "hush"}, "HEADRACE_KAFKA_SASL_PASSWORD is set, but HEADRACE_KAFKA_SEC"),
        ({"CA_FILE": "ca.pem"}, "HEADRACE_KAFKA_CA_FILE is set, but HEADRACE_KAFKA_SECURITY=plain"),
        (
            {"SECURITY": "ssl", "CA_FILE": "nowhere"},
            "HEADRACE_KAFKA_CA_FILE='nowhere' cannot be read",
        ),
        (
            {"SECURITY": "ssl", "CERT_FILE": "one"},
            "HEADRACE_KAFKA_CERT_FILE and HEADRACE_KAFKA_KEY_FILE: give both",
        ),
    ],
)
def test_what_does_not_go_together_is_one_line_with_a_name(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], says: str
) -> None:
    said = refusal(monkeypatch, **given)
    assert said.startswith(says)
    assert "\n" not in said
    assert "hush" not in said


def test_a_key_of_another_certificate_or_a_key_that_java_cannot_read_is_refused(
    monkeypatch: pytest.MonkeyPatch, authority: Authority, issued: Issued, tmp_path: Path
) -> None:
    other = authority.issue("CN=other")
    files = {"CA_FILE": authority.file, "CERT_FILE": issued.cert_file}
    said = refusal(monkeypatch, SECURITY="ssl", **files, KEY_FILE=other.key_file)
    assert "HEADRACE_KAFKA_KEY_FILE: TLS cannot use them" in said

    key = serialization.load_pem_private_key(issued.key_file.read_bytes(), None)
    sealed = serialization.BestAvailableEncryption(b"hush")
    for form, sealing in (
        (serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()),
        (serialization.PrivateFormat.PKCS8, sealed),
    ):
        file = tmp_path / "unfit.key"
        file.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, sealing))
        said = refusal(monkeypatch, KEY_FILE=file)
        assert said.startswith(f"HEADRACE_KAFKA_KEY_FILE='{file}' is no unencrypted PKCS #8 key")


def test_a_file_without_a_certificate_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "empty.pem").write_text("")
    said = refusal(monkeypatch, SECURITY="ssl", CA_FILE=tmp_path / "empty.pem")
    assert "HEADRACE_KAFKA_CA_FILE" in said


def test_every_client_of_the_product_gets_its_address_from_there() -> None:
    root = Path(__file__).parents[2]
    own_words = {
        str(path.relative_to(root))
        for package in ("clients", "gateway", "stream_jobs", "local_stack", "shared")
        for path in (root / package).rglob("*.py")
        if re.search(r"bootstrap[._]servers", path.read_text())
    }
    assert own_words == {"shared/kafka_access.py"}
