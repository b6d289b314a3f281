from __future__ import annotations

import pickle
from dataclasses import fields

import pytest

from tidelake.telemetry import (
    MEMORY_BYTES_MIN,
    Env,
    Memory,
    SerialExecutor,
    ThreadExecutor,
)

SIZES = [MEMORY_BYTES_MIN, 256 << 20, 511 << 20, 512 << 20, 3 << 30, 64 << 30]


@pytest.mark.parametrize("total_bytes", SIZES)
def test_what_lives_at_the_same_time_leaves_a_quarter(total_bytes):
    m = Memory.of(total_bytes)
    tasks = m.tasks_max
    # a buffer, what was not sorted yet of it, its sorted copy, its keys twice
    write = m.manifest_cache_bytes + 2 * m.write_buffer_bytes + 2 * m.sort_keys_bytes
    # rows as they are, joined, gathered, and as keys; a row group and its encoded form
    merge = m.manifest_cache_bytes + tasks * (
        min(m.merge_pages_bytes, total_bytes) + 4 * m.merge_rows_bytes + m.row_group_bytes
    )
    assert max(write, merge) <= total_bytes * 3 // 4


def test_no_share_is_larger_than_without_a_limit():
    most, much = Memory(), Memory.of(1 << 50)
    for share in fields(Memory):
        if share.name not in {"total_bytes", "merge_pages_bytes"}:
            assert getattr(much, share.name) == getattr(most, share.name), share.name


def test_tasks_run_side_by_side_only_where_each_has_room():
    assert [Memory.of(size).tasks_max for size in SIZES] == [1, 1, 1, 1, 4, 4]
    one = Env.system().with_memory(Memory.of(256 << 20))
    assert isinstance(one.executor, SerialExecutor)
    assert isinstance(one.with_memory(Memory.of(4 << 30)).executor, SerialExecutor)
    assert isinstance(Env.system().with_memory(Memory.of(4 << 30)).executor, ThreadExecutor)


def test_memory_travels_to_executors():
    env = Env.system().with_memory(Memory.of(256 << 20))
    assert pickle.loads(pickle.dumps(env)).memory == env.memory
