"""Where a service may listen, and what that takes."""

from __future__ import annotations

import pytest

from tidelake.errors import InvalidInputError
from tidelake.service.address.security import Security, split_address


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.8.0.1"])
def test_loopback_needs_nothing(host):
    Security().check(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "10.0.0.1", "db.example", "*"])
def test_any_other_host_takes_tls_and_tokens_or_a_word(host):
    with pytest.raises(InvalidInputError, match=r"TLS .* and a file of tokens"):
        Security().check(host)
    with pytest.raises(InvalidInputError, match="takes a file of tokens"):
        Security(tls_cert="c", tls_key="k").check(host)
    with pytest.raises(InvalidInputError, match="takes TLS"):
        Security(tokens="t").check(host)
    Security(tls_cert="c", tls_key="k", tokens="t").check(host)
    Security(insecure=True).check(host)


def test_half_a_pair_is_refused_on_loopback_too():
    with pytest.raises(InvalidInputError, match="both a certificate and its key"):
        Security(tls_cert="c").check("127.0.0.1")
    with pytest.raises(InvalidInputError, match="Mutual TLS"):
        Security(tls_ca="c").check("127.0.0.1")


@pytest.mark.parametrize("text", ["h:x", "h:70000", "a b", "http://h", "[::1]:x"])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(InvalidInputError, match="no address"):
        split_address(text)
