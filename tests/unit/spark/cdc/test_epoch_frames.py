"""A job's tables of one epoch, as DataFrames."""

from __future__ import annotations

import pytest

from tidelake.errors import NotFoundError
from tidelake.spark.cdc.epoch_frames import EpochFrames


def test_a_table_is_read_at_its_snapshot_and_a_name_that_is_not_there_has_near_ones():
    frames = EpochFrames(
        7, "0/1", True, "", {"ods.tabel": 3}, {"ods.late": "it had no rows"}, lambda *at: at
    )
    assert frames["ods.tabel"] == ("ods.tabel", 3)
    assert (list(frames), len(frames)) == (["ods.tabel"], 1)
    with pytest.raises(NotFoundError, match=r"no table 'ods\.table'.*ods\.tabel"):
        frames["ods.table"]
    with pytest.raises(NotFoundError, match=r"'ods\.late': it had no rows"):
        frames["ods.late"]
    assert repr(frames) == "EpochFrames(epoch=7, position='0/1', {'ods.tabel': 3})"
