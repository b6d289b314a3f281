"""Tables that were altered while their job was down: each row is read by the schema of its time."""

from __future__ import annotations

import pytest

import tidelake
import tidelake.cdc

CASES = {
    "added": (
        ["ALTER TABLE t ADD COLUMN x int"],
        ["INSERT INTO t (id, a, b, x) VALUES (3, 3, 'c', 30)", "UPDATE t SET x = 10 WHERE id = 1"],
    ),
    "added with a default in the middle": (
        ["ALTER TABLE t ADD COLUMN x int NOT NULL DEFAULT 7 AFTER id"],
        ["INSERT INTO t (id, a, b) VALUES (3, 3, 'c')"],
    ),
    "dropped": (["ALTER TABLE t DROP COLUMN a"], ["INSERT INTO t (id, b) VALUES (3, 'c')"]),
    "dropped and another added at its place": (
        ["ALTER TABLE t DROP COLUMN a", "ALTER TABLE t ADD COLUMN x int AFTER id"],
        ["INSERT INTO t (id, x, b) VALUES (3, 30, 'c')"],
    ),
    "of other order": (
        ["ALTER TABLE t MODIFY b varchar(9) FIRST"],
        ["INSERT INTO t (id, a, b) VALUES (3, 3, 'c')"],
    ),
    "names swapped": (
        ["ALTER TABLE t CHANGE a tmp int", "ALTER TABLE t CHANGE c a int",
         "ALTER TABLE t CHANGE tmp c int"],
        ["INSERT INTO t (id, a, c) VALUES (3, 3, 4)"],
    ),
    "wider": (
        ["ALTER TABLE t MODIFY a bigint, MODIFY b varchar(30)"],
        ["INSERT INTO t (id, a) VALUES (3, 5000000000)"],
    ),
    "dropped and added again": (
        ["ALTER TABLE t DROP COLUMN a", "ALTER TABLE t ADD a int AFTER id"],
        ["INSERT INTO t (id, a) VALUES (3, 3)"],
    ),
    "dropped and added again at once": (
        ["ALTER TABLE t DROP a, DROP c, ADD COLUMN (c int, a int)"],
        ["INSERT INTO t (id, a) VALUES (3, 3)"],
    ),
    "names rotated without a row after them": (
        ["INSERT INTO t VALUES (6, 60, 'f', 61)", "ALTER TABLE t CHANGE a tmp int, CHANGE c a int",
         "ALTER TABLE t CHANGE COLUMN tmp c int"],
        [],
    ),
    "added, then dropped again": (
        ["ALTER TABLE t ADD COLUMN x int DEFAULT 5", "INSERT INTO t (id, a, x) VALUES (7, 7, 7)",
         "ALTER TABLE t DROP COLUMN x"],
        ["INSERT INTO t (id, a) VALUES (3, 3)"],
    ),
}  # fmt: skip


def check_altered(server, lake, ddl, after):
    server.do(
        "CREATE TABLE t (id int PRIMARY KEY, a int, b varchar(9), c int)",
        "INSERT INTO t VALUES (1, 1, 'a', 11), (2, 2, 'b', 12)",
    )
    conf = server.conf(database_name="shop")
    job = tidelake.cdc.mysql_sync_database(
        warehouse=str(lake), database="ods", mysql_conf=conf, once=True
    )
    job.run()
    # the job is down
    server.do(
        "INSERT INTO t VALUES (4, 4, 'd', 14), (5, 5, 'e', 15)", "UPDATE t SET a = 20 WHERE id = 2",
        "DELETE FROM t WHERE id = 5", *ddl, *after,
    )  # fmt: skip
    job.run()
    names = [row[0] for row in server.do("SHOW COLUMNS FROM t")]
    table = tidelake.open(lake).table("ods.t")
    found = table.to_arrow(columns=names).to_pylist()
    wanted = server.do(f"SELECT {', '.join(names)} FROM t")
    assert sorted(map(repr, (tuple(row.values()) for row in found))) == sorted(map(repr, wanted))
    [status] = job.status().tables
    assert status.phase == "live"
    assert job.status().quarantined == 0


@pytest.mark.parametrize("name", CASES)
def test_a_table_that_was_altered_while_its_job_was_down(maria, tmp_path, name):
    check_altered(maria, tmp_path / "lake", *CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_of_a_log_without_names(mysql56, tmp_path, name):
    check_altered(mysql56, tmp_path / "lake", *CASES[name])
