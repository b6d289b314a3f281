"""Views that Java and we keep in one catalog: each reads, changes and drops those of the other."""

from __future__ import annotations

from tidelake.types import DataField, parse_type

QUERY = "SELECT k, s FROM t WHERE s <> 'ä'"
FIELDS = (
    DataField(0, "k", parse_type("INT NOT NULL")),
    DataField(1, "s", parse_type({"type": "ARRAY", "element": "STRING"})),
)


def check_views_are_shared(peer, catalog) -> None:
    """Requires: both have the catalog open, and it has no database ``v``."""
    catalog.create_database("v")
    ours = catalog.create_view("v.ours", QUERY, FIELDS, comment="some", options={"a": "b"})
    peer.do("create-view", "v.theirs", QUERY, "SELECT 1", "some")
    theirs = catalog.view("v.theirs")
    assert catalog.views("v") == ["ours", "theirs"]
    assert (theirs.fields, theirs.query, theirs.query_in()) == (FIELDS, QUERY, "SELECT 1")
    assert (theirs.comment, dict(theirs.options)) == ("some", {"a": "b"})

    def shown() -> dict[str, list[str]]:
        lines = [line.split("\t") for line in peer.do("views", "v")]
        return {name: rest for name, *rest in lines}

    seen = shown()
    assert seen["ours"][0] == seen["theirs"][0]
    assert seen["ours"][1:4] == [QUERY, f"{{spark={QUERY}}}", "some"]
    assert seen["ours"][4].startswith("{a=b")  # Java's server says also who made it
    peer.do("add-dialect", "v.ours", "flink", "SELECT 2")
    assert catalog.view("v.ours").query_in("flink") == "SELECT 2"
    assert catalog.view("v.ours").fields == ours.fields
    catalog.alter_view_dialect("v.theirs", "update", query="SELECT 3")
    assert shown()["theirs"][2] == "{spark=SELECT 3}"
    peer.do("drop-view", "v.ours")
    catalog.drop_view("v.theirs")
    assert (catalog.views("v"), shown()) == ([], {})
