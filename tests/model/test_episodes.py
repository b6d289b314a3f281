"""Seeded runs of 50 operations against a dict."""

import pytest
from proving import episode, fsck

from tidelake.fileio import MemoryFileIO

SEEDS = 200  # the full size runs 5,000
SEEDS_PER_TEST = 5


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_PER_TEST))
def test_engine_equals_the_dict(first):
    for seed in range(first, first + SEEDS_PER_TEST):
        episode.run_seed(seed, 50)


def test_the_same_seed_gives_the_same_files():
    def run():
        fileio = MemoryFileIO()
        episode.Episode(3, fileio=fileio).run(15)
        return sorted(fsck.walk(fileio, episode.LOCATION))

    assert run() == run()
