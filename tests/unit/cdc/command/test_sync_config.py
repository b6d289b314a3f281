"""Paimon's command lines and ours as one value; what is wrong is refused by name."""

import pickle
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelake.cdc.command.argument import ARGUMENTS, SYNC_COMMANDS, Shape, arguments_of
from tidelake.cdc.command.given import read_words
from tidelake.cdc.command.job_file import job_text, read_job
from tidelake.cdc.command.secret_text import SecretWays
from tidelake.cdc.command.sync_config import config_of
from tidelake.cdc.command.values import given_of
from tidelake.cdc.evolution.plan import Policy
from tidelake.cdc.routing.routing import Mode
from tidelake.cdc.source.source_table import SourceName
from tidelake.cdc.source.type_mapping import Switch
from tidelake.errors import InvalidInputError

MYSQL = "--mysql_conf hostname=h --mysql_conf username=u --mysql_conf database-name=d"
POSTGRES = "--postgres_conf hostname=h --postgres_conf database-name=d --postgres_conf slot.name=s"
KAFKA = "--kafka_conf topic=t --kafka_conf value.format=canal-json"
CONF = {"mysql": MYSQL, "postgres": POSTGRES, "kafka": KAFKA}


def config(command, line=""):
    return config_of(command, read_words(command, shlex.split(line)))


def small(command="mysql_sync_table", line=""):
    """A command with what it must have."""
    source, what = SYNC_COMMANDS[command]
    table = "--table t" if what == "table" else ""
    return config(command, f"--warehouse /w --database db {table} {CONF[source]} {line}")


# the examples of Paimon's help, line by line
PAIMON = {
    "mysql_sync_table": r"""
        --warehouse hdfs:///path/to/warehouse --database test_db --table test_table
        --partition_keys pt --primary_keys pt,uid
        --computed_column '_year=year(age)' --type_mapping to-nullable,char-to-string
        --mysql_conf hostname=127.0.0.1 --mysql_conf username=root --mysql_conf password=123456
        --mysql_conf database-name=source_db --mysql_conf table-name='source_table1|source_table2'
        --catalog_conf metastore=hive --catalog_conf uri=thrift://hive-metastore:9083
        --table_conf bucket=4 --table_conf changelog-producer=input --table_conf sink.parallelism=4
    """,
    "mysql_sync_database": r"""
        --warehouse hdfs:///path/to/warehouse --database test_db --ignore_incompatible true
        --merge_shards false --table_prefix ods_ --table_suffix _x --including_tables 'a|b.+'
        --excluding_tables b1 --mode combined --metadata_column table_name,op_ts
        --mysql_conf hostname=127.0.0.1 --mysql_conf username=root --mysql_conf password=123456
        --mysql_conf database-name=source_db --table_conf bucket=4
    """,
    "postgres_sync_table": r"""
        --warehouse /w --database test_db --table test_table --partition_keys pt
        --primary_keys pt,uid --computed_column '_year=year(age)' --metadata_column schema_name
        --postgres_conf hostname=127.0.0.1 --postgres_conf username=root
        --postgres_conf password=123456 --postgres_conf database-name='source_db'
        --postgres_conf schema-name='public' --postgres_conf slot.name='paimon_cdc'
        --postgres_conf table-name='source_table1|source_table2' --table_conf bucket=4
    """,
    "kafka_sync_table": r"""
        --warehouse /w --database test_db --table test_table --partition_keys pt
        --primary_keys pt,uid --computed_column '_year=year(age)'
        --metadata_column topic --metadata_column partition --metadata_column_prefix __kafka_
        --kafka_conf properties.bootstrap.servers=127.0.0.1:9020 --kafka_conf topic=order
        --kafka_conf properties.group.id=123456 --kafka_conf value.format=canal-json
    """,
    "kafka_sync_database": r"""
        --warehouse /w --database test_db --table_mapping 'a=b' --table_prefix_db 'db1=p_'
        --table_suffix_db 'db1=_s' --including_dbs 'db.*' --excluding_dbs 'db9'
        --multiple_table_partition_keys 'a=x,y' --eager_init true
        --kafka_conf properties.bootstrap.servers=127.0.0.1:9020
        --kafka_conf topic='order;logistic;user' --kafka_conf properties.group.id=123456
        --kafka_conf value.format=canal-json --table_conf bucket=4
    """,
}


@pytest.mark.parametrize("command", PAIMON)
def test_paimons_command_lines_are_taken_as_they_are(command):
    made = config(command, PAIMON[command])
    assert made.command == command
    assert made.routing.database == "test_db"
    assert pickle.loads(pickle.dumps(made)) == made


def test_a_command_of_a_table():
    made = config("mysql_sync_table", PAIMON["mysql_sync_table"])
    assert made.source_conf == {
        "hostname": "127.0.0.1", "username": "root", "password": "123456",
        "database-name": "source_db", "table-name": "source_table1|source_table2",
    }  # fmt: skip
    assert made.catalog_conf == {"metastore": "hive", "uri": "thrift://hive-metastore:9083"}
    assert (made.warehouse, made.job) == ("hdfs:///path/to/warehouse", "test_db-test_table")
    assert made.routing.target_of(SourceName("x", "", "y")) == "test_db.test_table"
    assert made.target.primary_keys == ("pt", "uid")
    assert made.target.partition_keys == made.routing.partition_keys == ("pt",)
    assert made.target.table_conf["changelog-producer"] == "input"
    assert (made.target.is_strict, made.target.requires_key) == (True, True)
    assert made.computed == ("_year=year(age)",)
    assert Switch.TO_NULLABLE in made.evolution.mapping
    assert made.evolution.reserved == {"_year", "_cdc_lsn", "_cdc_seq"}
    assert made.evolution.needed == {"age"}


def test_a_command_of_a_database():
    made = config("mysql_sync_database", PAIMON["mysql_sync_database"])
    names = [SourceName("d", "", t) for t in ("a", "b", "b1", "b2", "c")]
    assert [route.target for route in made.routing.routes(names)] == [
        "test_db.ods_d_a_x", "test_db.ods_d_b2_x",
    ]  # fmt: skip
    assert made.ignores_incompatible
    assert made.routing.takes_new_tables
    assert [f.name for f in made.metadata.fields] == ["table_name", "op_ts"]
    assert (made.target.is_strict, made.target.requires_key) == (False, True)
    topics = config("kafka_sync_database", PAIMON["kafka_sync_database"])
    assert not topics.target.requires_key
    assert config_of(made.command, {**made.given, "keyless": ("append",)}).target.requires_key is (
        False
    )
    assert config_of(topics.command, {**topics.given, "keyless": ("refuse",)}).target.requires_key
    assert topics.routing.partition_keys_for(SourceName("", "", "a")) == ("x", "y")
    assert topics.routing.target_of(SourceName("db1", "", "c")) == "test_db.p_c_s"
    assert topics.routing.mode is Mode.COMBINED


def test_metadata_columns_may_be_given_one_by_one_with_a_prefix():
    made = config("kafka_sync_table", PAIMON["kafka_sync_table"])
    assert [f.name for f in made.metadata.fields] == ["__kafka_topic", "__kafka_partition"]


def test_ours_beside_paimons():
    made = small(
        "postgres_sync_database",
        "--once --interval 500ms --evolve full --sequence none --on-lost-position resnapshot"
        " --quarantine-max 0 --max-rows 50_000 --reread_max 7 --password env:PW --job j",
    )
    assert (made.is_once, made.interval_ms, made.evolution.policy) == (True, 500, Policy.FULL)
    assert (made.has_order, made.target.order) == (False, ())
    assert (made.resnapshots_if_lost, made.quarantine_max, made.rows_max) == (True, 0, 50_000)
    assert (made.reread_max, made.job, made.source_conf["password"]) == (7, "j", "env:PW")
    plain = small("postgres_sync_database")
    assert (plain.is_once, plain.interval_ms, plain.evolution.policy) == (
        False, 1_000, Policy.ADDITIVE,
    )  # fmt: skip
    assert plain.has_order
    assert plain.routing.mode is Mode.DIVIDED


@pytest.mark.parametrize(
    ("text", "ms"), [("1", 1_000), ("2 s", 2_000), ("250 ms", 250), ("1MIN", 60_000)]
)
def test_an_interval_has_a_unit(text, ms):
    assert small(line=f"--interval '{text}'").interval_ms == ms


def test_names_without_case_are_for_the_whole_job():
    made = small(
        "kafka_sync_database",
        "--catalog_conf case-sensitive=false --metadata_column topic --metadata_column_prefix K_"
        " --computed_column 'Day=now()' --computed_column 'Up=upper(Name)'",
    )
    assert not made.case_sensitive
    assert made.catalog_conf == {}
    assert made.evolution.reserved == {"day", "up", "k_topic", "_cdc_lsn", "_cdc_seq"}
    assert made.evolution.needed == {"name"}
    assert made.routing.target_of(SourceName("d", "", "T")) == "db.t"


def test_the_warehouse_may_be_an_option_of_the_catalog():
    made = config("mysql_sync_table",
                  f"--database d --table t {MYSQL} --catalog_conf warehouse=/v")  # fmt: skip
    assert (made.warehouse, made.catalog_conf) == ("/v", {})
    with pytest.raises(InvalidInputError, match="is '/w' and by catalog_conf '/v'"):
        small(line="--catalog_conf warehouse=/v")


@pytest.mark.parametrize(
    ("command", "line", "said"),
    [
        ("mysql_sync_table", "--primary_kyes a", "no argument '--primary_kyes'. Did you mean"),
        ("mysql_sync_table", "--merge_shards true", "It is of mysql_sync_database, postgres"),
        ("kafka_sync_table", "--mysql_conf a=b", "It is of mysql_sync_table, mysql_sync_database"),
        ("kafka_sync_database", "--password env:A", "no argument '--password'"),
        ("mysql_sync_table", "--zzz 1", "Known: warehouse, database, table"),
        ("mysql_sync_table", "--job s3cr3t s3cr3t", "A value stands alone after --job"),
        ("mysql_sync_table", "--primary_keys", "--primary_keys needs a value: NAMES"),
        ("mysql_sync_table", "--primary_keys --once", "--primary_keys needs a value"),
        ("mysql_sync_table", "--once=true", "--once takes no value"),
        ("mysql_sync_table", "--table u", "--table is given more than once ('t', 'u')"),
        ("mysql_sync_table", "--table_conf bucket", "table_conf is not of the form key=value"),
        ("mysql_sync_table", "--table_conf a=1 --table_conf a=2", "gives 'a' more than once"),
        ("mysql_sync_table", "--type_mapping to-nulable", "no type mapping 'to-nulable'"),
        ("mysql_sync_table", "--metadata_column topic", "has no metadata column 'topic'"),
        ("mysql_sync_table", "--computed_column 'x=uppr(a)'", "no function 'uppr'. Did you mean"),
        ("mysql_sync_table", "--evolve addative", "'addative' is no --evolve: give additive or"),
        ("mysql_sync_table", "--sequence no", "'no' is no --sequence: give source or none"),
        ("mysql_sync_table", "--interval soon", "'soon' is no --interval"),
        ("mysql_sync_table", "--interval 0", "'0' is no --interval"),
        ("mysql_sync_table", "--max-rows 0", "'0' is no number of rows from 1 on"),
        ("mysql_sync_table", "--quarantine-max -1", "'-1' is no number of rows"),
        ("mysql_sync_table", "--job a/b", "'a/b' cannot name a job"),
        ("mysql_sync_database", "--merge_shards yes", "'yes' of merge_shards is neither"),
        ("mysql_sync_database", "--eager_init 1", "'1' of eager_init is neither"),
        ("kafka_sync_database", "--mode divided", "would lose the first rows of a new table"),
        ("mysql_sync_database", "--mode both", "'both' is no --mode: give divided or combined"),
        ("mysql_sync_database", "--including_tables '('", "of including_tables is no regular"),
        ("mysql_sync_database", "--mysql_conf table-name=t", "takes no 'table-name'"),
        ("mysql_sync_table", "--password s3cr3t", "not the password itself"),
        ("mysql_sync_table", "--password prompt --mysql_conf password=p", "both give the password"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_by_name(command, line, said):
    with pytest.raises(InvalidInputError) as refused:
        small(command, line)
    assert said in str(refused.value)
    assert "s3cr3t" not in str(refused.value)


def test_all_that_is_missing_is_said_at_once():
    with pytest.raises(InvalidInputError) as refused:
        config("postgres_sync_table")
    said = "postgres_sync_table needs --database NAME, --table NAME, --postgres_conf KEY=VALUE."
    assert str(refused.value) == said
    with pytest.raises(InvalidInputError, match="Did you mean 'mysql_sync_table'"):
        config_of("mysql_sync_tabel", {})


def test_a_secret_is_in_no_text_of_a_job():
    made = config(
        "mysql_sync_table",
        "--warehouse s3://me:canary@b/w --database d --table t --mysql_conf password=canary"
        " --mysql_conf hostname=h --catalog_conf s3.secret-key=canary"
        " --catalog_conf uri=jdbc:postgresql://u:canary@h/d",
    )
    shown = [repr(made), str(made), job_text(made.command, made.given)]
    assert made.warehouse == "s3://me:canary@b/w"
    assert not any("canary" in text for text in shown)
    assert '"password" = "***"' in shown[2]


def ways(**environment):
    def read_file(path):
        if path != "/pw":
            raise FileNotFoundError(2, "No such file")
        return "of the file\nand more\n"

    return SecretWays(environment, read_file, lambda question: f"asked {question}")


@pytest.mark.parametrize(
    ("form", "password"),
    [
        ("plain text", "plain text"), ("env:PW", "of the variable"), ("file:/pw", "of the file"),
        ("prompt", "asked password: "), ("plain:env:PW", "env:PW"),
    ],
)  # fmt: skip
def test_a_password_may_be_elsewhere(form, password):
    made = small(line=f"--mysql_conf 'password={form}'")
    found = made.source_settings(ways(PW="of the variable"))
    assert found == {**made.source_conf, "password": password}


@pytest.mark.parametrize(
    ("form", "said"),
    [("env:PW", "variable PW, which is not set"), ("file:/no", "file /no, which cannot be read")],
)
def test_a_password_that_is_not_there_is_an_error(form, said):
    made = small(line=f"--password {form}")
    with pytest.raises(InvalidInputError, match=said) as refused:
        made.source_settings(ways())
    assert refused.value.kind == "cdc_password"
    with pytest.raises(InvalidInputError, match="without a terminal"):
        small(line="--password prompt").source_settings(SecretWays({}, str))


JOB = """
command = "postgres_sync_database"
warehouse = "/w"
database = "ods"
including_tables = "a|b"
primary_keys = ["id", "at"]
computed_column = ["y=year(at)", "z=now()"]
merge_shards = false
once = true
max_rows = 5000
on-lost-position = "resnapshot"

[postgres_conf]
hostname = "h"
port = 5433
slot.name = "s"
"database-name" = "d"

[table_conf]
bucket = 4
deletion-vectors.enabled = true

[multiple_table_partition_keys]
a = ["x", "y"]
"""


def test_a_file_says_the_same_as_a_command_line():
    line = (
        "--warehouse /w --database ods --including_tables 'a|b' --primary_keys id,at"
        " --computed_column 'y=year(at)' --computed_column 'z=now()' --merge_shards false --once"
        " --max-rows 5000 --on-lost-position resnapshot --postgres_conf hostname=h"
        " --postgres_conf port=5433 --postgres_conf slot.name=s --postgres_conf database-name=d"
        " --table_conf bucket=4 --table_conf deletion-vectors.enabled=true"
        " --multiple_table_partition_keys a=x,y"
    )
    of_file, of_line = config_of(*read_job(JOB)), config("postgres_sync_database", line)
    fields = [name for name in of_file.__slots__ if name != "given"]
    assert [getattr(of_file, n) for n in fields] == [getattr(of_line, n) for n in fields]


@pytest.mark.parametrize("command", PAIMON)
def test_a_job_is_shown_as_a_file_of_the_same_job(command):
    words = [w.replace("password=123456", "password=env:A") for w in shlex.split(PAIMON[command])]
    given = read_words(command, words)
    again = read_job(job_text(command, given))
    assert again[0] == command
    assert config_of(*again) == config_of(command, again[1])
    one, other = config_of(command, given), config_of(*again)
    fields = [name for name in one.__slots__ if name != "given"]
    assert [getattr(one, n) for n in fields] == [getattr(other, n) for n in fields]


@given(st.text(min_size=1))
def test_any_text_comes_back_from_a_file(text):
    given = {"table_prefix": (text,), "computed_column": (text, text)}
    shown = job_text("mysql_sync_database", given)
    assert "***" in shown or read_job(shown) == ("mysql_sync_database", given)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = ", "job.toml is not TOML"),
        ("database = 'd'", "job.toml needs a 'command'. Known: mysql_sync_table"),
        ("command = 'mysql_sync'", "no command 'mysql_sync'. Did you mean"),
        ("command = 'mysql_sync_table'\nprimary_kyes = 'a'", "no argument 'primary_kyes'. Did you"),
        ("command = 'mysql_sync_table'\nmysql_conf = 'a=b'", "is a table: write [mysql_conf]"),
        ("command = 'mysql_sync_table'\nonce = 1", "'once' is true or false"),
        ("command = 'mysql_sync_table'\ntable = ['a']", "'table' is a text, a number"),
        ("command = 'mysql_sync_table'\n[mysql_conf]\na = 2020-01-01", "'mysql_conf.a' is a text"),
        ("command = 'mysql_sync_table'\nprimary_keys = 'a'\nprimary-keys = 'b'", "more than once"),
    ],
)
def test_a_wrong_file_is_refused_by_name(text, said):
    with pytest.raises(InvalidInputError) as refused:
        read_job(text, path="job.toml")
    assert said in str(refused.value)


def test_a_call_in_python_says_the_same():
    values = {
        "database": "d", "table": "t", "mysql_conf": {"hostname": "h", "port": 3307},
        "primary_keys": ("a", "b"), "type_mapping": "to-nullable", "once": False,
        "partition_keys": None, "table_conf": {"deletion-vectors.enabled": True},
    }  # fmt: skip
    made = config_of("mysql_sync_table", given_of("mysql_sync_table", values))
    line = (
        "--database d --table t --mysql_conf hostname=h --mysql_conf port=3307 --primary_keys a,b"
        " --type_mapping to-nullable --table_conf deletion-vectors.enabled=true"
    )
    of_line = config("mysql_sync_table", line)
    fields = [name for name in made.__slots__ if name != "given"]
    assert [getattr(made, n) for n in fields] == [getattr(of_line, n) for n in fields]


def test_each_argument_fits_the_commands_own_declaration():
    names = [argument.name for argument in ARGUMENTS]
    assert len(set(names)) == len(names)
    for argument in ARGUMENTS:
        assert argument.flag.lstrip("-").replace("-", "_") == argument.name
        assert argument.what.endswith((".", "`."))
        assert argument.shape is Shape.FLAG or argument.value.isupper() or "=" in argument.value
    for command, (source, what) in SYNC_COMMANDS.items():
        known = arguments_of(command)
        assert f"{source}_conf" in known
        assert ("table" in known) == (what == "table")


# docs/generated/*_sync_*.html of Paimon
DOCUMENTED = {
    "mysql_sync_table": "warehouse database table partition_keys primary_keys type_mapping"
    " computed_column metadata_column mysql_conf catalog_conf table_conf"
    " sync_primary_keys_from_source_schema",
    "mysql_sync_database": "warehouse database ignore_incompatible merge_shards table_prefix"
    " table_suffix including_tables excluding_tables mode metadata_column type_mapping"
    " partition_keys primary_keys sync_primary_keys_from_source_schema mysql_conf catalog_conf"
    " table_conf table_mapping table_prefix_db table_suffix_db including_dbs excluding_dbs"
    " multiple_table_partition_keys eager_init computed_column",
    "postgres_sync_table": "warehouse database table partition_keys primary_keys type_mapping"
    " sync_primary_keys_from_source_schema computed_column metadata_column postgres_conf"
    " catalog_conf table_conf",
    "kafka_sync_table": "warehouse database table partition_keys primary_keys type_mapping"
    " sync_primary_keys_from_source_schema computed_column metadata_column metadata_column_prefix"
    " kafka_conf catalog_conf table_conf",
    "kafka_sync_database": "warehouse database table_mapping table_prefix table_suffix"
    " table_prefix_db table_suffix_db including_tables excluding_tables including_dbs excluding_dbs"
    " type_mapping computed_column metadata_column metadata_column_prefix partition_keys"
    " multiple_table_partition_keys primary_keys sync_primary_keys_from_source_schema kafka_conf"
    " catalog_conf table_conf eager_init mode",
}


@pytest.mark.parametrize("command", DOCUMENTED)
def test_all_of_paimons_arguments_are_taken(command):
    assert set(DOCUMENTED[command].split()) <= set(arguments_of(command))
