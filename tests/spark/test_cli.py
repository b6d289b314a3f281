"""The program on Spark: one process, from its command line to its exit code."""

import json
import os
import signal
import subprocess
import sys
import threading

import pyarrow as pa
import quick_spark

import tidelake

PROGRAM = [sys.executable, "-m", "tidelake", "sql"]
ENVIRONMENT = os.environ | {"PYSPARK_PYTHON": sys.executable}  # its tasks import for themselves
SMALL = (
    *("--master", "local[1]", "--conf", "spark.sql.session.timeZone=America/New_York"),
    *("--conf", f"spark.driver.extraJavaOptions={quick_spark.JVM}"),
)
CREATE = (
    "CREATE TABLE orders (id INT, item STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1')"
)
SCRIPT = """
CREATE DATABASE shop;
USE shop;
{create};
INSERT INTO orders VALUES (1, 'tea'), (2, 'rye');
INSERT INTO orders VALUES (2, 'nut');
CALL sys.compact(table => 'orders', compact_strategy => 'full');
SELECT count(*) AS n, max(item) AS item FROM orders;
SELECT INTERVAL '1' YEAR AS y, array(INTERVAL '2' DAY) AS d, parse_json('{{"a":[1.5]}}') AS v,
       TIMESTAMP '2026-07-01 00:00:00' AS at, CAST('NaN' AS DOUBLE) AS n;
SELECT id AS same, item AS same FROM orders WHERE id = 2;
"""


def test_a_file_runs_on_spark_and_its_output_is_clean(tmp_path):
    file = tmp_path / "all.sql"
    file.write_text(SCRIPT.format(create=CREATE), encoding="utf-8")
    lake = str(tmp_path / "lake")
    argv = ["-w", lake, "--format", "json", *SMALL, "-f", str(file)]
    done = subprocess.run(
        [*PROGRAM, *argv],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert json.loads(lines[0])["result"] is True, done.stderr
    assert json.loads(lines[1]) == {"n": 2, "item": "tea"}
    assert json.loads(lines[2]) == {
        "y": "INTERVAL '1' YEAR",
        "d": "[INTERVAL '2' DAY]",
        "v": {"a": [1.5]},
        "at": "2026-07-01T00:00:00-04:00",
        "n": "NaN",
    }
    # the last is refused: an object of JSON names each column once
    assert done.returncode == 1
    assert len(lines) == 3
    said = done.stderr.splitlines()
    assert said[0] == "Spark starts ..."
    assert said[1].startswith("Spark 4.")
    assert said[2].startswith("error: Two columns of the answer are named 'same'")
    assert len(said) == 3


def test_a_pipe_shows_failures_in_words_and_ctrl_c_ends_it(tmp_path):
    lake = str(tmp_path / "lake")
    catalog = tidelake.open(lake)
    catalog.create_table("default.t", pa.schema({"a": pa.int32()}))
    catalog.table("default.t").write([{"a": 0}])
    # a digest of each row: counting random numbers, the JVM's compiler finished in 9 s
    text = "SELECT max(sha2(CAST(id AS STRING), 512)) FROM range(4000000000000);"
    process = subprocess.Popen(
        [*PROGRAM, "-w", lake, *SMALL, "--echo", "-c", "SELECT 1 / a FROM t"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env=ENVIRONMENT,
    )  # fmt: skip
    out, err = process.communicate(timeout=300)
    assert process.returncode == 1
    assert out == ""
    assert "error: Division by zero." in err
    assert "At line 1, column 8:\n  SELECT 1 / a FROM t\n         ^" in err
    assert "Traceback" not in err
    assert "at org.apache" not in err

    process = subprocess.Popen(
        [*PROGRAM, "-w", lake, *SMALL, "--echo", "-c", text],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env=ENVIRONMENT,
    )  # fmt: skip
    for line in process.stderr:
        if "runs" in line:
            break
    threading.Timer(5, os.killpg, [process.pid, signal.SIGINT]).start()
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err
