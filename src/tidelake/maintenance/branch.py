"""Procedures on branches, and on views."""

from __future__ import annotations

import logging

from tidelake.maintenance.parameters import DRY_RUN, TABLE
from tidelake.maintenance.procedure import (
    ParameterType,
    Procedure,
    ProcedureCall,
    Rows,
    optional,
    required,
)
from tidelake.maintenance.result_schemas import DONE

SPARK_DIALECT = "spark"
"""The dialect of a view's query where a call names none."""
_LOG = logging.getLogger("tidelake")
_BRANCH = required("branch", ParameterType.STRING, "The branch's name.")


def _create(call: ProcedureCall) -> Rows:
    call.table.branches.create(
        call["branch"],
        tag=call["tag"],
        snapshot_id=call["snapshot"],
        if_exists="ignore" if call["ignoreIfExists"] else "error",
    )
    return [(True,)]


def _delete(call: ProcedureCall) -> Rows:
    names = [name.strip() for name in call["branch"].split(",")]
    table = call.table
    known = {branch.name for branch in table.branches}  # also a part of one
    for name in names:
        if name not in known:
            table.branch(name)  # refuses it, before the first is deleted
    for name in dict.fromkeys(names):
        table.branches.delete(name)
    return [(True,)]


def _rename(call: ProcedureCall) -> Rows:
    call.table.branches.rename(call["from_branch"], call["to_branch"])
    return [(True,)]


def _fast_forward(call: ProcedureCall) -> Rows:
    table, branch, is_dry = call.table, call["branch"], bool(call["dry_run"])
    done = table.branches.fast_forward(branch, dry_run=is_dry)
    if is_dry:  # the answer has no place for it
        _LOG.warning(
            "Table %s: fast_forward to branch '%s' would end at snapshot %s, and remove or replace"
            " snapshots %s and tags %s.",
            table.identifier,
            branch,
            done.snapshot_id,
            list(done.removed_snapshot_ids),
            list(done.removed_tags),
        )
    return [(True,)]


CREATE_BRANCH = Procedure(
    "create_branch",
    (
        TABLE,
        _BRANCH,
        optional("tag", ParameterType.STRING, "The tag to begin at; without it no rows."),
        optional("ignoreIfExists", ParameterType.BOOLEAN, "Leave a branch of that name as it is."),
        optional("snapshot", ParameterType.LONG, "The snapshot to begin at.", is_ours=True),
    ),
    DONE,
    "Creates a branch, empty or with the rows of a tag or a snapshot.",
    _create,
    "create_branch(table => 'db.t', branch => 'audit', snapshot => 1)",
)
DELETE_BRANCH = Procedure(
    "delete_branch",
    (TABLE, required("branch", ParameterType.STRING, "The branch's name; several with commas.")),
    DONE,
    "Removes branches with their snapshots and tags. An unknown branch is an error.",
    _delete,
    "delete_branch(table => 'db.t', branch => 'checked')",
)
RENAME_BRANCH = Procedure(
    "rename_branch",
    (
        TABLE,
        required("from_branch", ParameterType.STRING, "The branch's name."),
        required("to_branch", ParameterType.STRING, "The new name."),
    ),
    DONE,
    "Gives a branch another name.",
    _rename,
    "rename_branch(table => 'db.t', from_branch => 'audit', to_branch => 'checked')",
)
FAST_FORWARD = Procedure(
    "fast_forward",
    (TABLE, _BRANCH, DRY_RUN),
    DONE,
    "Makes the table what a branch is: its snapshots, tags and schemas replace those of the table"
    " since the branch began. A dry run logs a warning with what would go.",
    _fast_forward,
    "fast_forward(table => 'db.t', branch => 'checked')",
)


def _alter_view(call: ProcedureCall) -> Rows:
    call.catalog.alter_view_dialect(
        call["view"], call["action"], dialect=call["engine"] or SPARK_DIALECT, query=call["query"]
    )
    return [(True,)]


ALTER_VIEW_DIALECT = Procedure(
    "alter_view_dialect",
    (
        required("view", ParameterType.STRING, "The view, as `database.view`."),
        required("action", ParameterType.STRING, "`add`, `update` or `drop`."),
        optional("engine", ParameterType.STRING, "The dialect; `spark` by default."),
        optional("query", ParameterType.STRING, "The query, for `add` and `update`."),
    ),
    DONE,
    "Adds, updates or drops the query of a view in the dialect of an engine. Only a REST catalog"
    " keeps views.",
    _alter_view,
    "alter_view_dialect(view => 'db.v', action => 'add', engine => 'flink', query => 'SELECT 1')",
)
