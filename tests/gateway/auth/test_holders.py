from gateway.auth.caller import ANYONE, Caller
from gateway.auth.holders import Holders
from gateway.http.message import Request


def test_a_holder_is_a_credential_s_owner_and_where_nobody_is_asked_an_address() -> None:
    headers = [(b"x-forwarded-for", b"1.2.3.4")]
    request = Request("POST", b"/v1/telemetry/d", headers, dict(headers), "10.0.0.1")
    holders, proxied = Holders("none"), Holders("10.0.0.0/8")
    assert holders.of(ANYONE, request) == "10.0.0.1"
    assert proxied.of(ANYONE, request) == "1.2.3.4"
    one, other = (Caller("device", tenant, "d") for tenant in ("acme", "beta"))
    assert holders.of(one, request) == holders.of(one, request._replace(address="a"))
    assert holders.of(one, request) != holders.of(other, request)
