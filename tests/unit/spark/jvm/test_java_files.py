"""The Java of Tidelake: files, the constants of Python in them, and known names of Spark."""

from __future__ import annotations

import graphlib
import importlib.util
import re
from pathlib import Path

import pytest

import tidelake.spark
from tidelake.scan.masks import hidden_rows
from tidelake.spark.catalog.scans import scan_rule
from tidelake.spark.catalog.table_catalog import LakeCatalog
from tidelake.spark.expression import moment
from tidelake.spark.jvm import java_class
from tidelake.spark.jvm.private_names import names_of, private_names
from tidelake.spark.read import listed_files, native_scan
from tidelake.spark.streams.connector import provider, relation
from tidelake.spark.streams.read import file_rows
from tidelake.spark.versions import MINORS

SPARK = Path(tidelake.spark.__file__).parent
FILES = sorted((SPARK / "jvm").glob("*.java"))
MODULES = sorted(SPARK.rglob("*.py"))
COMPILER = SPARK.parents[2] / "scripts" / "compile_java.py"
PROMISED = (
    "org.apache.spark.SparkContext",
    "org.apache.spark.api.java.",
    "org.apache.spark.rdd.",
    "org.apache.spark.sql.SQLContext",
    "org.apache.spark.sql.connector.",
    "org.apache.spark.sql.sources.",
    "org.apache.spark.sql.streaming.",
    "org.apache.spark.sql.types.",
)
"""What Spark's documentation has."""
CONSTANTS = [
    ("TidelakeScans", "LISTED_FILES", "TidelakeListedFiles"),
    ("TidelakeScans", "ROW_INDEX", listed_files.ROW_INDEX),
    ("TidelakeScans", "ROWS_OPTION", native_scan.ROWS_OPTION),
    ("TidelakeScans", "EXACT_DAYS_FROM", moment.EXACT_DAYS_FROM),
    ("TidelakeScans", "EXACT_SECONDS_FROM", moment.EXACT_SECONDS_FROM),
    ("TidelakePackedScan", "BUCKETED_JOINS", scan_rule.BUCKETED_JOINS),
    ("TidelakeScanPlan", "FIRST_WORD", listed_files.FIRST_WORD),
    ("TidelakeScanPlan", "ROW_INDEX", listed_files.ROW_INDEX),
    ("TidelakeScanPlan", "WORD_BITS", hidden_rows.WORD_BITS),
    ("TidelakeScanPlan", "WORD_SHIFT", hidden_rows.WORD_BITS.bit_length() - 1),
]
CLASS = re.compile(r"\b(?:org\.apache\.spark(?:\.[a-z]\w*)+\.[A-Z]\w*\$?)")


def java_text(name):
    return java_class.java_text(name, MINORS[-1])


def code_of(path):
    """A file without comments."""
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_is_one_class_beside_spark_s_and_says_what_it_is(path):
    text = path.read_text()
    assert text.startswith(f"package {java_class.PACKAGE};\n")
    assert f"\n */\npublic final class {path.stem}" in text
    assert max(map(len, text.splitlines())) <= 100
    marked = java_class._ONLY_FOR.search
    for minor in MINORS:
        given = java_class.java_text(path.stem, minor)
        assert not any(map(marked, given.splitlines()))
        assert set(given.splitlines()) <= {
            re.sub(r"\s*// Spark 4.*$", "", line) for line in text.splitlines()
        }
    named = [p for p in MODULES if f'"{path.stem}"' in p.read_text()]
    assert named, "no module defines it"


@pytest.mark.parametrize(("name", "constant", "value"), CONSTANTS)
def test_a_constant_is_that_of_python(name, constant, value):
    (given,) = re.findall(rf"static final \w+ {constant} =\s+(.+);", java_text(name))
    written = f'"{value}"' if isinstance(value, str) else str(value)
    assert given.removesuffix("L") == written


def test_words_between_the_two_are_the_same():
    assert relation._BETWEEN == "\0"
    assert r'String.join("\0", columns)' in java_text("TidelakeBatch")
    assert (file_rows._BETWEEN_FILES, file_rows._BETWEEN_TASKS) == ("\0", "\1")
    assert java_text("TidelakeFiles").count(r'split("\0")') == 2
    assert java_text("TidelakeFiles").count(r'split("\1")') == 1
    assert f'open("{provider.SINK}"' in java_text("TidelakeStreams")


def test_no_java_is_a_string_of_python():
    java = re.compile(r"public (static )?(final )?class")
    assert not [path.name for path in MODULES if java.search(path.read_text())]


# ---- private names


def private_classes(path):
    """Private classes of Spark that a Java file names by import; and those of its package."""
    text = code_of(path)
    found = {name for name in CLASS.findall(text) if not name.startswith(PROMISED)}
    known = (one.name.rpartition(".") for one in private_names())
    beside = {simple for room, _, simple in known if room == java_class.PACKAGE}
    named = {name for name in beside if re.search(rf"\b{re.escape(name)}(?![\w$])", text)}
    found |= {f"{java_class.PACKAGE}.{name}" for name in named}
    return {name for name in found if "Tidelake" not in name}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_table_has_the_private_classes_that_a_file_names(path):
    assert private_classes(path) <= {
        name for minor in MINORS for name in names_of(path.stem, minor=minor)
    }


def test_the_table_is_in_order_and_its_users_use_the_names():
    names = [one.name for one in private_names()]
    assert len(names) > 100
    assert names == sorted(set(names))
    for one in private_names():
        assert one.versions
        assert list(one.versions) == [minor for minor in MINORS if minor in one.versions]
        assert list(one.users) == sorted(set(one.users))
        assert list(one.members) == sorted(set(one.members))
        for user in one.users:
            if (SPARK / "jvm" / f"{user}.java").exists():
                continue  # the compiler knows
            text = (SPARK / f"{user.replace('.', '/')}.py").read_text()
            words = (one.name.rpartition(".")[2], *one.members)
            assert any(word in text for word in words), f"{one.name}: {user}"


def test_a_line_may_be_for_some_versions_alone():
    for minor, packed in (("4.1", "KeyGroupedPartitioning"), ("4.2", "KeyedPartitioning")):
        imports = java_class.java_text("TidelakePackedScan", minor).splitlines()
        room = "import org.apache.spark.sql.catalyst.plans.physical"
        assert [line for line in imports if line.startswith(f"{room}.Key")] == [f"{room}.{packed};"]


@pytest.mark.parametrize("minor", MINORS)
def test_streams_need_the_names_of_their_classes(minor):
    runtime = "" if minor == "4.0" else "runtime."
    assert {
        "org.apache.spark.sql.execution.streaming.Source",
        "org.apache.spark.sql.execution.streaming.Sink",
        f"org.apache.spark.sql.execution.streaming.{runtime}SerializedOffset",
        "org.apache.spark.sql.classic.Dataset",
        "org.apache.spark.sql.connector.catalog.V2TableWithV1Fallback",
        "org.apache.spark.sql.catalyst.FileSourceOptions",
        "org.apache.spark.paths.SparkPath",
        f"{java_class.PACKAGE}.FileScanRDD",
        f"{java_class.PACKAGE}.PartitionedFile",
        f"{java_class.PACKAGE}.parquet.ParquetFileFormat",
        java_class.BESIDE,
    } <= set(provider.needed_names(minor))


def test_the_catalog_that_spark_makes_has_the_interfaces_of_python():
    """What Python's catalog answers, the Java class that stands for it passes on."""
    code = code_of(SPARK / "jvm" / "TidelakeCatalog.java")
    named = re.search(r"implements ([\w, ]+)", code)[1].strip().split(", ")
    paths = re.findall(r"^import ([\w.]+);", code, re.MULTILINE)
    imports = {one.rpartition(".")[2]: one for one in paths}
    assert [imports[one] for one in named] == list(LakeCatalog.Java.implements)


# ---- the build


@pytest.fixture(scope="module")
def compiler():
    spec = importlib.util.spec_from_file_location("compile_java", COMPILER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("TidelakeFrameRelation", "sources.BaseRelation;", "sources.GoneRelation;"),
        ("TidelakeBucketStrategy", "methods.extraStrategies()", "methods.goneStrategies()"),
    ],
    ids=["class", "method"],
)
def test_a_name_that_spark_has_no_more_is_an_error_of_the_build(tmp_path, compiler, name, old, new):
    files = [tmp_path / f"{one}.java" for one in needed(name) - {name}]
    for path in files:
        path.write_text(java_text(path.stem))
    text = java_text(name)
    assert old in text
    (tmp_path / f"{name}.java").write_text(text.replace(old, new))
    said = compiler.by_janino([*files, tmp_path / f"{name}.java"])
    assert re.search(r"[gG]one\w+", said), said
    assert compiler.by_javac([*files, tmp_path / f"{name}.java"]) != ""


def named_by(name):
    """The other classes of ours that one names."""
    code = re.sub(r'"[^"]*"', "", code_of(SPARK / "jvm" / f"{name}.java"))
    return set(re.findall(r"\bTidelake[A-Z]\w*", code)) & {path.stem for path in FILES} - {name}


def needed(name):
    """The classes of ours that one names, those that they name, and itself."""
    return {name}.union(*map(needed, named_by(name)))


def test_classes_are_defined_after_those_that_they_name():
    """A session compiles them one by one; the build all at once."""
    order = graphlib.TopologicalSorter({path.stem: named_by(path.stem) for path in FILES})
    places = {name: place for place, name in enumerate(order.static_order())}  # no cycle
    assert len(places) == len(FILES)
    for names in ([*listed_files._CLASSES, *scan_rule._OF_JOINS], ["TidelakeScans"]):
        for at, name in enumerate(names):
            assert named_by(name) <= set(names[:at]), name
