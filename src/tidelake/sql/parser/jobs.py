"""Parses statements about jobs, in Flink's syntax: statement sets, SHOW JOBS and STOP JOB."""

from __future__ import annotations

from collections.abc import Callable

from tidelake.sql.syntax.ast import Insert, ShowJobs, StatementSet, StopJob
from tidelake.sql.syntax.cursor import Cursor

END = ";"


def statement_set(cursor: Cursor, insert: Callable[[Cursor], Insert]) -> StatementSet:
    """Read ``EXECUTE STATEMENT SET BEGIN ... END`` or ``BEGIN STATEMENT SET; ... END``.

    Parameters
    ----------
    cursor : Cursor
        At the first word; its tokens hold the semicolons of the set.
    insert : callable
        Reads one INSERT.
    """
    start = cursor.position
    if cursor.accept("BEGIN", "STATEMENT", "SET"):
        cursor.expect(END, why=" after BEGIN STATEMENT SET")
    else:
        cursor.expect("EXECUTE", "STATEMENT", "SET", "BEGIN")
    inserts: list[Insert] = []
    while not cursor.accept("END"):
        if cursor.accept(END):
            continue
        rest = cursor.tokens[cursor.index :]
        length = next((n for n, token in enumerate(rest) if token.upper == END), None)
        inner = Cursor(cursor.text, rest[:length])
        if not inner.peek("INSERT"):
            raise inner.error(
                "A statement set holds INSERT statements, each with a semicolon, and then END,"
                f" not {inner.next_text()}."
            )
        if length is None:
            cursor.index = len(cursor.tokens)
            raise cursor.error("The statement set is not closed: write '; END' here.")
        inserts.append(insert(inner))
        cursor.index += length
    cursor.expect_end()
    if not inserts:
        raise cursor.error("The statement set holds no INSERT.", start=start)
    return StatementSet(tuple(inserts), start)


def show_jobs(cursor: Cursor) -> ShowJobs:
    """Read the rest of ``SHOW JOBS``."""
    cursor.expect_end()
    return ShowJobs()


def stop_job(cursor: Cursor) -> StopJob:
    """Read ``STOP JOB 'id'``."""
    cursor.expect("STOP", "JOB")
    start = cursor.position
    job = cursor.string("job's id")
    for clause in ("SAVEPOINT", "DRAIN"):
        if cursor.peek("WITH", clause):
            raise cursor.unsupported(
                f"WITH {clause} is not supported and not needed: a stopped job keeps its"
                " checkpoint, from which its next start goes on. Write STOP JOB 'id'."
            )
    cursor.expect_end()
    return StopJob(job, start)
