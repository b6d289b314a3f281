"""Calls that a page may make."""

import re
from pathlib import Path

import pytest

import tidelake
from tidelake.engine.health import HealthFinding, RemedyCall
from tidelake.errors import UnsupportedError
from tidelake.ui.server.remedies import ALLOWED, carry_out, parsed_call, prescribed

HEALTH = Path(tidelake.__file__).parent / "table" / "health"
CHECKS = [p for p in HEALTH.glob("*.py") if p.stem.endswith("_checks")]


def test_every_call_that_the_doctor_names_is_covered():
    texts = "".join(path.read_text(encoding="utf-8") for path in CHECKS)
    named = set(re.findall(r'RemedyCall\(\s*f?"table\.([\w.]+)\(', texts))
    assert named == ALLOWED


@pytest.mark.parametrize(
    "text",
    [
        "table.drop_partitions()",
        "table.fileio.delete('x')",
        "table.compact(full=open('/etc/passwd'))",
        "table.compact().foo()",
        "compact()",
        "other.compact()",
        "table.compact(); table.compact()",
        "table.compact(**{'full': True})",
        "table.set_options(__import__('os').environ)",
        "table.compact(",
        "",
    ],
)
def test_nothing_else_is(text):
    with pytest.raises(UnsupportedError, match="cannot make the call"):
        parsed_call(text)


def test_constants_are_passed_on():
    assert parsed_call("table.set_options({'a': '1'})") == ("set_options", [{"a": "1"}], {})
    name = 'it\'s "x"'
    assert parsed_call(f"table.tags.delete({name!r})") == ("tags.delete", [name], {})


def test_a_call_is_prescribed_by_its_finding_alone():
    one = HealthFinding("a", "warning", "", {}, (RemedyCall("table.compact()"),))
    other = HealthFinding("a", "warning", "", {}, (RemedyCall("table.rescale_bucket(3)"),))
    assert prescribed([one, other], "a", "table.rescale_bucket(3)") is other
    assert prescribed([one, other], "b", "table.compact()") is None
    assert prescribed([one], "a", "table.rescale_bucket(3)") is None


def test_a_call_is_made_and_says_what_it_gave(orders):
    assert "files" in carry_out(orders, "table.compact()")
    assert orders.latest_snapshot_id == 7
    assert carry_out(orders, "table.tags.delete('before')") == "Done."
    assert list(orders.tags) == []
