"""Sign-in at a provider: who comes in as what, and all that lets nobody in."""

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, get_args
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from desk.sign_in import issuer as of_issuer
from desk.sign_in.issuer import Issuer, SignInError
from desk.sign_in.provider import Begun, Provider
from desk.sign_in.sessions import Identity
from gateway.auth.caller import May
from shared.settings.desk import SignIn, roles_of
from tests.desk.sign_in.identity_provider import CLIENT, SECRET, IdentityProvider, provider

DESK = "https://desk.example.org"
ROLES = "admins=administer,ops=operate,readers=look"


@pytest.fixture
def issuer() -> Iterator[IdentityProvider]:
    with provider() as made:
        yield made


def sign_in_at(issuer: IdentityProvider, roles: str = ROLES, **others: Any) -> SignIn:
    its = SignIn(issuer.url, CLIENT, SECRET, DESK, "openid", "groups", roles_of(roles), 60.0)
    return its._replace(**others)


def comes_back(address: str) -> dict[str, str]:
    """What the provider sends the browser back with."""
    back = httpx.get(address).headers["location"]
    assert back.startswith(f"{DESK}/login/done?")
    return {name: one for name, (one,) in parse_qs(urlsplit(back).query).items()}


def signed_in(issuer: IdentityProvider, roles: str = ROLES) -> Identity:
    desk, begun = Provider(sign_in_at(issuer, roles)), Begun.new()
    return desk.redeem(begun, comes_back(desk.address(begun)))


def refused(issuer: IdentityProvider, roles: str = ROLES) -> str:
    with pytest.raises(SignInError) as said:
        signed_in(issuer, roles)
    return str(said.value)


@pytest.mark.parametrize(
    ("groups", "may"),
    [
        (["ops"], "operate"),
        (["readers", "admins", "ops"], "administer"),
        ("readers", "look"),
        (["readers", 7, None], "look"),
    ],
)
def test_an_operator_comes_in_with_what_the_groups_allow(
    issuer: IdentityProvider, groups: object, may: str
) -> None:
    issuer.claims["groups"] = groups
    found = signed_in(issuer)
    assert found == Identity(f"ann@example.org ({issuer.host} u-1)", may)  # type: ignore[arg-type]


@pytest.mark.parametrize("groups", [[], ["others"], "other", None, 7, {"ops": 1}, [["ops"]]])
def test_who_is_in_no_group_stays_out_unless_everybody_may(
    issuer: IdentityProvider, groups: object
) -> None:
    issuer.claims["groups"] = groups
    assert "in none of the groups" in refused(issuer)
    assert signed_in(issuer, "*=look,ops=operate").may == "look"


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"email": "a@b.c", "email_verified": False, "preferred_username": "ann"}, "ann"),
        ({"email": None}, ""),
        ({"email": ["ann"], "preferred_username": 7}, ""),
        ({"email": "a\n<b>é" + "x" * 300}, ("a?<b>?" + "x" * 300)[:100]),
    ],
)
def test_the_name_is_for_the_audit(
    issuer: IdentityProvider, claims: dict[str, Any], name: str
) -> None:
    issuer.claims |= claims
    assert signed_in(issuer).name == f"{name} ({issuer.host} u-1)".strip()


LIES: dict[str, dict[str, Any]] = {
    "another issuer": {"iss": "https://evil.example"},
    "for another client": {"aud": "other"},
    "handed on by another client": {"aud": [CLIENT, "other"], "azp": "other"},
    "over": {"exp": int(time.time()) - 3600},
    "without an end": {"exp": None},
    "of nobody": {"sub": None},
    "of another sign-in": {"nonce": "other"},
    "without a nonce": {"nonce": None},
    "a nonce that is no text": {"nonce": ["a"]},
}


@pytest.mark.parametrize("lie", LIES)
def test_a_token_that_says_something_else_lets_nobody_in(
    issuer: IdentityProvider, lie: str
) -> None:
    issuer.claims |= LIES[lie]
    assert refused(issuer)


def test_a_token_that_another_key_has_signed_lets_nobody_in(issuer: IdentityProvider) -> None:
    issuer.signs_with = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    assert "does not hold" in refused(issuer)
    issuer.header = {"kid": "unknown"}
    assert "a key that is not published" in refused(issuer)
    issuer.signs_with, issuer.algorithm = "", "none"
    issuer.header = {"kid": "one"}
    assert "does not hold" in refused(issuer)


def test_a_public_key_is_no_secret_to_sign_with(issuer: IdentityProvider) -> None:
    """HS256 with the RSA key that everybody can read, in each form of it."""
    issuer.algorithm, public = "HS256", issuer.key.public_key()
    for encoding in (Encoding.DER, Encoding.PEM):
        for form in (PublicFormat.PKCS1, PublicFormat.SubjectPublicKeyInfo):
            issuer.signs_with = public.public_bytes(encoding, form)
            assert "does not hold" in refused(issuer)


def test_what_comes_back_to_another_browser_lets_nobody_in(issuer: IdentityProvider) -> None:
    desk, begun = Provider(sign_in_at(issuer)), Begun.new()
    back = comes_back(desk.address(begun))
    for other, says in (
        (back | {"state": "other"}, "not the sign-in that this browser began"),
        ({"code": back["code"]}, "not the sign-in that this browser began"),
        (back | {"state": back["state"] + "é\ud800"}, "not the sign-in that this browser began"),
        (back | {"iss": "https://evil.example"}, "another provider"),
        (back | {"code": "guessed"}, "invalid_grant"),
    ):
        with pytest.raises(SignInError, match=says):
            desk.redeem(begun, other)
    stolen = begun._replace(verifier="other")
    with pytest.raises(SignInError, match="invalid_grant"):
        desk.redeem(stolen, back)


def test_a_code_is_good_once(issuer: IdentityProvider) -> None:
    desk, begun = Provider(sign_in_at(issuer)), Begun.new()
    back = comes_back(desk.address(begun))
    desk.redeem(begun, back)
    with pytest.raises(SignInError, match="invalid_grant"):
        desk.redeem(begun, back)


def test_what_the_provider_says_is_passed_on(issuer: IdentityProvider) -> None:
    issuer.refuses = {"error": "access_denied", "error_description": "not <today>"}
    assert "says: not <today>" in refused(issuer)


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({"issuer": "https://other.example"}, "calls itself"),
        ({"token_endpoint": "http://evil.example/token"}, "not https"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "not https"),
        ({"jwks_uri": None}, "not https"),
        ({"authorization_endpoint": "https://[x"}, "not https"),
        ({"token_endpoint": "https:"}, "not https"),
    ],
)
def test_a_provider_that_cannot_be_trusted_is_not_used(
    issuer: IdentityProvider, document: dict[str, Any], says: str
) -> None:
    issuer.document = document
    assert says in refused(issuer)


def test_a_provider_that_is_away_or_something_else_is_said() -> None:
    with provider() as issuer:
        settings = sign_in_at(issuer)
        with pytest.raises(SignInError, match="answers 404"):
            Provider(settings._replace(issuer=f"{issuer.url}/nothing")).address(Begun.new())
    desk = Provider(settings)
    for _ in range(2):  # the second time it is not asked
        with pytest.raises(SignInError, match="does not answer"):
            desk.address(Begun.new())


def test_it_is_asked_once_for_what_it_says_of_itself(issuer: IdentityProvider) -> None:
    desk = Provider(sign_in_at(issuer))
    for _ in range(3):
        begun = Begun.new()
        desk.redeem(begun, comes_back(desk.address(begun)))
    assert issuer.asked == ["document", "keys"]


def test_what_a_browser_keeps_is_read_or_is_none() -> None:
    begun = Begun.new()
    assert Begun.parse(begun.text()) == begun
    for text in ("", "a.b", "a..c", "a.b.c.d"):
        assert Begun.parse(text) is None


def test_keys_may_change_and_need_no_name(
    issuer: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_issuer, "_ANEW_S", 0.0)
    desk = Provider(sign_in_at(issuer))

    def sign_in() -> Identity:
        begun = Begun.new()
        return desk.redeem(begun, comes_back(desk.address(begun)))

    sign_in()
    issuer.key = issuer.signs_with = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    sign_in()  # of the same name
    issuer.header = {}
    sign_in()
    for row in ({"kty": "RSA", "alg": "none"}, {"alg": ["x"]}, {"kid": {}}, "x", {"use": "enc"}):
        issuer.odd_keys.append(row)
    issuer.key = issuer.signs_with = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    sign_in()


def test_a_key_that_is_withdrawn_is_not_believed_for_ever(
    issuer: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, begun = Provider(sign_in_at(issuer)), Begun.new()
    desk.redeem(begun, comes_back(desk.address(begun)))
    issuer.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    monkeypatch.setattr(of_issuer, "_KNOWN_S", 0.0)
    begun = Begun.new()
    with pytest.raises(SignInError, match="does not hold"):
        desk.redeem(begun, comes_back(desk.address(begun)))


def test_a_provider_that_hangs_holds_up_a_few_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_issuer, "_WITHIN_S", 1.0)
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        hangs = Issuer(f"http://127.0.0.1:{silent.getsockname()[1]}")

        def ask(_: int) -> str:
            with pytest.raises(SignInError) as said:
                hangs.document()
            return str(said.value)

        with ThreadPoolExecutor(12) as pool:
            said = [*pool.map(ask, range(12))]
    assert sum("too many ask" in one for one in said) >= 1
    assert all("too many ask" in one or "does not answer" in one for one in said)


def test_a_group_may_be_given_each_right_that_there_is_and_no_other() -> None:
    rights = get_args(May)
    given = roles_of(",".join(f"of-{may}={may}" for may in rights))
    assert [*given.values()] == [*rights]
    with pytest.raises(ValueError, match="GROUP=look"):
        roles_of("ops=anything")
