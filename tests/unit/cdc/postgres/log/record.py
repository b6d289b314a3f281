"""Records what PostgreSQL sends for some statements: ``tests/golden/pgoutput``.

    PYTHONPATH=src:tests python tests/unit/cdc/postgres/log/record.py

Each file has the statements as comments, the frames of the replication protocol in hexadecimal, and
what they are decoded to, for ``test_recorded.py``. Read the difference before you keep it.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import psycopg
from cdc_postgres import SETTINGS, Place
from servers.postgres import DATABASE, postgres

from tidelake.cdc.postgres.log.log_messages import Frames
from tidelake.cdc.postgres.log.stream import ReplicationStream
from tidelake.cdc.postgres.position import LogPosition
from tidelake.engine.env import Env

RECORDED = Path(__file__).parents[4] / "golden" / "pgoutput"
MADE = [
    "CREATE TABLE k (id int PRIMARY KEY, n int, big text)",
    "ALTER TABLE k ALTER big SET STORAGE EXTERNAL",
    "CREATE TABLE f (id int PRIMARY KEY, big text, n numeric(8,2))",
    "ALTER TABLE f ALTER big SET STORAGE EXTERNAL",
    "ALTER TABLE f REPLICA IDENTITY FULL",
]
LARGE = "repeat('x', 2100)"
STATEMENTS = [
    f"INSERT INTO k VALUES (1, 1, {LARGE}), (2, 2, 'short'), (3, NULL, NULL)",
    "UPDATE k SET n = n + 1",
    "UPDATE k SET id = id + 10",
    "DELETE FROM k WHERE id = 12",
    f"INSERT INTO f VALUES (1, {LARGE}, 1.5)",
    "UPDATE f SET n = 'NaN'",
    "UPDATE f SET n = 2, id = 5",
    "BEGIN; INSERT INTO k VALUES (20, 1, 'a'); SAVEPOINT s; INSERT INTO k VALUES (21, 1, 'b');"
    " ROLLBACK TO s; UPDATE f SET big = 'ü'; COMMIT",
    "ALTER TABLE k ADD COLUMN extra date DEFAULT '2024-01-01'",
    "BEGIN; UPDATE k SET n = 9 WHERE id = 20; ALTER TABLE k DROP COLUMN big;"
    " UPDATE k SET n = 10 WHERE id = 20; COMMIT",
    "ALTER TABLE k RENAME COLUMN extra TO more",
    "DELETE FROM k WHERE id = 11",
    "BEGIN; INSERT INTO f VALUES (6, 'six', 6); TRUNCATE f, k; INSERT INTO k VALUES (30, 3, NULL);"
    " COMMIT",
    "SELECT pg_logical_emit_message(true, 'tidelake', 'mark')",
    "SELECT pg_logical_emit_message(false, 'tidelake', 'outside')",
    "INSERT INTO k SELECT g, g, NULL FROM generate_series(100, 105) g",
]


def recorded(version):
    """The frames of the statements."""
    with (
        postgres(version, *SETTINGS) as server,
        psycopg.connect(**server.conninfo(), autocommit=True) as connection,
    ):
        place = Place(server, DATABASE, connection)
        place.run(*MADE)
        source, _, position = place.followed()
        place.run(*STATEMENTS)
        goal = LogPosition.parse(source.newest())
        env = Env.system()
        stream = ReplicationStream(source._settings, LogPosition.parse(position).lsn, env.clock)
        frames = Frames()
        while stream.decoded_lsn < goal.lsn:
            stream.read(frames, count_max=1000, bytes_max=1 << 30)
            stream.answer(wants=True)
            stream.wait(100)
        stream.close()
        source.close()
        ends = list(itertools.accumulate(frames.lengths))
        return [bytes(frames.data[a:b]) for a, b in itertools.pairwise([0, *ends])]


def main():
    from unit.cdc.postgres.log.test_recorded import decoded, shown

    RECORDED.mkdir(exist_ok=True)
    for version in (18, 16):
        frames = recorded(version)
        text = [f"# PostgreSQL {version}", *(f"# {s}" for s in [*MADE, *STATEMENTS])]
        text += [f"> {frame.hex()}" for frame in frames]
        text += [f"= {line}" for line in shown(decoded(frames))]
        (RECORDED / f"statements_{version}.txt").write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
