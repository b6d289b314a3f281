"""What a server of Spark Connect refuses before Spark starts."""

from __future__ import annotations

import pytest

from tidelake.errors import InvalidInputError
from tidelake.spark import connect_server


@pytest.mark.parametrize("port", [-1, 65_536])
def test_what_is_no_port_is_refused(tmp_path, port):
    with pytest.raises(InvalidInputError, match="cannot be a port") as caught:
        connect_server(tmp_path, port=port)
    assert caught.value.context["argument"] == "port"


@pytest.mark.parametrize(
    "token", ["", "short", "with a blank and so on", "semicolon;semicolon;", "ä" * 20]
)
def test_a_token_that_a_url_cannot_carry_is_refused(tmp_path, token):
    with pytest.raises(InvalidInputError, match="at least 16 letters") as caught:
        connect_server(tmp_path, token=token)
    assert caught.value.context["argument"] == "token"
    assert not token or token not in str(caught.value)
