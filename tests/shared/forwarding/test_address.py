"""The corpus of addresses that no request may reach, in all the forms that hide them."""

import pytest

from shared.forwarding.address import why_not_address, why_not_url

INSIDE = (
    *("127.0.0.1", "127.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.0.1"),
    *(
        "169.254.169.254",
        "169.254.170.2",
        "100.64.0.1",
        "100.100.100.200",
        "192.0.0.192",
        "192.88.99.1",
    ),
    *("0.0.0.0", "0.1.2.3", "255.255.255.255", "224.0.0.1", "239.1.1.1", "240.0.0.1"),
    *("192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1"),
    *("::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1"),
    *("ff0e::1", "2001:db8::1", "100::1", "2001::1"),
    *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:10.0.0.1", "::ffff:7f00:1"),
    *("::127.0.0.1", "::a9fe:a9fe", "::ffff:0:127.0.0.1"),
    *("64:ff9b::a9fe:a9fe", "64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b:1::1"),
    *("2002:7f00:1::1", "2002:a9fe:a9fe::", "2002:a00:1::", "2002:c0a8:1::1"),
    "192.88.99.1",  # relays of 6to4
    "2001:0:7f00:1::80ff:fffe",  # Teredo: of a server in this network
)
OUTSIDE = (
    *("8.8.8.8", "1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "2001:4860:4860::8888"),
    *("::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1"),
)
HIDDEN = (
    *("2130706433", "017700000001", "0x7f000001", "0x7f.1", "127.1", "127.0.1", "0177.0.0.1"),
    *("0x7f.0x0.0x0.0x1", "3232235521", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376"),
    *("127.0.0.1.", "0", "00", "4294967295", "4294967296"),
    *("localhost", "LOCALHOST", "localhost.", "api.localhost", "printer.local", "x.internal"),
    *("metadata.google.internal", "[::ffff:127.0.0.1]", "[::]", "[fe80::1%25eth0]"),
)


@pytest.mark.parametrize("address", INSIDE)
def test_an_address_of_this_network_is_refused(address: str) -> None:
    assert why_not_address(address)


@pytest.mark.parametrize("address", OUTSIDE)
def test_an_address_of_the_open_internet_is_taken(address: str) -> None:
    assert why_not_address(address) is None


@pytest.mark.parametrize("host", HIDDEN)
def test_a_host_that_hides_its_address_is_refused_before_it_is_looked_up(host: str) -> None:
    assert why_not_url(f"https://{host}/in")


@pytest.mark.parametrize(
    "url",
    (
        *("ftp://example.org/", "file:///etc/passwd", "gopher://example.org/", "example.org"),
        *("http://example.org/in", "https:///in", "//example.org/in", "https://", ""),
        *("https://user@example.org/", "https://user:pass@example.org/", "https://@example.org/"),
        *("https://example.org@127.0.0.1/", "https://127.0.0.1@example.org/"),
        *("https://example.org\\@127.0.0.1/", "https://127.0.0.1\\.example.org/"),
        *("https://example.org/#x", "https://example.org:port/", "https://example.org:99999/"),
        *("https://exa mple.org/", "https://example.org/\r\nhost: x", "https://１２７.0.0.1/"),
        *("https://ⓛocalhost/", "https://[::1/", "https://[not]/", "https://example%2eorg/"),
    ),
)
def test_a_url_that_can_be_read_in_two_ways_is_refused(url: str) -> None:
    assert why_not_url(url)


def test_a_host_that_the_operator_names_may_be_anywhere() -> None:
    allowed = frozenset({"127.0.0.1", "hooks.internal"})
    assert why_not_url("http://127.0.0.1:8080/in", allowed) is None
    assert why_not_url("http://HOOKS.internal/in", allowed) is None
    assert why_not_url("http://127.0.0.2/in", allowed)
    assert why_not_url("https://user@127.0.0.1/in", allowed)
    assert "HEADRACE_HOOKS_HOSTS_ALLOWED" in (why_not_url("http://example.org") or "")


def test_a_plain_url_is_taken() -> None:
    for url in ("https://example.org", "https://example.org:8443/in?a=b", "https://8.8.8.8/x"):
        assert why_not_url(url) is None
