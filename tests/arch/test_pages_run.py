"""The Python on the pages runs as it stands there, and gives what is shown, byte for byte.

A page may hold three kinds of blocks:

- ``python``: run one after the other; what ``# ...`` behind a ``print`` says must be printed;
- ``pycon``: run as doctests, which share their names;
- ``text`` with a title: annotated bytes, ``offset  bytes  words``, compared with the variable of
  the page's doctests that the title names. ``...`` stands for bytes that are left out. A page that
  says "written by pyarrow 26" is compared with that version only: others encode otherwise.
"""

import doctest
import re
import sys
import types
from pathlib import Path

import pyarrow as pa
import pytest

from tidelake.cli.main import main

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(str(path.relative_to(ROOT)) for path in DOCS.rglob("*.md"))
RECIPES = ("airflow-dagster", "fastapi", "jobs", "monitoring", "scd2")
NEEDS_SPARK = {
    "docs/apply-changes.md",
    "docs/index.md",
    "docs/kafka.md",
    "docs/lookup-joins.md",
    "docs/merge-into.md",
    "docs/spark.md",
    "docs/sql.md",
    "docs/streams.md",
    "docs/watermarks.md",
}  # tests/spark runs it
CODE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
DIALOGUE = re.compile(r"^```pycon\n(.*?)^```", re.MULTILINE | re.DOTALL)
SQL = re.compile(r"^```sql\n(.*?)^```", re.MULTILINE | re.DOTALL)
BYTES = re.compile(r'^```text title="(\w+)"\n(.*?)^```', re.MULTILINE | re.DOTALL)
WRITTEN_BY = re.compile(r"\bwritten by\s+pyarrow (\d+)")
BYTES_LINE = re.compile(r" *(\d+)  ((?:[0-9a-f]{2} )*[0-9a-f]{2})(?:  .*)?")


def text_of(page, *, until=None):
    text = (ROOT / page).read_text(encoding="utf-8")
    return text if until is None else text.partition(until)[0]


@pytest.mark.parametrize(
    ("page", "until", "place"),
    [
        # what comes after needs a Spark session; tests/spark runs it
        ("README.md", "\n## On Spark", "/tmp/warehouse"),
        ("docs/index.md", "\n## Batch", "/tmp/front-warehouse"),
        ("docs/quickstart.md", "\n## On Spark", "/tmp/quickstart"),
        ("docs/query-service.md", None, "/tmp/service-warehouse"),
        ("docs/recipes/jobs.md", None, "/tmp/jobs-warehouse"),
        ("docs/recipes/monitoring.md", None, "/tmp/watched-warehouse"),
        ("docs/recipes/scd2.md", None, "/tmp/history-warehouse"),
    ],
)
def test_the_code_of_a_page_runs(page, until, place, tmp_path, capsys):
    blocks = CODE.findall(text_of(page, until=until))
    assert blocks
    names = {}
    for number, block in enumerate(blocks, 1):
        code = block.replace(place, str(tmp_path / "warehouse"))
        exec(compile(code, f"{page}, block {number}", "exec"), names)
    shown = capsys.readouterr().out
    for expected in re.findall(r"^print\(.*\)  +# ([\[\d+].*)$", "\n".join(blocks), re.MULTILINE):
        # a value, then perhaps a colon and words about it
        assert re.split(r": [a-z]", expected)[0] in shown


def test_the_code_of_the_page_on_fastapi_runs(tmp_path, capsys):
    pytest.importorskip("fastapi", reason="an environment made before FastAPI was asked for")
    test_the_code_of_a_page_runs(
        "docs/recipes/fastapi.md", None, "/tmp/api-warehouse", tmp_path, capsys
    )


class TaskDecorator:
    """``@task(...)`` and ``@task.bash``."""

    def __call__(self, **_):
        return Task

    def bash(self, function):
        return Task(function)


class Step:
    """A task of Airflow that was called in a DAG; ``>>`` orders it before another."""

    def __rshift__(self, later):
        return later


class Task:
    """A decorated function of Airflow: a call makes a step, ``function`` is what a worker runs."""

    def __init__(self, function):
        self.function = function

    def __call__(self):
        return Step()


def decorator(**_):
    return lambda function: function


def test_the_tasks_of_airflow_and_dagster_replace_what_they_wrote(tmp_path, monkeypatch):
    """The page was run with Airflow 3.3 and Dagster 1.13, which are not installed here."""
    airflow = types.SimpleNamespace(dag=decorator, task=TaskDecorator())
    monkeypatch.setitem(sys.modules, "airflow.sdk", airflow)
    monkeypatch.setitem(sys.modules, "airflow", types.SimpleNamespace(sdk=airflow))
    dagster = types.SimpleNamespace(
        asset=decorator,
        DailyPartitionsDefinition=dict,
        RetryPolicy=dict,
        Definitions=dict,
        MaterializeResult=dict,
    )
    monkeypatch.setitem(sys.modules, "dagster", dagster)
    names = {}
    for block in CODE.findall(text_of("docs/recipes/airflow-dagster.md")):
        exec(block.replace("/tmp/scheduled-warehouse", str(tmp_path)), names)
    assert names["transform"].function() == "dbt build --project-dir /srv/air"
    for _ in range(2):  # cleared, and started again
        names["load"].function(ds="2026-11-19")
        done = names["orders"](types.SimpleNamespace(partition_key="2026-11-20"))
    assert done == {"metadata": {"rows": 2, "snapshot": 4}}
    orders = names["tidelake"].open(tmp_path).table("shop.orders")
    assert orders.to_arrow().sort_by([("day", "ascending"), ("id", "ascending")]).to_pylist() == [
        {"day": day, "id": number, "price": price}
        for day in ("2026-11-19", "2026-11-20")
        for number, price in ((1, 3.5), (2, 4.0))
    ]


def test_the_jobs_of_cron_run(tmp_path, capsys):
    table = "CREATE TABLE shop.orders (id INT, day STRING, PRIMARY KEY (id, day) NOT ENFORCED)"
    made = f"CREATE DATABASE shop; {table} PARTITIONED BY (day);"
    insert = "INSERT INTO shop.orders VALUES (1, '2026-11-20');"
    jobs = "".join(SQL.findall(text_of("docs/recipes/jobs.md")))
    script = made + insert + jobs
    code = main(["sql", "--no-spark", "-w", str(tmp_path), "--format", "csv", "-c", script])
    assert code == 0, capsys.readouterr().err


def test_every_page_with_code_is_run():
    run_above = {"docs/quickstart.md", "docs/query-service.md", *NEEDS_SPARK}
    run_above |= {"docs/catalogs.md"}  # tests/unit/catalog runs it beside servers
    run_above |= {"docs/storage.md"}  # tests/unit/catalog runs it over an S3
    run_above |= {"docs/cdc.md"}  # tests/unit/cdc runs it on a PostgreSQL
    run_above |= {f"docs/recipes/{name}.md" for name in RECIPES}
    assert not [page for page in PAGES if CODE.search(text_of(page)) and page not in run_above]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if DIALOGUE.search(text_of(page)) and page not in NEEDS_SPARK]
)
def test_the_dialogues_of_a_page_and_its_bytes_are_true(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = text_of(page)
    names = run_dialogues(page, text)
    written_by = WRITTEN_BY.search(text)
    if written_by is not None and written_by[1] != pa.__version__.partition(".")[0]:
        return
    for title, block in BYTES.findall(text):
        assert_shows(f"{page}, {title}", block, names[title])


def test_annotated_bytes_stand_only_beside_the_dialogue_that_makes_them():
    assert not [p for p in PAGES if BYTES.search(text_of(p)) and not DIALOGUE.search(text_of(p))]


def test_every_module_that_a_page_names_exists():
    wrong = [
        f"{page}: {name}"
        for page in PAGES
        for name in re.findall(r"`(tidelake(?:\.\w+)+)`", text_of(page))
        if not is_there(name)
    ]
    assert not wrong


def is_there(name):
    """Whether a dotted name is a module, or a word of the module that its first parts name."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        path = ROOT.joinpath("src", *parts[:end])
        module = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if module.is_file():
            text = module.read_text(encoding="utf-8")
            return all(re.search(rf"\b{part}\b", text) for part in parts[end:])
    return False


def run_dialogues(page, text):
    """Run all dialogues of a page as one doctest; the names that they leave behind."""
    names = {}
    parser = doctest.DocTestParser()
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    report = []
    for match in DIALOGUE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        test = parser.get_doctest(match[1], names, page, page, line)
        runner.run(test, out=report.append, clear_globs=False)
        names = test.globs
    assert runner.failures == 0, "".join(report)
    return names


def assert_shows(where, block, data):
    """Each line shows the bytes at its offset; only ``...`` may leave some out."""
    at = 0
    for line in block.splitlines():
        if line.strip().startswith("..."):
            at = None
            continue
        match = BYTES_LINE.fullmatch(line)
        assert match, f"{where}: {line!r} shows no bytes"
        offset, shown = int(match[1]), bytes.fromhex(match[2])
        assert at in {None, offset}, f"{where}: bytes {at} to {offset} are not shown"
        assert data[offset : offset + len(shown)] == shown, f"{where}: {line!r} is wrong"
        at = offset + len(shown)
    assert at in {None, len(data)}, f"{where}: bytes from {at} on are not shown"
