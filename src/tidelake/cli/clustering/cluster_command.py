"""The command ``tidelake cluster``: the rows of an append table are sorted."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

from tidelake.cli.clustering.arguments import ClusterArguments
from tidelake.cli.command_line.opened_table import opened
from tidelake.engine.jobs import Chosen, TableClustering, order_of, plan_of_table
from tidelake.engine.tables import Table
from tidelake.errors import InvalidInputError, TidelakeError

FAILED = 1


def run(given: ClusterArguments) -> int:
    """Run the command and return the exit code."""
    try:
        table = opened(given.warehouse, given.table, given.catalog_options, given.memory)
        if given.dry_run:
            for facts in _planned(table, given):
                _print(facts, given)
            return 0
        done = table.compact(
            full=given.full, partitions=given.where, order=given.order, by=given.by
        )
    except TidelakeError as error:
        sys.stderr.write(f"error: {error.message}\n")
        return FAILED
    facts = {
        "table": table.identifier,
        "snapshots": list(done.snapshot_ids),
        "files": done.files,
        "bytes": done.bytes,
        "partitions_left_out": done.compactions_dropped,
    }
    _print(facts, given)
    return 0


def _planned(table: Table, given: ClusterArguments) -> list[dict[str, object]]:
    handle = table.handle
    order = order_of(handle, given.order, given.by)
    chosen = Chosen.of(handle, given.where, None)
    plan = plan_of_table(handle, chosen, full=given.full, order=order)
    if not isinstance(plan, TableClustering):
        message = (
            f"Table '{table.identifier}' has no 'clustering.incremental': give --order-strategy."
        )
        raise InvalidInputError(message, kind="bad_argument", table=table.identifier)
    return [
        {
            "table": table.identifier,
            "partition": handle.paths.partition_path(task.partition),
            "files": len(task.names),
            "bytes": task.size_bytes,
            "level": task.level,
        }
        for task in plan.tasks
    ]


def _print(facts: Mapping[str, object], given: ClusterArguments) -> None:
    if given.as_json:
        text = json.dumps(facts, ensure_ascii=False)
    else:
        text = ", ".join(f"{name} {value}" for name, value in facts.items() if value != "")
    sys.stdout.write(f"{text}\n")
