"""Operations that hypothesis chooses, on every engine, producer and kind of bucket, against a dict.

The seeded episodes beside this file draw more of them; here a failure is cut down to the fewest
operations and rows that show it.
"""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from proving import engine_draws, world
from proving.branching import Branching
from sizes import SIZE

KINDS = [
    (engine, producer)
    for engine in engine_draws.ENGINES
    for producer in (("none", "lookup") if engine == "first-row" else engine_draws.PRODUCERS)
]
RANDOM = st.randoms(use_true_random=False)


class TableMachine(RuleBasedStateMachine):
    """An episode and those of its branches, whose draws hypothesis makes."""

    life: Branching
    opened = 0

    def __init__(self, engine, producer):
        super().__init__()
        self.kind = engine, producer

    @initialize(data=st.data())
    def create(self, data):
        engine, producer = self.kind
        shape = world.draw_engine_shape(data.draw(RANDOM), engine=engine, producer=producer)
        self.life = Branching(0, shape=shape)

    @property
    def episode(self):
        return self.life.current

    @rule(rng=RANDOM, count=st.sampled_from([1, 3, 20]))
    def upsert(self, rng, count):
        self.episode.rng = rng
        self.episode.upsert(count)

    @rule(rng=RANDOM)
    def delete(self, rng):
        self.episode.rng = rng
        self.episode.delete()

    @rule(rng=RANDOM)
    def mixed(self, rng):
        self.episode.rng = rng
        self.episode.mixed()

    @rule(rng=RANDOM)
    def update(self, rng):
        self.episode.rng = rng
        self.episode.update_any()

    @rule(rng=RANDOM)
    def overwrite(self, rng):
        self.episode.rng = rng
        self.episode.overwrite()

    @rule(rng=RANDOM)
    def travel(self, rng):
        self.episode.rng = rng
        self.episode.travel()

    @rule(rng=RANDOM)
    def expire(self, rng):
        self.episode.rng = rng
        self.episode.expire()

    @rule(rng=RANDOM)
    def filter(self, rng):
        self.episode.rng = rng
        self.episode.filter()

    @rule(name=st.sampled_from(["compact", "compact_full", "replay"]))
    def do(self, name):
        getattr(self.episode, name)()

    @rule()
    def branch(self):
        self.life.create()

    @rule(number=st.integers(0, 2))
    def switch(self, number):
        self.life.switch(number)

    @rule(rng=RANDOM, name=st.sampled_from(["fast_forward", "delete"]))
    def publish_or_delete(self, rng, name):
        self.life.rng = rng
        getattr(self.life, name)()

    @rule()
    def reopen(self):
        self.opened += 1  # names are drawn from it, and must not come twice
        self.episode.reopen(self.opened)

    @invariant()
    def equals_the_dict(self):
        if hasattr(self, "life"):
            self.episode.compare()

    def teardown(self):
        if hasattr(self, "life"):
            self.life.finish()


SETTINGS = settings(
    max_examples=SIZE.machine_runs,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.timeout(1_200)  # to cut a failure down takes minutes
@pytest.mark.parametrize(("engine", "producer"), KINDS)
def test_equals_the_dict(engine, producer):
    run_state_machine_as_test(lambda: TableMachine(engine, producer), settings=SETTINGS)
