"""The code of docs/catalogs.md runs, beside servers of this process."""

from __future__ import annotations

import re
from pathlib import Path

from servers.fake_metastore import fake_metastore
from servers.glue import glue

import tidelake

PAGE = Path(__file__).parents[4] / "docs" / "catalogs.md"


def code(section):
    """The Python of a section."""
    text = PAGE.read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return "".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))


def test_the_code_of_hive_runs(tmp_path, capsys):
    with fake_metastore() as metastore:
        text = code("hive").replace("thrift://metastore.example:9083", metastore.uri)
        exec(text.replace("/data/warehouse", str(tmp_path)), {})
    assert capsys.readouterr().out == (
        "['orders'] 1\n{'shop.orders': 'unchanged', 'shop.returns': 'created'}\n"
    )


def test_the_code_of_glue_opens_a_catalog(tmp_path):
    text = code("glue").replace("s3://lake/warehouse", str(tmp_path))
    with glue():
        names = {"tidelake": tidelake}
        exec(text, names)
        assert names["catalog"].list_databases() == []
