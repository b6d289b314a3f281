"""How much each check tries: its share in `make test`, and all of it in `make proof`.

``TIDELAKE_SIZE`` chooses: ``small`` (by default), for every change, or ``full``. A share is a fixed
choice, not a draw, and still meets every pair of what is crossed. So a failure comes from the
change; what the share leaves out runs before a release.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

VARIABLE = "TIDELAKE_SIZE"


@dataclass(frozen=True, slots=True)
class Sizes:
    """The numbers of one size."""

    model_seeds: int
    """Seeded episodes against the dict."""
    model_steps: int
    """Operations of each."""
    branched_seeds: int
    """Seeded episodes of a table and its branches, with half the operations."""
    clustered_seeds: int
    """Seeded runs of append tables whose rows are clustered; six cross all that they are to."""
    meetings: int
    """Seeded runs of several processes on one table."""
    machine_runs: int
    """Runs of the state machine for each engine and changelog producer."""
    histories: int
    """Drawn histories of each engine, of which every snapshot is read."""
    rewrites: int
    """Ways, of three, in which each history is buffered, cut, stored and compacted."""
    grid_seeds: int
    """Tables of each cell of the grid of engines; with one, of a quarter of the cells."""
    faults_step: int
    """In memory, every so manieth call of a scenario fails in all modes."""
    faults_in_turn_step: int
    """In memory, every so manieth call fails in one mode, the modes in turn."""
    commit_faults_step: int
    """Of a single commit every so manieth call fails in each mode, others in the next mode."""
    local_faults_step: int
    """On local files, every so manieth call fails, in one mode."""
    paused_step: int
    """Every so manieth call that decides nothing, before which a process stands still."""
    paused_decisive_step: int
    """Every so manieth moment before and after a call that decides something."""
    race_commits: int
    """Commits that four processes race for."""
    store_race_commits: int
    """The same in an object store."""
    store_seeds: int
    """Seeded episodes whose table lies in an object store."""
    moment_seeds: int
    """Tables in drawn time zones, asked for moments beside their commits; a multiple of eight."""
    frame_seeds: int
    """Tables whose rows go through frames of other libraries and back; a multiple of four."""
    late_puts: int
    """Drawn schedules of requests that arrive late beside rollbacks, expiry, tags and drops."""
    late_requests: range
    """Those of them that run on a store over HTTP, too."""
    soak_s: int
    """Seconds that six processes do everything to a few tables."""
    kills: int
    """Writers that are killed."""
    forks: int
    """Children that a process forks while its threads read and write."""
    aborts: int
    """Writes, compactions and updates that are interrupted."""
    damage_step: int
    """Bytes between damaged places, as a multiple of each kind's own; 0 for every byte."""
    memory_shapes: int
    """Kinds of tables whose work is measured in a limited memory."""
    merges: int
    """MERGE statements drawn for each layout of the target."""
    dml_statements: int
    """Statements drawn for each layout that go by ``tl.sql`` and by ``spark.sql``."""
    fuzz_seeds: int
    """Random tables that Java Paimon and we write in turns."""
    made_by_java_step: int
    """Every so manieth of the tables that Java makes is read."""
    stream_chains: int
    """Chains of tables that streams connect, while what runs them is killed; a multiple of four."""
    stream_chains_together: int
    """Those that one program carries: a JVM's start costs more than their streams."""
    stream_kills: int
    """Kills of each program."""
    stream_histories: int
    """Drawn histories of a query in small, and groups of aligned streams; a multiple of four."""
    stream_rivals: int
    """Runs of two drivers whose streams go into the same tables."""
    stream_rival_kills: int
    """Kills of one or the other in each run."""
    stream_rival_tables: int
    """Tables into which both write."""
    stream_soak_s: int
    """Seconds that a chain of streams runs while it is counted what it takes."""
    followed_snapshots: int
    """Snapshots that a stream follows while it is counted what it holds."""
    stream_models: int
    """Drawn tables whose streams start in every way and are replayed."""
    pipelines: int
    """Drawn pipelines from one table into another, without an engine."""
    spark_pipelines: int
    """Drawn pipelines on Spark."""
    spark_pipeline_runs: int
    """Runs of the query of each, before its event."""
    leaving_pipelines: int
    """Drawn pipelines on Spark of updates that leave a filter, into targets of deletes."""
    connect_s: int
    """Seconds that two clients of Spark Connect write, merge and stream."""
    dbt_days: int
    """Days of flights that dbt's project is built over, and as many that come later."""
    message_pipelines: int
    """Drawn pipelines from a table into a topic."""
    cdc_jobs: int
    """Drawn databases with a job that crashes, without a server."""
    cdc_servers: int
    """Drawn databases on each real server, with a job whose lives are cut off."""
    cdc_lives: int
    """Those lives."""
    cdc_topics: int
    """Drawn topics, shuffled and with repeated messages, whose job crashes."""
    change_feeds: int
    """Drawn feeds of each kind that Spark applies in batches."""
    lookup_keys: int
    """Keys that are looked up in each table of each engine, kind of buckets and of keys."""
    java_lookup_keys: int
    """Keys that Java Paimon looks up in each of them, too."""
    lookup_vanishing: int
    """Runs in which parts of the lookup files' directory are removed."""
    key_types_step: int
    """Every so manieth type of keys is asked for by every call."""
    key_values: int
    """Values of each type."""
    service_soak_s: int
    """Seconds that a query service is asked while it is counted what it takes."""
    service_steps: int
    """Kills of a query service, and jobs on its table, while clients ask."""
    service_clients: int
    """Those clients."""
    filtered_streams: range
    """The seeds of tables whose streams are read through a filter; a step meets all filters."""
    filtered_changes: int
    """Tables whose changes are read through filters, in every mode."""
    spark_filtered_changes: int
    """Those of them that Spark reads, too."""
    mask_tables: int
    """Tables that are read by masks and by merges."""
    spark_mask_tables: int
    """Those of them that Spark reads, too."""
    old_times_step: int
    """Every so manieth pair of an old time and a shape of filter is read."""
    orphan_lives: int
    """Drawn lives of a table beside runs that remove its orphan files."""
    upkeep_runs: int
    """Seeded runs of writers beside all that keeps a table small."""
    upkeep_forks: int
    """Other rounds that are tried before each round of such a run."""
    upkeep_expiries_step: int
    """Before every so manieth call of a maintenance job others commit and expire."""
    statement_seeds: tuple[int, ...]
    """Of the statements on each kind of table; those of seed 7 meet every kind soon."""
    statements: int
    """Statements on each of them."""
    partition_times: int
    """Drawn patterns and formats of partitions' times, each with four values, beside Java."""
    branch_lives: int
    """Drawn lives of branches of each kind of table."""
    branch_steps: int
    """Steps of each."""
    tag_histories: int
    """Drawn histories of commits whose automatic tags Java makes, too."""
    shows_order_of_checks: bool
    """Whether all checks hunt a planted bug, cheapest first, or the one alone that it names."""


SMALL = Sizes(
    model_seeds=10,
    model_steps=50,
    branched_seeds=5,
    clustered_seeds=6,
    meetings=8,
    machine_runs=2,
    histories=4,
    rewrites=1,
    grid_seeds=1,
    faults_step=24,
    faults_in_turn_step=3,
    commit_faults_step=3,
    local_faults_step=20,
    paused_step=20,
    paused_decisive_step=3,
    race_commits=100,
    store_race_commits=100,
    store_seeds=1,
    moment_seeds=16,
    frame_seeds=8,
    late_puts=28,
    late_requests=range(0, 9, 4),
    soak_s=6,
    kills=4,
    forks=8,
    aborts=24,
    damage_step=3,
    memory_shapes=1,
    merges=1,
    dml_statements=3,
    fuzz_seeds=4,
    made_by_java_step=32,
    stream_chains=8,
    stream_chains_together=8,
    stream_kills=2,
    stream_histories=12,
    stream_rivals=0,
    stream_rival_kills=1,
    stream_rival_tables=2,
    stream_soak_s=60,
    followed_snapshots=150,
    stream_models=30,
    pipelines=24,
    spark_pipelines=2,
    spark_pipeline_runs=2,
    leaving_pipelines=1,
    connect_s=3,
    dbt_days=2,
    message_pipelines=1,
    cdc_jobs=12,
    cdc_servers=1,
    cdc_lives=4,
    cdc_topics=4,
    change_feeds=1,
    lookup_keys=40,
    java_lookup_keys=300,
    lookup_vanishing=4,
    key_types_step=4,
    key_values=14,
    service_soak_s=60,
    service_steps=6,
    service_clients=16,
    filtered_streams=range(0, 180, 8),
    filtered_changes=6,
    spark_filtered_changes=2,
    mask_tables=4,
    spark_mask_tables=2,
    old_times_step=11,
    orphan_lives=6,
    upkeep_runs=12,
    upkeep_forks=14,
    upkeep_expiries_step=12,
    statement_seeds=(7,),
    statements=8,
    partition_times=40,
    branch_lives=1,
    branch_steps=16,
    tag_histories=4,
    shows_order_of_checks=False,
)
FULL = Sizes(
    model_seeds=5_000,
    model_steps=50,
    branched_seeds=1_000,
    clustered_seeds=400,
    meetings=1_000,
    machine_runs=80,
    histories=200,
    rewrites=3,
    grid_seeds=10,
    faults_step=1,
    faults_in_turn_step=1,
    commit_faults_step=1,
    local_faults_step=1,
    paused_step=1,
    paused_decisive_step=1,
    race_commits=20_000,
    store_race_commits=20_000,
    store_seeds=60,
    moment_seeds=800,
    frame_seeds=800,
    late_puts=10_000,
    late_requests=range(300),
    soak_s=1_200,
    kills=300,
    forks=300,
    aborts=1_000,
    damage_step=0,
    memory_shapes=10,
    merges=3,
    dml_statements=100,
    fuzz_seeds=500,
    made_by_java_step=1,
    stream_chains=60,
    stream_chains_together=4,
    stream_kills=3,
    stream_histories=1_000,
    stream_rivals=10,
    stream_rival_kills=4,
    stream_rival_tables=4,
    stream_soak_s=600,
    followed_snapshots=500,
    stream_models=1_000,
    pipelines=500,
    spark_pipelines=200,
    spark_pipeline_runs=3,
    leaving_pipelines=20,
    connect_s=60,
    dbt_days=15,
    message_pipelines=20,
    cdc_jobs=2_000,
    cdc_servers=75,
    cdc_lives=8,
    cdc_topics=100,
    change_feeds=25,
    lookup_keys=100_000,
    java_lookup_keys=100_000,
    lookup_vanishing=400,
    key_types_step=1,
    key_values=1_000,
    service_soak_s=600,
    service_steps=60,
    service_clients=64,
    filtered_streams=range(450),
    filtered_changes=600,
    spark_filtered_changes=80,
    mask_tables=300,
    spark_mask_tables=40,
    old_times_step=1,
    orphan_lives=400,
    upkeep_runs=1_000,
    upkeep_forks=14,
    upkeep_expiries_step=1,
    statement_seeds=tuple(range(10)),
    statements=25,
    partition_times=300,
    branch_lives=40,
    branch_steps=60,
    tag_histories=120,
    shows_order_of_checks=True,
)
SIZES = {"small": SMALL, "full": FULL}
SIZE = SIZES[os.environ.get(VARIABLE, "small")]
"""The one that was chosen."""


def examples(count: int) -> int:
    """How many examples a property is tried with: two fifths of them in a landing."""
    return count if SIZE is FULL else count * 2 // 5
