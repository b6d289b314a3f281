"""Rows by key, in small: files that vanish, keys by every door, executors that hang."""

from __future__ import annotations

import tempfile

import tidelake
from proving.hung_executors import run_hung_executors
from proving.key_doors import check_doors, kernel_doors, some_values, table_of
from proving.vanishing import run_vanishing

__all__ = [
    "CHECKS",
    "check_files_that_vanish",
    "check_hung_executors",
    "check_keys_by_every_door",
]

SEEDS = 4
STEPS = 12
HUNG_SEEDS = (*range(12), 43)
"""In 43 one hangs from its start, and nothing else stands still until that is found."""
DOORS_OF = ("DECIMAL(10, 2)", "STRING", "DATE", "DOUBLE")
VALUES_COUNT = 14


def check_files_that_vanish() -> None:
    """Whatever others remove of the lookup files, and when: answers are right."""
    removed = sum(run_vanishing(seed, STEPS) for seed in range(SEEDS))
    assert removed > SEEDS, "something was removed"


def check_keys_by_every_door() -> None:
    """Every call takes the keys that a write takes, and refuses the others alike."""
    for data_type in DOORS_OF:
        with tempfile.TemporaryDirectory() as place:
            table = table_of(tidelake.open(f"{place}/w"), data_type)
            query = table.local_query(directory=f"{place}/lookup")
            values = some_values(data_type, VALUES_COUNT)
            doors = kernel_doors(table, query)
            check_doors(table, values, doors, refresh=lambda _, query=query: query.refresh())


def check_hung_executors() -> None:
    """An executor that hangs is found in bounded time, and no other is taken for one."""
    found = sum(run_hung_executors(seed) for seed in HUNG_SEEDS)
    assert found > len(HUNG_SEEDS), "some hung"


CHECKS = (check_hung_executors, check_files_that_vanish, check_keys_by_every_door)
