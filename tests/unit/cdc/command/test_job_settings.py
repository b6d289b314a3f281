"""What a user asks reaches the job and its targets, and is enough to make one."""

import shlex

import tidelake
from tidelake.cdc.command.given import read_words
from tidelake.cdc.command.job_settings import job_settings, lake_settings
from tidelake.cdc.command.sync_config import config_of
from tidelake.cdc.job.targets import Targets
from tidelake.cdc.source.source_table import SourceColumn, SourceName, SourceTable
from tidelake.types import parse_type

COMMAND = "postgres_sync_database"
LINE = (
    "--warehouse /w --database ods --table_prefix x_ --postgres_conf hostname=h --mode combined"
    " --computed_column 'day=date_format(at, yyyy-MM-dd)' --metadata_column op_ts,schema_name"
    " --partition_keys day --primary_keys id,day --table_conf bucket=2 --interval 250ms"
    " --max-rows 10 --on-lost-position resnapshot --quarantine-max 3 --job j"
)
CONFIG = config_of(COMMAND, read_words(COMMAND, shlex.split(LINE)))


def test_a_job_runs_as_it_is_asked_to():
    made = job_settings(CONFIG)
    assert (made.name, made.limits.rows_max, made.limits.gather_ms) == ("j", 10, 250)
    assert (made.takes_new_tables, made.resnapshots_if_lost) == (True, True)


def test_a_target_is_made_as_it_is_asked_for(tmp_path):
    columns = (
        SourceColumn("id", "int4", parse_type("INT NOT NULL")),
        SourceColumn("at", "timestamp", parse_type("TIMESTAMP(6) NOT NULL")),
    )
    source = SourceTable(SourceName("d", "public", "t"), columns, ("id",))
    settings = lake_settings(CONFIG, zone="UTC")
    assert settings.quarantine_max == 3
    targets = Targets(tidelake.open(str(tmp_path)), settings)
    [(name, identifier)] = targets.routes([source]).items()
    assert (name, identifier) == (source.name, "ods.x_t")
    targets.make(identifier, [source])
    schema = tidelake.open(str(tmp_path)).table(identifier).table_schema
    assert schema.field_names == (
        "id", "at", "day", "op_ts", "schema_name", "_cdc_lsn", "_cdc_seq",
    )  # fmt: skip
    assert (schema.primary_keys, schema.partition_keys) == (("id", "day"), ("day",))
    assert schema.options["sequence.field"] == "_cdc_lsn,_cdc_seq"
    assert settings.evolution.reserved == set(schema.field_names) - {"id", "at"}
