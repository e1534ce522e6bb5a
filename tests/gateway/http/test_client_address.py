import pytest

from gateway.http.client_address import ClientAddress

PROXIES = "10.0.0.0/8,192.0.2.7,fd00::/8"


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "expected"),
    [
        ("203.0.113.9", [], "203.0.113.9"),
        ("203.0.113.9", ["198.51.100.1"], "203.0.113.9"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["198.51.100.1, 203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["198.51.100.1, 203.0.113.9, 192.0.2.7,10.2.3.4"], "203.0.113.9"),
        ("10.0.0.1", ["198.51.100.1", "203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["198.51.100.1, nonsense, 10.2.3.4"], "10.2.3.4"),
        ("10.0.0.1", ["198.51.100.1, \xff"], "10.0.0.1"),
        ("10.0.0.1", [""], "10.0.0.1"),
        ("10.0.0.1", ["10.0.0.2, 10.0.0.3"], "10.0.0.2"),
        ("::ffff:10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("::ffff:203.0.113.9", [], "203.0.113.9"),
        ("fd00::1", ["2001:db8:1:2:3:4:5:6"], "2001:db8:1:2::/64"),
        ("2001:db8:1:2::77", [], "2001:db8:1:2::/64"),
        ("", ["198.51.100.1"], ""),
    ],
)
def test_only_listed_proxies_say_where_a_request_comes_from(
    peer: str, forwarded_for: list[str], expected: str
) -> None:
    headers = [(b"host", b"gateway")]
    headers += [(b"x-forwarded-for", value.encode("latin-1")) for value in forwarded_for]
    assert ClientAddress(PROXIES).of(peer, headers) == expected


def test_without_a_list_nobody_is_believed() -> None:
    header = (b"x-forwarded-for", b"198.51.100.1")
    assert ClientAddress("none").of("10.0.0.1", [header]) == "10.0.0.1"
