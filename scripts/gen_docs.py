"""Write the generated pages of the documentation, or check that they are up to date.

Usage: python scripts/gen_docs.py [--check]
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from adr_page import adr_page
from cli_page import cli_page
from errors_page import errors_page
from names_page import names_page
from options_stub import options_stub
from package_page import package_pages
from prose import wrapped
from sql_page import sql_page
from versions_page import compatibility_page

from tidelake.maintenance import PROCEDURES, REFUSED, Parameter, Procedure
from tidelake.options.declared import THEMES
from tidelake.options.key_pattern import PATTERNS
from tidelake.options.option import EVERY_ACTION, Coverage, Kind, Option, Support
from tidelake.options.paimon2_options import PAIMON2_OPTIONS
from tidelake.options.text_value import to_text

DOCS = Path(__file__).resolve().parents[1] / "docs"
STUB = "../src/tidelake/options/declared.pyi"

KIND_NAMES = {
    Kind.BOOLEAN: "true / false",
    Kind.INTEGER: "integer",
    Kind.LONG: "long",
    Kind.FLOAT: "number",
    Kind.DOUBLE: "number",
    Kind.STRING: "text",
    Kind.MEMORY_SIZE: "size",
    Kind.DURATION: "duration",
    Kind.MAP: "pairs",
}

OPTIONS_HEAD = """\
# Options

<!-- Written by scripts/gen_docs.py from src/tidelake/options: change it there. -->

Every option of Paimon 1.3.1, with its key, type and default, and how far this version covers it:

- **supported**: it works as in Java Paimon.
- **no effect**: it is kept with the table and changes nothing here; the reason follows. Such an
  option only shapes files or speed, belongs to another option, or says what always holds here.
- **not done**: it is kept with the table, and the work that it promises (to delete, to keep, to
  create, to publish) does not happen here; what to do instead follows. A warning says so when a
  table is created or altered with it, and at the first write of each process.
- **refused**: creating, reading or writing a table (as said) with another value than the default
  is an error before the first byte, with this reason.

Sizes are written `128 mb` (units b, kb, mb, gb, tb), durations `1 h`, `30 min`, `10 s` or
`500 ms`, pairs `0:lz4,5:zstd`. A key that is not listed is an error when you create a table, with
near names; a key that a table of a later Paimon has on disk is kept untouched.
"""


def options_page() -> str:
    """The page of all options."""
    parts = [OPTIONS_HEAD]
    for title, options in THEMES.items():
        parts.append(_terms(title, [_option_term(option) for option in options]))
    families = [(p.title, f"{_support(p.coverage)}. {p.description}") for p in PATTERNS]
    parts.append(_terms("Families of keys", families))
    later = [
        (
            f"`{_plain(option.regex)}`",
            f"{f'neutral is `{option.neutral}`' if option.neutral else 'unset'};"
            f" refused on {_actions(option.actions)}: {option.reason}.",
        )
        for option in PAIMON2_OPTIONS
    ]
    parts.append(_terms("Options of Paimon 2 that are refused", later))
    return "\n".join(parts)


PROCEDURES_HEAD = """\
# Procedures

<!-- Written by scripts/gen_docs.py from src/tidelake/maintenance: change it there. -->

Jobs on tables, under the names, parameters and answers that they have in Paimon (1.3.1) on Spark.
Arguments go by position or by name, in any case; NULL is the same as leaving one out.

From Python:

```pycon
>>> import tempfile, pyarrow as pa, tidelake
>>> from tidelake.maintenance import call
>>> catalog = tidelake.open(tempfile.mkdtemp())
>>> table = catalog.create_table("db.t", pa.schema({"k": pa.int64()}))
>>> for k in (1, 2, 3):
...     _ = table.write([{"k": k}])
>>> call(catalog, "rollback", named={"table": "db.t", "snapshot": 2}).to_pylist()
[{'previous_snapshot_id': 3, 'current_snapshot_id': 2}]

```

`call` gives an Arrow table. With `runner=` a `tidelake.spark.Lake`, compactions run on its
executors. Text is cast where that changes nothing (`'2'` for a number, `'true'`), everything else
of another type is an error. What a procedure of Paimon's destroys can be asked first, where it
says `dry_run`.
"""


def procedures_page() -> str:
    """The page of all procedures."""
    parts = [PROCEDURES_HEAD, *(_procedure_part(p) for p in PROCEDURES.values())]
    rows = [(f"`{name}`", reason) for name, reason in REFUSED.items()]
    head = "Paimon's other procedures"
    parts.append(_table(head, ("Procedure", "Why it is not here"), rows))
    return "\n".join(parts)


def _procedure_part(procedure: Procedure) -> str:
    rows = [_parameter_row(p) for p in procedure.parameters]
    columns = [
        f"`{f.name}` {ANSWER_TYPES[str(f.type)]}{'' if f.nullable else ' NOT NULL'}"
        for f in procedure.output
    ]
    table = _table(procedure.name, ("Parameter", "Type", "What it says"), rows)
    title, rest = table.split("\n", 1)
    example = f"```sql\nCALL sys.{procedure.example}\n```"
    answers = f"Answers {', '.join(columns[:SENTENCE_COLUMNS_MAX])}."
    if len(columns) > SENTENCE_COLUMNS_MAX:
        answers += f" Also {', '.join(columns[SENTENCE_COLUMNS_MAX:])}."
    answers = wrapped(answers)
    return f"{title}\n\n{wrapped(procedure.description)}\n\n{example}\n{rest}\n{answers}\n"


SENTENCE_COLUMNS_MAX = 13
ANSWER_TYPES = {
    "bool": "BOOLEAN",
    "int64": "BIGINT",
    "string": "STRING",
    "int32": "INT",
    "double": "DOUBLE",
    "timestamp[us, tz=UTC]": "TIMESTAMP",
}


def _parameter_row(parameter: Parameter) -> tuple[str, ...]:
    notes = " Must be given." if parameter.is_required else ""
    notes += " Not in Paimon 1.3.1." if parameter.is_ours else ""
    return (f"`{parameter.name}`", str(parameter.type), parameter.description + notes)


PAGES: Mapping[str, Callable[[], str]] = {
    "adr/index.md": lambda: adr_page(DOCS / "adr"),
    "cli.md": cli_page,
    "compatibility.md": compatibility_page,
    "errors.md": errors_page,
    "names-from-elsewhere.md": names_page,
    "options.md": options_page,
    STUB: options_stub,
    "procedures.md": procedures_page,
    "sql-and-paimon.md": sql_page,
    **package_pages(),
}


def _option_term(option: Option[Any]) -> tuple[str, str]:
    kind = " / ".join(option.choices) if option.choices else KIND_NAMES[option.kind]
    if option.default is None or option.default in ("", {}):
        default = "unset"
    else:
        default = f"`{to_text(option, option.default)}`"
    description = option.description
    if option.fallback_keys:
        older = ", ".join(f"`{key}`" for key in option.fallback_keys)
        description += f" Older names: {older}."
    if not option.mutable:
        description += " Fixed once the table has data."
    support = _support(option.coverage)
    return (f"`{option.key}`", f"{kind}, default {default}. {support}. {description}")


def _support(coverage: Coverage) -> str:
    if coverage.support is Support.SUPPORTED:
        return "**supported**"
    if coverage.support is Support.NO_EFFECT:
        return f"**no effect**: {coverage.reason}"
    if coverage.support is Support.NOT_DONE:
        return f"**not done**: {coverage.reason}"
    where = {"any": "", "primary_key": " of primary-key tables", "append": " of append tables"}
    refused = f"refused on {_actions(coverage.actions)}{where[coverage.tables]}: {coverage.reason}"
    if coverage.support is Support.REFUSED:
        return f"**{refused.replace(':', '**:', 1)}"
    accepted = ", ".join(f"`{value}`" for value in coverage.accepted)
    return f"**{accepted}**; others {refused}"


def _actions(actions: frozenset[Any]) -> str:
    return "every use" if actions == EVERY_ACTION else " and ".join(sorted(actions))


def _plain(regex: str) -> str:
    return regex.replace("\\", "")


def _terms(title: str, terms: list[tuple[str, str]]) -> str:
    """A list of terms, each with its text below it, wrapped."""
    parts = [f"## {title}", ""]
    for term, text in terms:
        marked = text if "`" in text else text.replace("<", "&lt;").replace(">", "&gt;")
        shown = term if "`" in term else term.replace("<", "&lt;").replace(">", "&gt;")
        parts += [shown, wrapped(marked, first=":   ", indent="    "), ""]
    return "\n".join(parts)


def _table(title: str, head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [f"## {title}", "", _row(head), _row(("---",) * len(head)), *map(_row, rows), ""]
    return "\n".join(lines)


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _cell(text: str) -> str:
    # a family's title such as fields.<column>.x would be read as HTML
    escaped = text if "`" in text else text.replace("<", "&lt;").replace(">", "&gt;")
    return escaped.replace("|", "\\|")


def main() -> int:
    """Write the pages; with --check only compare, and fail where one is old."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, fail if one is old")
    check = parser.parse_args().check
    stale = 0
    for name, page in PAGES.items():
        path = (DOCS / name).resolve()
        shown = path.relative_to(DOCS.parent)
        wanted = page()
        found = path.read_text(encoding="utf-8") if path.exists() else ""
        if found == wanted:
            continue
        if check:
            stale += 1
            difference = difflib.unified_diff(
                found.splitlines(), wanted.splitlines(), str(shown), "generated", lineterm=""
            )
            print("\n".join(list(difference)[:40]))
        else:
            path.write_text(wanted, encoding="utf-8")
            print(f"wrote {shown}")
    if stale:
        print("Generated pages are old: run 'make docs-gen'.", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
