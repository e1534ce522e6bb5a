"""By the vector of Standard Webhooks, and by the lines that the docs give to receivers."""

import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from shared.forwarding.signature import is_signed, key_of, new_secret, signed

DOCS = Path(__file__).parents[3] / "docs" / "webhooks.md"
BODY = b'{"specversion":"1.0","id":"e-1"}'


def lines_in(language: str) -> str:
    (code,) = re.findall(rf"```{language}\n(.*?)```", DOCS.read_text(), re.S)
    assert len(code.strip().splitlines()) <= 16
    return str(code)


def receivers_lines() -> Any:
    code = lines_in("python")
    found: dict[str, Any] = {}
    exec(code, found)
    return found["verified"]


def test_the_signature_is_that_of_the_published_vector() -> None:
    """From the libraries of Standard Webhooks."""
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    headers = signed(
        "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}', [key_of(secret)]
    )
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_receiver_with_either_secret_takes_what_is_signed_with_both() -> None:
    verified, now_s = receivers_lines(), int(time.time())
    old, new = new_secret(), new_secret()
    headers = signed("e-1", now_s, BODY, [key_of(new), key_of(old)])
    assert verified(old, headers, BODY)
    assert verified(new, headers, BODY)
    assert not verified(new_secret(), headers, BODY)


@pytest.mark.parametrize("age_s", (-301, 301))
def test_a_receiver_refuses_what_is_old_or_of_the_future(age_s: int) -> None:
    secret = new_secret()
    headers = signed("e-1", int(time.time()) - age_s, BODY, [key_of(secret)])
    assert not receivers_lines()(secret, headers, BODY)


@pytest.mark.parametrize("name", ("webhook-id", "webhook-timestamp", "webhook-signature", ""))
def test_a_receiver_refuses_whatever_was_changed(name: str) -> None:
    secret, body = new_secret(), BODY
    headers = signed("e-1", int(time.time()), BODY, [key_of(secret)])
    if name:
        last = headers[name][-2]
        headers[name] = headers[name][:-2] + ("0" if last != "0" else "1") + headers[name][-1]
    else:
        body += b" "
    assert not receivers_lines()(secret, headers, body)


@pytest.mark.parametrize("secret", ("", "whsec_", "whsec_AAAA", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))
def test_what_is_no_secret_is_refused_and_not_shown(secret: str) -> None:
    with pytest.raises(ValueError, match="a secret is whsec_") as error:
        key_of(secret)
    assert not secret.removeprefix("whsec_") or secret not in str(error.value)


def test_new_secrets_differ() -> None:
    assert len({new_secret() for _ in range(100)}) == 100


def cases() -> list[tuple[str, dict[str, str], str, bool]]:
    """Secret, headers, body, and whether a receiver may take it."""
    now_s, secret, old = int(time.time()), new_secret(), new_secret()
    good = signed("e-1", now_s, BODY, [key_of(secret), key_of(old)])
    text = BODY.decode()
    found = [(one, good, text, True) for one in (secret, old)]
    found.append((new_secret(), good, text, False))
    found.append((secret, good, text + " ", False))
    found += [
        (secret, {**good, name: other}, text, False)
        for name, other in (
            ("webhook-id", "e-2"),
            ("webhook-timestamp", str(now_s - 1)),
            ("webhook-timestamp", "soon"),
            ("webhook-signature", "v1,AAAA"),
            ("webhook-signature", ""),
        )
    ]
    for age_s in (-900, 900, -200, 100):  # to compile takes its time
        headers = signed("e-1", now_s - age_s, BODY, [key_of(secret)])
        found.append((secret, headers, text, abs(age_s) <= 300))
    return found


def test_our_own_receiver_takes_what_the_others_take() -> None:
    for secret, headers, body, may_be_taken in cases():
        is_taken = is_signed(headers, body.encode(), key_of(secret), time.time())
        assert is_taken is may_be_taken, headers
    key = key_of(new_secret())
    headers = signed("e-1", 1_000, BODY, [key])
    for at_s, may_be_taken in ((1_300, True), (1_301, False), (699, False)):
        assert is_signed(headers, BODY, key, at_s) is may_be_taken
    long = signed("e-1", int("9" * 4_000), BODY, [key])
    assert not is_signed(long, BODY, key, 1_000)
    assert not is_signed({}, BODY, key, 1_000)


_MAIN = {
    "js": """
import { readFileSync } from "node:fs";
const cases = JSON.parse(readFileSync(0, "utf8"));
const said = cases.map(([key, headers, body]) => verified(key, headers, Buffer.from(body)));
console.log(JSON.stringify(said));
""",
    "go": """
func main() {
	var cases [][]any
	json.NewDecoder(os.Stdin).Decode(&cases)
	said := []bool{}
	for _, one := range cases {
		headers := http.Header{}
		for name, value := range one[1].(map[string]any) {
			headers.Set(name, value.(string))
		}
		said = append(said, verified(one[0].(string), headers, []byte(one[2].(string))))
	}
	json.NewEncoder(os.Stdout).Encode(said)
}
""",
}
_GO = "crypto/hmac crypto/sha256 encoding/base64 encoding/json fmt net/http os strconv strings time"


@pytest.mark.slow
@pytest.mark.parametrize("language", ["js", "go"])
def test_the_lines_for_other_languages_judge_the_same(language: str, tmp_path: Path) -> None:
    program = shutil.which({"js": "node"}.get(language, language))
    if program is None:
        pytest.skip(f"there is no {language}")
    code = lines_in(language) + _MAIN[language]
    if language == "go":
        code = "package main\n" + "".join(f'import "{one}"\n' for one in _GO.split()) + code
    source = tmp_path / {"js": "main.mjs", "go": "main.go"}[language]
    source.write_text(code)
    told = cases()
    ended = subprocess.run(
        [program, "run", source] if language == "go" else [program, source],
        input=json.dumps([one[:3] for one in told]),
        capture_output=True,
        text=True,
        timeout=500,
        env={**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": ""},
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == [one[3] for one in told]
