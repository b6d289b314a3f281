"""Who may ask."""

import pytest

from tidelake.errors import InvalidInputError
from tidelake.ui.server.access import SESSIONS_MAX, PageAccess
from tidelake.ui.server.exchange import PageRequest

TOKEN = "open-sesame-1234"


def asked(**headers):
    return PageRequest("GET", "/", headers={k.replace("_", "-"): v for k, v in headers.items()})


def cookie(header):
    return header["Set-Cookie"].partition(";")[0]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "box"])
def test_beyond_loopback_a_token_is_needed(host):
    with pytest.raises(InvalidInputError, match="give a token") as failed:
        PageAccess(host)
    assert failed.value.kind == "token_needed"
    assert PageAccess(host, TOKEN).has_token


def test_a_short_token_is_refused():
    with pytest.raises(InvalidInputError, match="needs 16 or more") as failed:
        PageAccess("127.0.0.1", "short")
    assert failed.value.kind == "token_too_short"


@pytest.mark.parametrize("name", ["localhost:8765", "127.0.0.1:1", "[::1]:8765", "LOCALHOST"])
def test_names_of_this_machine_are_known(name):
    assert PageAccess("127.0.0.1").knows_host(asked(host=name))


@pytest.mark.parametrize(
    "name",
    [
        "evil.example",
        "evil.example:8765",
        "",
        "127.0.0.1.evil",
        "[",
        "evil@localhost",
        "localhost/evil.com",
        "localhost#evil",
        "localhost:",
        "localhost:80:80",
        "localhost evil",
    ],
)
def test_a_name_that_was_turned_to_this_machine_is_not(name):
    assert not PageAccess("127.0.0.1").knows_host(asked(host=name))
    assert not PageAccess("localhost", TOKEN).knows_host(asked(host=name))
    assert PageAccess("0.0.0.0", TOKEN).knows_host(asked(host=name))


def test_a_token_or_a_session_is_needed_to_read():
    access = PageAccess("0.0.0.0", TOKEN)
    assert not access.may_read(asked())
    assert not access.may_read(asked(authorization="Bearer wrong"))
    assert not access.may_read(asked(authorization=TOKEN))
    assert access.may_read(asked(authorization=f"Bearer {TOKEN}"))
    header = access.begin_session()
    assert {"HttpOnly", "SameSite=Strict"} <= set(header["Set-Cookie"].split("; "))
    assert TOKEN not in header["Set-Cookie"]
    known = asked(cookie=f"a=b; {cookie(header)}")
    assert access.may_read(known)
    access.end_session(known)
    assert not access.may_read(known)
    assert not access.may_read(asked(cookie="tidelake_session="))
    assert PageAccess("127.0.0.1").may_read(asked())


def test_sessions_are_bounded():
    access = PageAccess("0.0.0.0", TOKEN)
    first = access.begin_session()
    for _ in range(SESSIONS_MAX):
        last = access.begin_session()
    assert not access.may_read(asked(cookie=cookie(first)))
    assert access.may_read(asked(cookie=cookie(last)))


def test_a_form_of_another_page_is_not_taken():
    access = PageAccess("127.0.0.1")
    own = PageRequest("POST", "/x", form={"csrf": access.csrf})
    assert access.is_own_form(own)
    assert not access.is_own_form(PageRequest("POST", "/x", form={"csrf": "guess"}))
    assert not access.is_own_form(PageRequest("POST", "/x"))
    crossed = PageRequest("POST", "/x", headers={"sec-fetch-site": "cross-site"}, form=own.form)
    assert not access.is_own_form(crossed)
    assert PageAccess("127.0.0.1").csrf != access.csrf
