from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidelake.metadata.data_file import EMPTY_STATS, DataFileMeta
from tidelake.scan import Split
from tidelake.spark.read.scan_frame import pack_tasks


def split_of(size):
    file = DataFileMeta(
        "d", size, 1, b"", b"", EMPTY_STATS, EMPTY_STATS, 0, 0, schema_id=0, level=0
    )
    return Split(1, b"", 0, 1, (((file,),),), raw=False)


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=40), st.integers(1, 10))
def test_each_split_is_in_one_task_and_tasks_are_even(sizes, count):
    cost = 1 << 20
    splits = [split_of(size) for size in sizes]
    tasks = pack_tasks(splits, count=count, cost=cost)
    assert len(tasks) == min(count, len(splits))
    assert sorted(id(s) for task in tasks for s in task) == sorted(id(s) for s in splits)
    weights = [sum(s.size_bytes + cost for s in task) for task in tasks]
    heaviest = max(sizes) + cost
    assert max(weights) <= sum(weights) / len(tasks) + heaviest
