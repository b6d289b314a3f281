"""Pages of docs/internals: one per package, made of the docstrings of its rooms and modules.

What a room is for stands in its ``__init__``, what a module is for in its first sentence, and the
order of rooms in the contracts of pyproject. Written by hand are only the notes: how the parts work
together, and where to begin.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from prose import wrapped

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src/tidelake"
ROLE = re.compile(r":\w+:`~?([^`]+)`")

NOTES: Mapping[str, str] = {
    "scan": """\
A read takes four steps:

1. `plan` chooses the manifests, folds their entries to the live files and prunes these. `pruning`
   holds the rules.
2. `split_generator` cuts each bucket's files into splits. The files of a raw split need no merge; a
   merge split holds whole sections.
3. `split_wire` sends splits to executors.
4. `read` gives the rows of a split: file after file, or through `tidelake.merge`.

The driver plans and executors read. `ReadContext` is what both need. A file that is missing
because its snapshot expired is an error of the kind `snapshot_expired` (`expired`). Begin with
`tidelake.scan.plan`. The rules: [Reading](../format/reading.md).""",
    "table": """\
`Table` keeps no state of the data: each call looks for the newest snapshot. `TableHandle` is the
value that every room takes. It is a `TableState` (`tidelake.metadata.table_state`), as are the
contexts that it makes: `read_context()`, `store_context()`, `commit_context()`.

A read is a `ScanRequest`. `ScanRequest.planned` finds its snapshot and plans again if the newest
one expires meanwhile; tables and views share it. Begin with `tidelake.table.table`, then the room
of the method that you follow.""",
    "spark": """\
`Lake` gives DataFrames and takes them. The driver plans and commits; executors read, merge, sort
and write through the same engine code as one process does. [On Spark](on-spark.md) says how.

A read: `table_frame` plans, `native_split` gives Spark's own Parquet scan what needs no merge,
`scan_frame` gives the rest to executors. A merge goes to the buckets (`rowlevel.merge_by_bucket`,
[ADR 33](../adr/0033-a-merge-goes-to-the-buckets.md)) or is a join (`rowlevel.merge_by_join`).
Begin with `tidelake.spark.lake`.""",
    "service": """\
A client finds the address server by a file in the table's directory, asks it for the executors,
and sends each key to the executor that owns the key's bucket. `protocol` is all that the sides
share: the messages of `tidelake_query_v1.proto`, rows as packed columns, who owns a bucket. Begin
with `tidelake.service.protocol.packed_columns`.""",
    "sql": """\
A statement is text, then tokens, then a value of `syntax.ast`, then an answer. `execution`
carries out what needs no query engine. `query` looks into a query, so that reads are pruned;
Spark or the kernel runs it. Begin with `tidelake.sql.syntax.ast`. The statements:
[SQL](../sql.md), [ADR 29](../adr/0029-statements-are-spliced-not-regenerated.md).""",
    "metadata": """\
From the newest snapshot to its files: `log.snapshot_log` finds it, `manifest.snapshot_entries`
reads its manifests through `manifest.manifest_cache`, and `manifest.entry_table` folds the
entries to the live files. `table_state` is the one value that readers, writers and commits
share. Begin with `tidelake.metadata.log.snapshot_log`. The bytes:
[Snapshot](../format/snapshot.md), [Schema](../format/schema.md),
[Manifest](../format/manifest.md), [Tag](../format/tag.md).""",
    "format": """\
`data_file` is the face: `read_batches` and `open_writer` choose the format by the name's ending.
Every reader finds columns by field id (or by name where a format has none), casts old types, and
leaves out the rows of a deletion vector. Begin with `tidelake.format.data_file`. The bytes: [Data
file](../format/data-file.md), [File index](../format/file-index.md).""",
    "merge": """\
`runs.sorted_runs` streams sorted runs, and `runs.bounded` keeps them within a share of memory.
`segments` puts the rows in merge order. An engine of `engines` gives one row per key, with a
function of `functions` per column. Only this package knows the order of rows; a test holds that.
Begin with `tidelake.merge.runs.sorted_runs`, then `tidelake.merge.segments`. The rules:
[Merge](../format/merge.md).""",
    "lookup": """\
From a key to its row:

1. `table.query` finds the bucket, and asks its `bucket_view`.
2. The view asks the bucket's files, newest first, or collects all rows of the key for
   `tidelake.merge.fold_rows`.
3. `opened_file` searches the hash table of a lookup file (`layout`), and `row_values` reads the
   row.

`build` makes a lookup file, `cache` keeps the files on the local disk. A view never changes: a
refresh makes a new one, so a get takes no lock. Begin with `tidelake.lookup.layout`, then
`tidelake.lookup.bucket_view`. Why: [ADR 66](../adr/0066-lookup-files-are-arrow-memory.md).""",
    "store": """\
A writer of one bucket takes rows, keeps them in a buffer under the memory budget, flushes them to
level 0, and compacts what `pick` chooses. It is handed the live files and never scans; what it
did is one `CommitMessage`. `pick` is pure: its cases are the text `tests/golden/lsm_pick.txt`.
Begin with `tidelake.store.lsm.bucket_writer`.""",
}


def package_pages() -> dict[str, Callable[[], str]]:
    """The pages by their paths."""
    return {f"internals/{name}.md": partial(_page, name) for name in NOTES}


def _page(name: str) -> str:
    package = SOURCE / name
    order = _order(name)
    parts = [
        f"# Package {name}\n",
        "<!-- Written by scripts/gen_docs.py from the docstrings; notes are in"
        " scripts/package_page.py. -->\n",
        wrapped(_text(package / "__init__.py")) + "\n",
        NOTES[name] + "\n",
    ]
    if order:
        levels = ", ".join(" | ".join(f"`{room}`" for room in level) for level in order)
        first, _, rest = levels.partition(", ")
        said = (
            "By contract each room imports only from those after it. The highest are"
            f" {first}. Then come: {rest}."
        )
        parts.append(wrapped(said) + "\n")
    parts.append(_modules(package))
    return "\n".join([*parts, *_rooms(name, level=2)])


def _rooms(name: str, *, level: int) -> Iterator[str]:
    """The rooms of a package or room, and those inside them."""
    ranks = {room: rank for rank, among in enumerate(_order(name)) for room in among}
    places = [path.parent for path in (SOURCE / name.replace(".", "/")).glob("*/__init__.py")]
    for place in sorted(places, key=lambda place: (ranks.get(place.name, 0), place.name)):
        room = f"{name}.{place.name}"
        yield f"{'#' * level} {room}\n\n{wrapped(_text(place / '__init__.py'))}\n"
        if modules := _modules(place):
            yield modules
        yield from _rooms(room, level=level + 1)


def _order(name: str) -> list[list[str]]:
    """The rooms of a package or room, high to low, as its contract has them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for contract in project["tool"]["importlinter"]["contracts"]:
        if contract.get("containers") == [f"tidelake.{name}"]:
            return [[room.strip() for room in level.split("|")] for level in contract["layers"]]
    return []


def _modules(room: Path) -> str:
    found = [p for p in sorted(room.glob("*.py")) if p.stem != "__init__"]
    rows = [f"| `{p.stem}` | {_text(p, first=True)} |" for p in found]
    return "\n".join(["| Module | What it is for |", "| --- | --- |", *rows, ""]) if rows else ""


def _text(path: Path, *, first: bool = False) -> str:
    """A module's docstring as text; with `first` its first paragraph."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    text = docstring.split("\n\n")[0] if first else docstring
    text = ROLE.sub(r"`\1`", " ".join(text.split())).replace("``", "`")
    return text.replace("|", "\\|") if first else text
