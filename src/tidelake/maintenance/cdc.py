"""Procedures of jobs of change data capture: the verbs of ``tidelake cdc``.

A job is named by its file, so that no password is in a statement: statements stand in Spark's UI
and in logs. The session's runner makes the job; the procedures know no more of it than
:class:`~tidelake.maintenance.procedure.CdcJob` says.
"""

from __future__ import annotations

import json

import pyarrow as pa

from tidelake.errors import UnsupportedError
from tidelake.maintenance.procedure import (
    CdcJob,
    ParameterType,
    Procedure,
    ProcedureCall,
    Rows,
    optional,
    required,
)
from tidelake.maintenance.result_schemas import DONE, MESSAGE

_JOB_FILE = required(
    "job_file", ParameterType.STRING, "Path of the job's TOML file, on the driver's machine."
)
_STATUS = pa.schema(
    [
        pa.field("job", pa.string(), nullable=False),
        pa.field("epoch", pa.int64()),
        pa.field("position", pa.string()),
        pa.field("newest", pa.string()),
        pa.field("is_behind", pa.bool_(), nullable=False),
        pa.field("lag_seconds", pa.float64()),
        pa.field("lag_is_bound", pa.bool_(), nullable=False),
        pa.field("lag_note", pa.string()),
        pa.field("lag_bytes", pa.int64()),
        pa.field("lag_messages", pa.int64()),
        pa.field("quarantined", pa.int64(), nullable=False),
        pa.field("source_facts", pa.string(), nullable=False),
        pa.field("source_table", pa.string()),
        pa.field("target_table", pa.string()),
        pa.field("phase", pa.string()),
        pa.field("rows", pa.int64()),
        pa.field("copies", pa.int64()),
        pa.field("reason", pa.string()),
    ]
)
_NO_TABLE = (None,) * 6
_EPOCHS = pa.schema(
    [
        pa.field("epoch", pa.int64(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("start_position", pa.string(), nullable=False),
        pa.field("end_position", pa.string(), nullable=False),
        pa.field("begun", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("is_whole", pa.bool_()),
        pa.field("note", pa.string()),
        pa.field("snapshots", pa.string(), nullable=False),
    ]
)


def _job(call: ProcedureCall) -> CdcJob:
    if call.runner is None:
        message = (
            f"{call.procedure} needs a session of Spark. Without Spark use the command"
            f" 'tidelake cdc {call.procedure.removeprefix('cdc_')}', or Python's"
            " tidelake.cdc.from_file(...)."
        )
        raise UnsupportedError(message, kind="procedure_without_spark", procedure=call.procedure)
    return call.runner.cdc_from_file(call["job_file"])


def _rows_of_status(job: CdcJob) -> Rows:
    status = job.status()
    begun, lag = status.epoch >= 0, status.lag
    head = (
        status.job,
        status.epoch if begun else None,
        status.position or None,
        status.newest,
        status.is_behind,
        lag.seconds,
        lag.is_bound,
        lag.note or None,
        lag.bytes_count,
        lag.messages_count,
        status.quarantined,
        json.dumps(dict(status.source), default=str),
    )
    if not status.tables:
        return [(*head, *_NO_TABLE)]
    return [
        (*head, one.source, one.target, one.phase, one.rows, one.copies, one.reason or None)
        for one in status.tables
    ]


def _plan(call: ProcedureCall) -> Rows:
    return [(line,) for line in str(_job(call).plan()).splitlines()]


def _run(call: ProcedureCall) -> Rows:
    job = _job(call)
    job.run(once=True)
    return _rows_of_status(job)


def _status(call: ProcedureCall) -> Rows:
    return _rows_of_status(_job(call))


def _resnapshot(call: ProcedureCall) -> Rows:
    _job(call).resnapshot(call["source_table"])
    return [(True,)]


def _replay(call: ProcedureCall) -> Rows:
    plan = _job(call).replay(call["source_table"])
    return [(line,) for line in str(plan).splitlines()]


def _epochs(call: ProcedureCall) -> Rows:
    return [
        (
            one["epoch"],
            one["kind"],
            one["start"],
            one["end"],
            one["begun"],
            one["is_whole"],
            one["note"] or None,
            json.dumps(dict(one["snapshots"])),
        )
        for one in _job(call).epochs().to_pylist()
    ]


def _drop(call: ProcedureCall) -> Rows:
    return [(line,) for line in _job(call).drop()]


CDC_PLAN = Procedure(
    "cdc_plan",
    (_JOB_FILE,),
    MESSAGE,
    "Says what a database sync would do, and what keeps it from running; changes nothing. A line of"
    " text in each row. Tidelake's own, as the other procedures of database sync: see"
    " [Database sync](cdc.md).",
    _plan,
    "cdc_plan('/etc/tidelake/shop.toml')",
)
CDC_RUN = Procedure(
    "cdc_run",
    (_JOB_FILE,),
    _STATUS,
    "Applies what the source of a database sync has now, as a query of Structured Streaming, and"
    " answers as cdc_status does.",
    _run,
    "cdc_run('/etc/tidelake/shop.toml')",
)
CDC_STATUS = Procedure(
    "cdc_status",
    (_JOB_FILE,),
    _STATUS,
    "Says how far a database sync is: a row for each table. The source's own facts, such as the log"
    " that it holds for the job, are JSON.",
    _status,
    "cdc_status('/etc/tidelake/shop.toml')",
)
CDC_RESNAPSHOT = Procedure(
    "cdc_resnapshot",
    (
        _JOB_FILE,
        required("source_table", ParameterType.STRING, "As cdc_status names it, or its target."),
    ),
    DONE,
    "Asks that a table of a database sync is copied again: when the job looks, or at its next"
    " start.",
    _resnapshot,
    "cdc_resnapshot('/etc/tidelake/shop.toml', 'ods.orders')",
)
CDC_REPLAY = Procedure(
    "cdc_replay",
    (
        _JOB_FILE,
        optional(
            "source_table",
            ParameterType.STRING,
            "As cdc_status names it, or its target; all tables by default.",
        ),
    ),
    MESSAGE,
    "Asks that rows of the quarantine of a database sync are tried again: when the job looks, or at"
    " its next start. Says what would become of them now: a line of counts, and one for each row"
    " that stays, with the reason.",
    _replay,
    "cdc_replay('/etc/tidelake/shop.toml', 'ods.orders')",
)
CDC_EPOCHS = Procedure(
    "cdc_epochs",
    (_JOB_FILE,),
    _EPOCHS,
    "Lists the complete epochs of a database sync, oldest first, with the snapshot of each table"
    " that belongs to them, as JSON. is_whole is NULL where the source tells no transactions.",
    _epochs,
    "cdc_epochs('/etc/tidelake/shop.toml')",
)
CDC_DROP = Procedure(
    "cdc_drop",
    (_JOB_FILE,),
    MESSAGE,
    "Ends a database sync for good: what it made in the source goes, and its journal. Tables stay."
    " A row for each thing that was removed.",
    _drop,
    "cdc_drop('/etc/tidelake/shop.toml')",
)
