"""Who may call: tokens, the service's secret, and what a file of tokens may hold."""

from __future__ import annotations

import hashlib
import json

import pytest

from tidelake.errors import InvalidInputError
from tidelake.service.address.access import Access
from tidelake.service.address.refusal import Refusal
from tidelake.service.address.token_file import LOOK_AGAIN_MS, TokenFile, read_tokens
from tidelake.service.protocol.reasons import TOKEN_KEY, bearer
from tidelake.telemetry import ManualClock

NOW_MS = 1_700_000_000_000


def entry(text, **fields):
    digest = hashlib.sha256(text.encode()).hexdigest()
    return {"name": text, "sha256": digest, "tables": ["shop.*"]} | fields


def write(path, *entries):
    path.write_text(json.dumps({"tokens": list(entries)}))


def metadata(text):
    return [("user-agent", "x"), (TOKEN_KEY, bearer(text))]


def reason(call):
    with pytest.raises(Refusal) as caught:
        call()
    return caught.value.status.name, caught.value.reason


@pytest.fixture
def access(tmp_path):
    path = tmp_path / "tokens.json"
    write(
        path,
        entry("dashboards-token"),
        entry("old-token", expires="2023-11-14T22:13:19Z"),
        entry("root-token", tables=["*"], admin=True),
    )
    clock = ManualClock(NOW_MS)
    return Access("the-secret", TokenFile(str(path), clock), clock), path, clock


def test_a_token_reads_the_tables_that_it_names_and_no_other(access):
    caller = access[0].caller(metadata("dashboards-token"))
    caller.check_reads("shop.orders")
    assert reason(lambda: caller.check_reads("hr.pay")) == (
        "PERMISSION_DENIED",
        "table-not-allowed",
    )
    assert reason(caller.check_operates) == ("PERMISSION_DENIED", "not-an-operator")
    assert reason(caller.check_is_service) == ("PERMISSION_DENIED", "not-an-executor")
    access[0].caller(metadata("root-token")).check_operates()


def test_no_wrong_and_expired_tokens_are_distinguished(access):
    assert reason(lambda: access[0].caller([])) == ("UNAUTHENTICATED", "no-token")
    assert reason(lambda: access[0].caller(metadata("guess"))) == ("UNAUTHENTICATED", "wrong-token")
    assert reason(lambda: access[0].caller(metadata("old-token"))) == (
        "UNAUTHENTICATED",
        "expired-token",
    )


def test_the_secret_makes_a_caller_part_of_the_service(access):
    caller = access[0].caller(metadata("the-secret"))
    caller.check_is_service()
    caller.check_operates()
    caller.check_reads("any.table")


def test_without_a_file_of_tokens_everybody_reads_and_nobody_registers():
    caller = Access("the-secret", None, ManualClock(NOW_MS)).caller(metadata("anything"))
    caller.check_reads("shop.orders")
    assert reason(caller.check_is_service) == ("PERMISSION_DENIED", "not-an-executor")
    assert reason(caller.check_operates) == ("PERMISSION_DENIED", "not-an-operator")


def test_a_changed_file_counts_soon_and_a_broken_one_shuts_out_all(access):
    access, path, clock = access
    write(path, entry("new-token-1234"))
    clock.sleep_ms(LOOK_AGAIN_MS)
    assert reason(lambda: access.caller(metadata("dashboards-token")))[1] == "wrong-token"
    access.caller(metadata("new-token-1234"))
    path.write_text('{"tokens": [')
    clock.sleep_ms(LOOK_AGAIN_MS)
    assert reason(lambda: access.caller(metadata("new-token-1234"))) == (
        "UNAVAILABLE",
        "tokens-unreadable",
    )
    path.unlink()
    clock.sleep_ms(LOOK_AGAIN_MS)
    assert reason(lambda: access.caller(metadata("new-token-1234")))[0] == "UNAVAILABLE"
    write(path, entry("new-token-1234"))
    clock.sleep_ms(LOOK_AGAIN_MS)
    access.caller(metadata("new-token-1234"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\x00", "no JSON"),
        (b"[]", "no list"),
        (b'{"tokens": {}}', "no list"),
        (b'{"tokens": [1]}', "token 1"),
        (json.dumps({"tokens": [entry("a", name="")]}).encode(), "token 1 has no name"),
        (json.dumps({"tokens": [entry("a", sha256="abc")]}).encode(), "no sha256"),
        (json.dumps({"tokens": [entry("a", tables="*")]}).encode(), "must be a list of patterns"),
        (json.dumps({"tokens": [entry("a", expires="2027-01-01")]}).encode(), "with a time zone"),
        (json.dumps({"tokens": [entry("a", expires=5)]}).encode(), "with a time zone"),
        (json.dumps({"tokens": [entry("a", admin="yes")]}).encode(), "true nor false"),
        (
            json.dumps({"tokens": [entry("a", token="a")]}).encode(),
            "an object with no fields but",
        ),
        (json.dumps({"tokens": [entry("a"), entry("a", name="b")]}).encode(), "are the same"),
    ],
)
def test_a_file_that_is_not_whole_is_refused_with_the_place(content, said):
    with pytest.raises(InvalidInputError, match=said):
        read_tokens(content)
