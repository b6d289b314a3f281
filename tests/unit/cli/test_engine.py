"""Statements without Spark: a misspelt name is shown where it stands, with the right one."""

import random
import re

import pytest

from tidelake.cli.engine import Engine
from tidelake.errors import TidelakeError
from tidelake.sql import parse

TABLES = (
    "CREATE TABLE sales (id INT, price DOUBLE, region STRING, changed TIMESTAMP,"
    " PRIMARY KEY (region, id) NOT ENFORCED) PARTITIONED BY (region)"
    " WITH ('bucket' = '1', 'sequence.field' = 'changed');"
    "CREATE TABLE notes (number INT, content STRING); INSERT INTO notes VALUES (1, 'a');"
    "ALTER TABLE notes CREATE TAG yesterday"
)
MISSPELT = [
    "SELECT [content] FROM notes",
    "SELECT * FROM notes WHERE [number] > 3",
    "SELECT count(*) FROM notes AS n WHERE number = 1 AND length([content]) > 1",
    "SELECT number FROM notes WHERE upper(content) = 'A' OR [number] IN (1, 2)",
    "SELECT * FROM [notes]",
    "SELECT * FROM notes VERSION AS OF '[yesterday]'",
    "SELECT * FROM notes /*+ OPTIONS('[scan.snapshot-id]' = '1') */",
    "INSERT INTO notes (number, [content]) VALUES (1, 'b')",
    "INSERT INTO [notes] VALUES (1, 'b')",
    "ALTER TABLE sales DROP COLUMN [price]",
    "ALTER TABLE sales RENAME COLUMN [price] TO cost",
    "ALTER TABLE sales ALTER COLUMN [price] COMMENT 'of one'",
    "ALTER TABLE sales ADD COLUMN cost INT AFTER [price]",
    "ALTER TABLE sales DROP PARTITION ([region] = 'north')",
    "ALTER TABLE notes SET ('[snapshot.time-retained]' = '2 h')",
    "ALTER TABLE notes DELETE TAG [yesterday]",
    "ALTER TABLE notes RENAME TAG [yesterday] TO today",
    "ALTER TABLE [notes] DELETE TAG yesterday",
    "CREATE TABLE made (number INT) WITH ('[bucket-key]' = 'number')",
    "CREATE TABLE made (number INT, PRIMARY KEY ([number]) NOT ENFORCED)",
    "CREATE TABLE made (number INT) PARTITIONED BY ([number])",
    "DESCRIBE notes [content]",
    "SHOW PARTITIONS sales PARTITION ([region] = 'north')",
    "CALL sys.rollback(table => 'notes', version => '[yesterday]')",
]


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    engine = Engine(str(tmp_path_factory.mktemp("lake")), spark=False)
    run(engine, TABLES)
    return engine


def run(engine, text):
    for statement in parse(text):
        engine.answer(statement, text)


def misspelt(word, draw):
    """The word with two letters swapped, one left out, or one more."""
    at = draw.randrange(1, len(word) - 1)
    while word[at] == word[at + 1] or not word[at : at + 2].isalpha():
        at = draw.randrange(1, len(word) - 1)
    return draw.choice(
        [
            word[:at] + word[at + 1] + word[at] + word[at + 2 :],
            word[:at] + word[at + 1 :],
            word[:at] + word[at] + word[at:],
        ]
    )


@pytest.mark.parametrize("pattern", MISSPELT)
def test_a_misspelt_name_is_shown_with_the_right_one(engine, pattern):
    head, word, tail = re.fullmatch(r"(.*)\[(.*)\](.*)", pattern).groups()
    for seed in range(5):
        wrong = misspelt(word, random.Random(seed))
        with pytest.raises(TidelakeError) as raised:
            run(engine, f"{head}{wrong}{tail}")
        message = raised.value.message
        column = len(head) - head.endswith("'")  # a string with its quote
        assert f"line 1, column {column + 1}:" in message
        assert message.endswith(" " * (column + 2) + "^")
        assert word in message.partition(" At line")[0], "it names the right one"
        assert raised.value.kind != "sql_needs_spark"


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("SELECT number FROM notes WHERE exists(array(1, 2), x -> x > number)", "sql_needs_spark"),
        ("SELECT number FROM notes WHERE current_date > DATE '2026-01-01'", "sql_needs_spark"),
        ("SELECT n.content FROM notes n WHERE upper(n.content) = 'A'", "sql_needs_spark"),
    ],
)
def test_what_only_spark_knows_is_left_to_it(engine, text, needs):
    with pytest.raises(TidelakeError) as raised:
        run(engine, text)
    assert raised.value.kind == needs


def test_a_column_that_an_option_names_cannot_be_dropped(engine):
    text = "ALTER TABLE sales DROP COLUMN changed"
    with pytest.raises(TidelakeError, match=r"dropped: its option 'sequence\.field'"):
        run(engine, text)


def test_a_number_to_keep_is_refused_in_the_words_of_the_call(engine):
    text = "CALL sys.expire_snapshots(table => 'notes', retain_max => 1)"
    with pytest.raises(TidelakeError, match=r"retain_max is 1, .* give retain_min too, such as 1"):
        run(engine, text)
    with pytest.raises(TidelakeError, match="retain_min is 3, but retain_max is 2"):
        run(engine, f"{text[:-2]}2, retain_min => 3)")
    with pytest.raises(TidelakeError, match="retain_min is 0 but must be at least 1"):
        run(engine, f"{text[:-2]}2, retain_min => 0)")
    run(engine, f"{text[:-2]}2, retain_min => 1)")


@pytest.mark.parametrize(
    ("inside", "advice"),
    [("default.db/notes", "name the table default.notes"), ("default.db", "is the directory of a")],
)
@pytest.mark.parametrize("text", ["SHOW TABLES", "SELECT * FROM notes", "SHOW DATABASES"])
def test_a_directory_inside_a_warehouse_is_no_warehouse(engine, inside, advice, text):
    above = engine.session.catalog.uri
    with pytest.raises(TidelakeError, match=advice) as raised:
        run(Engine(f"{above}/{inside}", spark=False), text)
    assert f"open {above}" in raised.value.message


def test_an_empty_warehouse_is_one(tmp_path):
    (tmp_path / "schema").mkdir()
    run(Engine(str(tmp_path), spark=False), "SHOW TABLES")
