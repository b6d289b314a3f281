"""What each schema changed."""

from dataclasses import replace

from tidelake.types.schema_change import AddColumn, DropColumn, RenameColumn
from tidelake.ui.model.schema_history import changes_between, schema_history


def test_each_schema_says_what_it_changed(lake, orders):
    lake.alter_table("shop.orders", [AddColumn("note", "STRING")])
    lake.alter_table("shop.orders", [RenameColumn("note", "remark")])
    lake.alter_table("shop.orders", [DropColumn("remark")])
    lake.table("shop.orders").set_options({"snapshot.num-retained.max": 90})
    found = schema_history(lake.table("shop.orders").handle)
    assert [one.id for one in found] == [4, 3, 2, 1, 0]
    assert [one.changes for one in found[:4]] == [
        ("option snapshot.num-retained.max = 90",),
        ("column remark dropped",),
        ("column note renamed to remark",),
        ("column note STRING added",),
    ]
    assert found[4].changes == (
        "table created with day, id, item",
        "primary key day, id",
        "partitioned by day",
    )
    assert found[4].columns == 3


def test_a_secret_of_an_option_is_no_change_to_read(orders):
    schema = orders.table_schema
    with_secret = replace(schema, options={**schema.options, "s3.secret-key": "hush"})
    assert "hush" not in str(changes_between(schema, with_secret))
    assert changes_between(with_secret, schema) == ("option s3.secret-key unset",)
    assert changes_between(schema, schema) == ("nothing that is shown here",)
    other = replace(schema, fields=schema.fields[::-1])
    assert changes_between(schema, other) == ("columns in another order: item, id, day",)
