import json
from typing import Any

import pytest

from gateway.auth.caller import Caller
from gateway.auth.credentials import Credential, from_record, to_record

CALLERS = [
    Caller("device", "", "device-0001"),
    Caller("device", "acme", "device-0001"),
    Caller("gateway", "acme"),
    Caller("operator"),
    Caller("operator", all_tenants=True),
    Caller("operator", "acme"),
    Caller("operator", may="look"),
    Caller("operator", "acme", may="operate"),
]
GOOD = {"kind": "token", "role": "device", "tenant": "", "device": "d", "proof": "00", "made_ms": 1}


@pytest.mark.parametrize("caller", CALLERS, ids=str)
@pytest.mark.parametrize("not_after_ms", [None, 5])
def test_a_credential_is_read_as_it_was_written(caller: Caller, not_after_ms: int | None) -> None:
    credential = Credential(caller, "token", b"\x00\xff", not_after_ms, 7)
    assert from_record(to_record(credential)) == credential


def test_the_sample_of_the_next_test_is_good() -> None:
    assert from_record(json.dumps(GOOD).encode())


WRONG: list[dict[str, Any]] = [
    {"kind": "none"},
    {"kind": None},
    {"role": "anyone"},
    {"role": "gateway"},  # with a device
    {"role": "operator", "device": None, "tenant": "acme", "all_tenants": True},
    {"role": "gateway", "device": None, "all_tenants": True},
    {"role": "operator", "device": None, "all_tenants": 1},
    {"role": "operator", "device": None, "all_tenants": "no"},
    {"role": "operator", "device": None, "may": "rule"},
    {"role": "operator", "device": None, "may": None},
    {"role": "operator", "device": None, "may": ["look"]},
    {"may": "look"},  # a device's
    {"device": None},
    {"device": "acme/d"},
    {"device": "-"},
    {"device": ["d"]},
    {"tenant": None},
    {"tenant": "acme/other"},
    {"tenant": "Acme"},
    {"tenant": "acme\n"},
    {"tenant": ["acme"]},
    {"proof": "xyz"},
    {"proof": None},
    {"not_after_ms": "2027"},
    {"not_after_ms": 1 << 70},
    {"made_ms": None},
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_what_is_not_understood_in_full_lets_nobody_in(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        from_record(json.dumps({**GOOD, **wrong}).encode())


@pytest.mark.parametrize("bytes_", [b"", b"\xff", b"[]", b"null", b'"x"', b"{}"])
def test_nor_does_what_is_no_credential_at_all(bytes_: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        from_record(bytes_)
