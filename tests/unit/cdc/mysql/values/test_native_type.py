"""Types of the server in the lake, as Paimon's MySqlTypeUtils has them."""

from __future__ import annotations

import pytest

from tidelake.cdc.mysql.values.native_type import MySqlType, to_lake_type
from tidelake.cdc.source.type_mapping import TypeMapping


@pytest.mark.parametrize(
    ("native", "switches", "lake"),
    [
        ("tinyint(1)", "", "BOOLEAN"), ("tinyint(1)", "tinyint1-not-bool", "TINYINT"),
        ("tinyint(4)", "", "TINYINT"), ("tinyint(1) unsigned", "", "SMALLINT"),
        ("tinyint(3) unsigned zerofill", "", "SMALLINT"), ("bool", "", "BOOLEAN"),
        ("smallint(6)", "", "SMALLINT"), ("smallint unsigned", "", "INT"),
        ("mediumint", "", "INT"), ("mediumint unsigned", "", "BIGINT"), ("int(11)", "", "INT"),
        ("integer unsigned", "", "BIGINT"), ("bigint", "", "BIGINT"), ("year(4)", "", "INT"),
        ("bigint unsigned", "", "DECIMAL(20, 0)"),
        ("bigint unsigned", "bigint-unsigned-to-bigint", "BIGINT"),
        ("float(7,3)", "", "FLOAT"), ("double unsigned", "", "DOUBLE"), ("real", "", "DOUBLE"),
        ("decimal(10,2) unsigned", "", "DECIMAL(10, 2)"), ("decimal", "", "DECIMAL(10, 0)"),
        ("decimal(38,0)", "", "DECIMAL(38, 0)"), ("decimal(39,0)", "", "STRING"),
        ("bit(1)", "", "BOOLEAN"), ("bit(9)", "", "BINARY(2)"), ("date", "", "DATE"),
        ("time(6)", "", "TIME(0)"), ("datetime", "", "TIMESTAMP(0)"),
        ("timestamp(6)", "", "TIMESTAMP(6)"), ("char(5)", "", "CHAR(5)"),
        ("varchar(9)", "", "VARCHAR(9)"), ("varchar(9)", "char-to-string", "STRING"),
        ("char(0)", "", "STRING"), ("tinytext", "", "STRING"), ("longtext", "", "STRING"),
        ("longtext", "longtext-to-bytes", "BYTES"), ("json", "", "STRING"),
        ("enum('a')", "", "STRING"),
        ("set('a')", "", "ARRAY<STRING>"), ("set('a')", "to-string", "STRING"),
        ("binary(4)", "", "VARBINARY(4)"), ("varbinary(4)", "", "VARBINARY(4)"),
        ("mediumblob", "", "BYTES"), ("blob", "to-string", "STRING"), ("point", "", "STRING"),
        ("geomcollection", "", "STRING"), ("inet6", "", None),
        ("inet6", "unknown-to-string", "STRING"),
        ("uuid", "unknown-to-string", None), ("vector(3)", "", None),
    ],
)  # fmt: skip
def test_types_of_the_lake(native, switches, lake):
    mapping = TypeMapping.of(filter(None, [switches]))
    found = to_lake_type(MySqlType.parse(native), mapping)
    assert (None if found is None else str(found)) == lake
