"""Where statements differ from Java Paimon on Spark; ``docs/sql-and-paimon.md`` lists it."""

from __future__ import annotations

REASONS: dict[str, str] = {
    "binlog-between": "`$binlog` between two moments is refused here; `$audit_log` shows the same"
    " changes, a row each.",
    "char-padding": "A value of `CHAR(n)` is kept as it is given, as Flink keeps it; Spark fills"
    " it up with spaces before Java gets it. Use `STRING` where both write.",
    "databases": "`CREATE TABLE` makes the database that its name says; Java needs it to be there.",
    "deleted-rows": "Rows between two moments are those that came or changed. Java shows also the"
    " rows that are gone, as if they had come; its pages say that it drops them.",
    "describe": "`DESCRIBE` says Paimon's types, with `NOT NULL`; Java's says Spark's.",
    "empty-truncate": "`TRUNCATE` of a table without rows makes no snapshot; Java makes one.",
    "explicit-casts": "Text can become a number by `ALTER COLUMN ... TYPE`, as by Flink; Spark"
    " refuses before Java is asked.",
    "later-columns": "System tables have the columns of Paimon 1.3.1; 2.1 has more.",
    "merge-nothing": "A `MERGE` that changes no row makes no snapshot; Java rewrites the files"
    " in which a row matched.",
    "merge-twice": "Several rows of the source may match one row of the table where conditions let"
    " one of them change it, or where it is only deleted; Java refuses.",
    "no-changelog": "A snapshot without a changelog says 0 rows, as Paimon 1.3.1 does; 2.1 leaves"
    " the count out.",
    "overwrite-mode": "`INSERT OVERWRITE` that names no partition replaces those that rows come"
    " for, as the option `dynamic-partition-overwrite` says; Spark's default is to replace all."
    " `SET spark.sql.sources.partitionOverwriteMode = static` does that here too.",
    "postponed-batches": "Rows of a postponed bucket wait for `sys.compact`; Java's batches on"
    " Spark give them buckets at once.",
    "removed-values": "With `partial-update.remove-record-on-delete` a key that was deleted begins"
    " without old values, as in Paimon 1.3.1; 2.1 keeps old values of columns that its next row"
    " leaves null.",
    "replaced-history": "`REPLACE TABLE` drops the table and creates it again; Java keeps its"
    " snapshots.",
    "replaced-tag": "`REPLACE TAG` of a tag that is not there is refused; Java makes it.",
    "rescale": "`sys.rescale` gives the whole table the new number of buckets, in a new schema;"
    " Java gives it to the partitions alone.",
    "show-columns": "The column of `SHOW COLUMNS` is called `col_name`, as Spark does; in Java's"
    " answer it is `column`.",
}
"""Why, by the name that scripts give."""

ROWS_DIFFER: dict[str, str] = {
    "fixtures.pu_plain": "removed-values",
    "partitioned.unset": "overwrite-mode",
    "types.ch": "char-padding",
}
"""Tables whose rows differ in the end, and the reason."""

READS_DIFFER: dict[str, str] = {"engines.pd": "removed-values"}
"""Tables that Java's core and we read differently, and the reason."""
