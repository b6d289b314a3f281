"""Entries are left out by partition and bucket before any file is looked at."""

from __future__ import annotations


def test_manifests_of_other_partitions_are_not_opened(table):
    for p in "abc":
        table.write([{"p": p, "k": 1, "v": 1}])
    plan = table.plan(where="p = 'b'")
    assert (plan.manifests_total, plan.manifests_pruned) == (3, 2)
    assert plan.files_read == 1


def test_a_delete_whose_add_lies_in_an_unopened_manifest_is_no_damage(table):
    """Manifest 1 adds a file of 'a'; manifest 2 deletes it and adds files of 'a' to 'c'."""
    table.write([{"p": "a", "k": 1, "v": 1}])
    whole = table.copy({"dynamic-partition-overwrite": False})
    whole.write([{"p": p, "k": 1, "v": 2} for p in "ac"], mode="overwrite")
    assert table.to_arrow(where="p = 'b'").num_rows == 0
    assert table.to_arrow(where="p = 'c'").num_rows == 1
    assert table.to_arrow(where="p = 'a'").to_pylist() == [{"p": "a", "k": 1, "v": 2}]


def test_a_key_is_looked_for_in_its_bucket_alone(catalog):
    table = catalog.create_table(
        "db.b", {"k": "int64", "v": "int64"}, primary_keys=["k"], options={"bucket": 4}
    )
    table.write([{"k": k, "v": k} for k in range(40)])
    plan = table.plan(where="k = 7")
    assert plan.pruned == {"bucket": 3}
    assert table.to_arrow(where="k = 7").to_pylist() == [{"k": 7, "v": 7}]
    some = table.plan(where="v = 7")
    assert "bucket" not in some.pruned
