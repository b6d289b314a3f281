"""Records the binlogs beside it: run it with ``tests`` and ``src`` in PYTHONPATH.

Each is the first file of a server's log with a table of many types, and beside it what SELECT says.
"""

from __future__ import annotations

import json
from pathlib import Path

from servers.mariadb import mariadb
from servers.mysql56 import GTIDS_ON, mysql56

HERE = Path(__file__).parent
COLUMNS = {
    "a": "tinyint(1)", "b": "tinyint unsigned", "c": "smallint", "d": "mediumint",
    "e": "mediumint unsigned", "f": "int unsigned", "g": "bigint", "h": "bigint unsigned",
    "i": "year", "j": "decimal(9,2)", "k": "decimal(38,10)", "l": "decimal(65,30)", "m": "double",
    "n": "char(5) character set latin1", "o": "varchar(300) character set utf8",
    "p": "text character set utf8mb4", "q": "longtext character set gbk", "r": "varbinary(9)",
    "s": "blob", "t": "date", "u": "time", "v": "time(3)", "w": "datetime", "x": "datetime(6)",
    "y": "timestamp null", "z": "timestamp(2) null", "za": "enum('x','é')",
    "zb": "set('x','y','z')",
}  # fmt: skip
ROWS = (
    "1, " + ", ".join(["NULL"] * len(COLUMNS)),
    "2, -128, 0, -32768, -8388608, 0, 0, -9223372036854775808, 0, 1901, -9999999.99,"
    " -1234567890123456789012345678.0123456789,"
    " -12345678901234567890123456789012345.012345678901234567890123456789, -1.5, '', '', '', '',"
    " '', '', '1000-01-01', '-838:59:59', '-12:34:56.789', '1000-01-01', '1000-01-01',"
    " '1970-01-01 00:00:01', '1970-01-01 00:00:01.25', 'x', ''",
    "3, 127, 255, 32767, 8388607, 16777215, 4294967295, 9223372036854775807, 18446744073709551615,"
    " 2155, 9999999.99, 0.0000000001, 0.000000000000000000000000000001, 0.1, 'é', 'naïve €',"
    " '😀', '中文', 'vb', 'blob', '9999-12-31', '838:59:59', '00:00:00.001', '9999-12-31 23:59:59',"
    " '2024-02-29 12:34:56.789012', '2038-01-19 03:14:07', '2024-02-29 12:34:56.78', 'é', 'x,z'",
)


def record(server, name):
    columns = ", ".join(f"{column} {kind}" for column, kind in COLUMNS.items())
    server.do(
        "SET time_zone = '+00:00'", "RESET MASTER",
        f"CREATE TABLE t (id int PRIMARY KEY, {columns})",
        *(f"INSERT INTO t VALUES ({row})" for row in ROWS), "UPDATE t SET c = 5 WHERE id = 1",
    )  # fmt: skip
    texts = ", ".join(
        f"CAST({column} AS CHAR CHARACTER SET utf8mb4)" for column in ["id", *COLUMNS]
    )
    selected = server.do("SET time_zone = '+00:00'", f"SELECT {texts} FROM t ORDER BY id")
    server.do("UPDATE t SET id = 7 WHERE id = 1", "DELETE FROM t WHERE id = 2",
              "/* all */ TRUNCATE TABLE `t`", "FLUSH LOGS")  # fmt: skip
    (file,) = (server.rank / "data").glob("bin.000001")
    (HERE / f"{name}.binlog").write_bytes(file.read_bytes())
    (HERE / f"{name}.json").write_text(json.dumps(selected, ensure_ascii=False, indent=0) + "\n")


if __name__ == "__main__":
    with mariadb() as running:
        record(running, "mariadb-10.11")
    with mysql56(*GTIDS_ON) as running:
        record(running, "mysql-5.6")
