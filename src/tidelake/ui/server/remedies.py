"""Makes a call that the doctor prescribes: nothing else can be asked for.

A remedy is text, as ``table.maintenance.reset_consumer('mailer')``. It is read as one call of a
method that is listed here, with constants alone; then the method is called.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from tidelake.engine.health import HealthFinding
from tidelake.engine.tables import Table
from tidelake.errors import UnsupportedError

ALLOWED = frozenset(
    {
        "compact",
        "rescale_bucket",
        "set_options",
        "maintenance.analyze",
        "maintenance.compact_manifests",
        "maintenance.expire_snapshots",
        "maintenance.remove_orphan_files",
        "maintenance.reset_consumer",
        "tags.delete",
        "tags.expire",
    }
)
"""Methods of a table that findings name."""


def parsed_call(text: str) -> tuple[str, list[Any], dict[str, Any]]:
    """Read a remedy: the method, and what is passed to it.

    Raises
    ------
    UnsupportedError
        It is not one call of an allowed method with constants.

    Examples
    --------
    >>> parsed_call("table.compact(full=True)")
    ('compact', [], {'full': True})
    """
    try:
        call = ast.parse(text, mode="eval").body
        if isinstance(call, ast.Call):
            method = ast.unparse(call.func).removeprefix("table.")
            is_plain = all(one.arg for one in call.keywords)
            if is_plain and method in ALLOWED and ast.unparse(call.func) == f"table.{method}":
                given = [ast.literal_eval(one) for one in call.args]
                named = {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}
                return method, given, named
    except (SyntaxError, ValueError):
        pass
    message = f"This page cannot make the call {text}: make it in Python or SQL."
    raise UnsupportedError(message, kind="remedy_not_covered")


def prescribed(findings: Iterable[HealthFinding], kind: str, call: str) -> HealthFinding | None:
    """The finding of a kind that a call mends; None where the doctor prescribes no such call."""
    for finding in findings:
        if finding.kind == kind and call in {remedy.python for remedy in finding.remedies}:
            return finding
    return None


def carry_out(table: Table, call: str) -> str:
    """Make a call on a table, and say what it gave.

    Raises
    ------
    TidelakeError
        It failed.
    """
    method, given, named = parsed_call(call)
    found: Any = table
    for name in method.split("."):
        found = getattr(found, name)
    done = found(*given, **named)
    return "Done." if done is None else f"Done: {done}"
