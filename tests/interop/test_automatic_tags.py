"""Tags by the clock: of the same commits Java 1.3.1 and we make the same tags."""

from __future__ import annotations

import random
import shutil

import pytest
from sizes import SIZE

import tidelake
from tidelake.table.write.transaction import WriteTransaction
from tidelake.telemetry import Env, ManualClock

pytestmark = pytest.mark.oracle

HOUR_MS = 3_600_000
PERIODS = (
    {},
    {"tag.period-formatter": "without_dashes"},
    {"tag.creation-period": "hourly"},
    {"tag.creation-period": "hourly", "tag.period-formatter": "without_dashes"},
    {"tag.creation-period": "hourly", "tag.period-formatter": "without_dashes_and_spaces"},
    {"tag.creation-period": "two-hours"},
    {"tag.creation-period-duration": "45 min"},
)
ZONES = ("UTC", "Asia/Shanghai", "America/New_York")


@pytest.mark.parametrize("seed", range(SIZE.tag_histories))
def test_the_same_tags_are_made_of_the_same_commits(peer, tmp_path, seed):
    rng = random.Random(seed)
    period = PERIODS[seed % len(PERIODS)]
    by_watermark = seed % 3 == 1
    options = {
        "tag.automatic-creation": "watermark" if by_watermark else "process-time",
        "tag.automatic-completion": rng.choice(("true", "false")),
        "tag.creation-delay": rng.choice(("0 s", "10 min", "40 min")),
        "sink.process-time-zone": rng.choice(ZONES),
        "sink.watermark-time-zone": rng.choice(ZONES),
        **period,
        **rng.choice(({}, {"tag.num-retained-max": "3"})),
    }
    ours, javas = tmp_path / "ours/db.db/t", tmp_path / "java/db.db/t"
    clock = ManualClock(1_706_600_000_000 + rng.randrange(10 * HOUR_MS))
    seeded = Env.seeded(seed)
    env = Env(clock=clock, rng=seeded.rng, ids=seeded.ids, executor=seeded.executor, zone="UTC")
    catalog = tidelake.open(ours.parents[1], env=env)
    table = catalog.create_table("db.t", {"k": "INT"}, options={"write-only": "true", **options})
    made = table.tags.create_due
    for turn in range(rng.randrange(5, 14)):
        clock.sleep_ms(rng.choice((60_000, HOUR_MS // 2, HOUR_MS, 30 * HOUR_MS)))
        watermark = clock.now_ms() - rng.randrange(HOUR_MS) if by_watermark else None
        WriteTransaction(table.handle, watermark=watermark).write([{"k": turn}])
        if turn % 5 == 3:
            made()
    shutil.copytree(ours, javas)
    named = {"snapshot.num-retained.min": "1000", "snapshot.num-retained.max": "1000"}
    found = peer.ask("automatic_tags", table=str(javas), options={**options, **named})["tags"]
    made()
    assert {tag.name: tag.snapshot_id for tag in table.tags} == found
    assert found
    assert {name: table.count(tag=name) for name in found} == found
