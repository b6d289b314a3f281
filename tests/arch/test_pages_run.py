"""The Python on the README and the quickstart runs as it stands there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks_of(page, *, until):
    text = (ROOT / page).read_text(encoding="utf-8").partition(until)[0]
    return BLOCK.findall(text)


@pytest.mark.parametrize(
    ("page", "until", "place"),
    [
        # what comes after needs a Spark session; tests/spark runs it
        ("README.md", "\n## On Spark", "/tmp/warehouse"),
        ("docs/quickstart.md", "\n## On Spark", "/tmp/quickstart"),
    ],
)
def test_the_code_of_a_page_runs(page, until, place, tmp_path, capsys):
    blocks = blocks_of(page, until=until)
    assert blocks
    names = {}
    for number, block in enumerate(blocks, 1):
        code = block.replace(place, str(tmp_path / "warehouse"))
        exec(compile(code, f"{page}, block {number}", "exec"), names)
    shown = capsys.readouterr().out
    for expected in re.findall(r"^print\(.*\)  +# ([\[\d+].*)$", "\n".join(blocks), re.MULTILINE):
        # a value, then perhaps a colon and words about it
        assert re.split(r": [a-z]", expected)[0] in shown
