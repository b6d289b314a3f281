"""The row that a key has is decided in the package ``merge`` and nowhere else.

To decide it elsewhere a module needs merge's kernels, or the order in which rows were written and a
way to sort or group them. Each of these is had by the modules that are named here, and no others:
a module that joins them says here what for.
"""

import ast
from pathlib import Path

import pytest
from arch.sources import trees

import tidelake
from tidelake import merge

PACKAGE = Path(tidelake.__file__).parent

DOORS = {
    "tidelake.merge": set(merge.__all__),
    "tidelake.merge.spec": {"AGGREGATION", "DEDUPLICATE", "FIRST_ROW", "LOOKUP", "PARTIAL_UPDATE"},
    # of files, not of rows
    "tidelake.merge.runs.sections": {"KeyRange", "KeyRank", "key_rank", "meets_any", "sections_of"},
    "tidelake.merge.runs.spill": {"Join", "SpillStack"},
    "tidelake.merge.idle_settings": {"idle_settings"},
}
"""What others take from merge: whole merges, rules as values, never a kernel."""
KERNELS = {"Deduplicate", "MergeEngine", "Merged", "Segments", "engine_of"}
"""What merge shows to those who test or extend it."""

KNOW_THE_ORDER = {
    "format/__init__.py": "names it",
    "format/system_fields.py": "names it",
    "format/field_schema.py": "encodes it as what rises",
    "store/lsm/keyed_file.py": "writes files of sorted rows",
    "store/lsm/lookup.py": "reads rows for a merge",
    "scan/masks/winners.py": "reads rows for a merge",
    "scan/read.py": "reads rows for a merge",
    "scan/system_columns.py": "fills it in from the file's entry",
    "lookup/bucket_view.py": "reads rows for a merge",
    "table/health/data_check.py": "compares what a file holds with what its entry says",
    "table/query/view_builder.py": "copies it for such a merge",
    "table/rowlevel/update.py": "gives a merge the old row and the new one",
    "table/schema/validation.py": "forbids it as a name of a column",
}
"""Modules that name the sequence numbers of rows, and what for."""

ARRANGING = {
    *("argpartition", "argsort", "array_sort_indices", "drop_duplicates", "dropDuplicates"),
    *("group_by", "groupBy", "lexsort", "partition_nth_indices", "reduceat", "row_number"),
    *("select_k_unstable", "sort_by", "sort_indices"),
}
BENEATH = ("codec/", "format/", "types/")
"""Here values are arranged, of columns, not rows of a key."""
ARRANGE = {
    "cdc/job/lake.py": "changes of several tables with one target, into the order of the source",
    "cdc/kafka/row_changes.py": "rows of several partitions, into the order of the source",
    "kafka/rows.py": "deletes among the other messages, back into the order of the topic",
    "metadata/manifest/entry_table.py": "the entries of a partition and bucket",
    "scan/split_generator.py": "the files of a bucket",
    "scan/live_files.py": "files, by partition and bucket",
    "scan/plan.py": "the files of a bucket",
    "service/client/keys/key_router.py": "keys that are asked for, by bucket",
    "sql/execution/kernel_query.py": "ORDER BY",
    "spark/rowlevel/merge_by_join.py": "tells keys that a source has twice, to refuse them",
    "spark/rowlevel/merge_cardinality.py": "tells keys that would be changed twice, to refuse them",
    "table/health/file_checks.py": "buckets by their number of sorted runs",
    "table/health/measures.py": "files by bucket and level, for their numbers",
    "table/jobs/analyze.py": "the values of a column, for their statistics",
    "table/upkeep/bucket_coordinator.py": "files by bucket, for the buckets that need a compaction",
    "table/changelog/snapshot_diff.py": "a key's row in each of two snapshots, for what changed",
    "table/compare/diff_rows.py": "a key's row in each of two versions, where it moved",
    "table/stream/snapshot_units.py": "files into the order of a stream",
    "table/system/file_tables.py": "the files of a system table",
    "ui/model/file_layout.py": "buckets and partitions that are shown first",
    "table/rowlevel/row_positions.py": "rows that were found, back into the order of the query",
    "table/bucketing/cross_partition_assigner.py": "keys, each of which is looked for once",
    "table/query/table_view.py": "keys of a batch by bucket",
    "table/bucketing/router.py": "rows of a batch by bucket, in the order that they came in",
}
"""Modules that sort or group rows, and which."""


def outside_of_merge():
    """The tree of each module by its name."""
    named = {str(p.relative_to(PACKAGE)): t for p, t in trees().items() if PACKAGE in p.parents}
    return {name: tree for name, tree in named.items() if not name.startswith("merge/")}


def imports(tree):
    """Modules and names that are imported; a module as a whole under no name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                place = PACKAGE.parent / inner.replace(".", "/")
                is_module = place.is_dir() or place.with_suffix(".py").exists()
                yield (inner, None) if is_module else (node.module or "", alias.name)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)


def through_no_door(tree):
    """What is taken from merge past its doors."""
    return [
        f"{module}: {name}"
        for module, name in imports(tree)
        if f"{module}.".startswith("tidelake.merge.")
        and (name not in DOORS.get(module, ()) or name in KERNELS)
    ]


def knows_the_order(tree):
    words = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    taken = {
        name
        for module, name in imports(tree)
        if module in ("tidelake.format", "tidelake.format.system_fields")
    }
    # a module that is taken as a whole gives all its names
    return bool(taken & {"SEQUENCE_NUMBER", "SEQUENCE_FIELD", None}) or "_SEQUENCE_NUMBER" in words


def arranges(tree):
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    firsts = {
        getattr(c.func, "attr", "")
        for c in calls
        if any(k.arg == "return_index" for k in c.keywords)
    }
    names = {getattr(c.func, "attr", getattr(c.func, "id", "")) for c in calls}
    return bool(names & ARRANGING or "unique" in firsts)


def test_what_is_taken_from_merge_is_whole():
    found = {name: through_no_door(tree) for name, tree in outside_of_merge().items()}
    assert not {name: taken for name, taken in found.items() if taken}
    assert set(merge.__all__) >= KERNELS


def test_the_order_of_a_key_s_rows_is_known_to_few():
    found = {name for name, tree in outside_of_merge().items() if knows_the_order(tree)}
    assert found == set(KNOW_THE_ORDER)


def test_rows_are_sorted_and_grouped_by_few():
    modules = outside_of_merge().items()
    above = {name: tree for name, tree in modules if not name.startswith(BENEATH)}
    assert {name for name, tree in above.items() if arranges(tree)} == set(ARRANGE)


def test_nobody_who_sorts_rows_knows_their_order():
    assert not set(KNOW_THE_ORDER) & set(ARRANGE)


@pytest.mark.parametrize(
    ("finds", "text"),
    [
        (through_no_door, "from tidelake.merge.segments import Segments"),
        (through_no_door, "from tidelake.merge import engine_of"),
        (through_no_door, "from tidelake.merge import first_row"),
        (through_no_door, "import tidelake.merge.engines.first_row"),
        (through_no_door, "from tidelake.merge.functions.selection import last_value"),
        (through_no_door, "from tidelake import merge"),
        (knows_the_order, "from tidelake.format import SEQUENCE_FIELD as S"),
        (knows_the_order, "from tidelake import format\nformat.SEQUENCE_NUMBER"),
        (knows_the_order, "rows['_SEQUENCE_NUMBER']"),
        (arranges, "np.lexsort((numbers, keys))"),
        (arranges, "from numpy import argsort\nargsort(keys)"),
        (arranges, "rows.sort_by([('k', 'ascending')])"),
        (arranges, "np.unique(keys, return_index=True)"),
        (arranges, "rows.group_by('k').aggregate([('v', 'last')])"),
    ],
)
def test_a_module_that_decides_by_itself_is_found_out(finds, text):
    assert finds(ast.parse(text))
