"""The code of the README and of the pages on Spark runs as it stands there."""

import re
from pathlib import Path

import pytest

from tidelake.cli.main import main

ROOT = Path(__file__).parents[2]
SQL = re.compile(r"^```sql\n(.*?)^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("page", "place"),
    [
        ("README.md", "/tmp/warehouse"),
        ("docs/index.md", "/tmp/front-warehouse"),
        ("docs/spark.md", "/tmp/spark-warehouse"),
        ("docs/sql.md", "/tmp/sql-warehouse"),
        ("docs/merge-into.md", "/tmp/merge-warehouse"),
        ("docs/streams.md", "/tmp/stream-warehouse"),
        ("docs/watermarks.md", "/tmp/watermark-warehouse"),
        ("docs/lookup-joins.md", "/tmp/lookup-warehouse"),
        ("docs/apply-changes.md", "/tmp/changes-warehouse"),
    ],
)
def test_the_code_of_a_page_runs(page, place, spark, tmp_path, capsys):
    assert spark.version  # the page adopts the session of these tests
    blocks = CODE.findall((ROOT / page).read_text(encoding="utf-8"))
    assert blocks
    names = {}
    for number, block in enumerate(blocks, 1):
        code = block.replace(place, str(tmp_path / "warehouse"))
        exec(compile(code, f"{page}, block {number}", "exec"), names)
    shown = capsys.readouterr().out.splitlines()
    for expected in re.findall(r"^print\(.*\)  +# (\d+)$", "\n".join(blocks), re.MULTILINE):
        assert expected in shown


def test_the_sql_of_the_readme_runs_on_the_command_line(spark, tmp_path, capsys):
    assert spark.version  # the program adopts the session of these tests
    (script,) = SQL.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    code = main(["sql", "-w", str(tmp_path / "lake"), "--format", "csv", "-c", script])
    shown = capsys.readouterr()
    assert code == 0, shown.err
    expected = re.findall(r"--> (.*)$", script, re.MULTILINE)
    assert expected
    for answer in expected:
        assert answer.replace(", ", ",") in shown.out.splitlines()


def test_the_sql_of_fast_queries_runs(spark, tmp_path, capsys):
    assert spark.version  # the program adopts the session of these tests
    _, joins, buckets = SQL.findall((ROOT / "docs/fast-queries.md").read_text(encoding="utf-8"))
    code = main(["sql", "-w", str(tmp_path / "lake"), "--format", "csv", "-c", joins + buckets])
    shown = capsys.readouterr()
    assert code == 0, shown.err
    assert "page 0,4" in shown.out.splitlines()
    assert "dynamicpruning" in shown.out


@pytest.mark.share(2)
@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "sql").glob("*.md")), ids=lambda p: p.stem)
def test_the_sql_of_a_page_runs(page, spark, tmp_path, capsys):
    """All its blocks in turn; each answer that it shows, `--> row`, in its order."""
    assert spark.version  # the program adopts the session of these tests
    script = "".join(SQL.findall(page.read_text(encoding="utf-8")))
    script = script.replace("{place}", str(tmp_path))
    code = main(["sql", "-w", str(tmp_path / "lake"), "--format", "csv", "-c", script])
    shown = capsys.readouterr()
    assert code == 0, shown.err
    expected = [row.replace(", ", ",") for row in re.findall(r"^--> (.*)$", script, re.MULTILINE)]
    assert expected
    rows = iter(shown.out.splitlines())
    for row in expected:
        assert row in rows, (row, shown.out)
