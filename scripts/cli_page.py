"""The page of the program, made of its declaration."""

from __future__ import annotations

from collections.abc import Iterable

from tidelake.cli.command_line.flag import PROGRAM, Command, Flag
from tidelake.cli.declaration import COMMANDS, EXIT_CODES
from tidelake.cli.shell.session_commands import COMMAND_WORDS, KEYS

__all__ = ["cli_page"]

CLI_HEAD = """\
# Command line

<!-- Written by scripts/gen_docs.py from src/tidelake/cli: change it there. -->

`tidelake sql` runs [SQL](sql.md) on a warehouse, a directory of tables.
[`tidelake tail`](#following-a-table) prints the changes of a table as they come.
`tidelake get` prints rows by their keys, and `tidelake serve` answers such reads for other
processes: [Query service](query-service.md#on-the-command-line).

```console
$ pip install 'tidelake[spark]'
$ tidelake sql --warehouse /tmp/cli-warehouse
```

It prompts for statements, each ended by a semicolon. Without a person it takes them from the
command line, a file or a pipe, and writes answers that programs read:

```console
$ export TIDELAKE_WAREHOUSE=/tmp/cli-warehouse
$ tidelake sql -c "CREATE TABLE orders (id INT, item STRING, PRIMARY KEY (id) NOT ENFORCED)"
$ tidelake sql -c "INSERT INTO orders VALUES (1, 'tea'), (2, 'rye')"
$ tidelake sql --format json -c "SELECT * FROM orders"
{"id":1,"item":"tea"}
{"id":2,"item":"rye"}
$ tidelake sql --format json -c "SELECT max(item) AS last FROM orders"
Spark starts ...
Spark 4.3.0 runs (5.2 s).
{"last":"tea"}
$ tidelake sql -f nightly.sql --echo --timing
```

## When Spark starts

Spark starts when a statement first needs it, and says so on the standard error. Without it run:

- `SHOW`, `DESCRIBE`, `CREATE`, `ALTER`, `DROP` and all else that changes no rows;
- `CALL`: a compaction works in this process then, on the executors where Spark runs;
- queries of one table or [system table](system-tables.md): its columns or `count(*)`, a `WHERE`
  that compares them with literals, `LIMIT`;
- `INSERT INTO t [(columns)] VALUES` of plain literals that their columns hold to the last digit:
  numbers, strings without a backslash, `TRUE`, `NULL`, `DATE`, `TIMESTAMP`, `TIMESTAMP_NTZ` and
  `TIMESTAMP_LTZ '...'`, and `CAST` of them.

Rows, types and refusals are the same as on Spark. Once Spark runs it answers all queries, and
inserts. `--no-spark` refuses what needs it, and `pip install 'tidelake[cli]'` is enough then.

Settings of Spark are given by `--conf`, or by `SET 'key' = 'value'`. What Spark logs is not shown;
a failure's reason is.

## Following a table

`tidelake tail` prints each change when it is committed, as `tail -f` prints lines, until Ctrl-C.
Spark does not start. `op` is what became of a row: `+I` inserted, `-U` and `+U` an update's old and
new row, `-D` deleted.

```console
$ tidelake tail default.orders --from full --timeout 0
op │ id │ item
───┼────┼─────
+I │  1 │ tea
+I │  2 │ rye
$ tidelake tail orders --from 1 --columns item --format json --limit 1
{"op":"+I","item":"tea"}
$ tidelake tail orders --consumer-id mailer --format csv | ./mail.sh
```

| `--from` | Shows |
| --- | --- |
| `latest` | changes from now on |
| `full` | all rows, then changes |
| `7` | the changes of snapshot 7, and later ones |
| `2026-11-25 16:00` | changes since that time, in the zone of this machine unless it names one |

With `--consumer-id` the next run goes on after the last snapshot that was printed whole, whatever
`--from` says; rows of one that was not come again. So do all rows of `--from full` that a
`--limit` or Ctrl-C cut off. What it has not shown does not expire. `--where` on a table with a
primary key shows `-D` for a row that [leaves the filter](streams.md#filters).
"""

FORMATS_PART = """\
## Formats

`table` is for the eye: signs that a terminal would obey are escaped, binaries are hexadecimal. An
answer larger than the screen goes through `$PAGER`, or `less`. `vertical` has a line per value.

`json` is an object per row and line. Decimals are numbers with all their digits, `NaN` and the
infinities are text, binaries base64, dates and times ISO 8601 (instants with the offset of the
session's zone), maps objects whose keys are text, variants what they hold.

`csv` has a head and fields by RFC 4180: a null is nothing, an empty text `""`, what is nested is
JSON.
"""


def cli_page() -> str:
    """The page of the program."""
    parts = [CLI_HEAD.rstrip("\n")]
    rows = [(f"`{name}`", words) for name, words in (KEYS | COMMAND_WORDS).items()]
    parts.append("\n" + _rows(("Key or command", "What it does"), rows))
    parts += [_command_part(command) for command in COMMANDS]
    codes = [(str(code), words) for code, words in EXIT_CODES]
    parts.append(_section("Exit codes", ("Code", "Meaning"), codes))
    parts.append(FORMATS_PART)
    return "\n".join(parts)


def _command_part(command: Command) -> str:
    rows = [_flag_row(flag) for flag in command.flags]
    title = f"`{PROGRAM} {command.name}`"
    table = _section(title, ("Option", "Default", "What it does"), rows)
    head, rest = table.split("\n", 1)
    return f"{head}\n\n{command.what}\n{rest}"


def _flag_row(flag: Flag) -> tuple[str, ...]:
    value = f" {flag.value}" if flag.value else ""
    if flag.is_operand:
        return (f"`{flag.value}{' ...' * flag.repeats}`", "", flag.what)
    words = flag.what
    if flag.choices:
        words += f" One of {', '.join(f'`{choice}`' for choice in flag.choices)}."
    if flag.repeats:
        words += " May be given several times."
    return (", ".join(f"`{name}{value}`" for name in flag.names), flag.default or "", words)


def _section(title: str, head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    return f"## {title}\n\n{_rows(head, rows)}"


def _rows(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    return "\n".join([_row(head), _row(("---",) * len(head)), *map(_row, rows), ""])


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
