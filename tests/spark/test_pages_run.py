"""The Python of the README and of the page on Spark runs as it stands there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("page", "place"),
    [
        ("README.md", "/tmp/warehouse"),
        ("docs/spark.md", "/tmp/spark-warehouse"),
        ("docs/sql.md", "/tmp/sql-warehouse"),
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
