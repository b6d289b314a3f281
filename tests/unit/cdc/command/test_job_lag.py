"""How far a job is behind, from what the source and the journal say."""

from __future__ import annotations

from tidelake.cdc.command.job_lag import NO_TIME, JobLag, job_lag
from tidelake.cdc.source.lag import SourceLag


def test_a_job_that_has_all_is_not_behind():
    found = job_lag(SourceLag(0, note="no times"), is_behind=False, start_ms=None, now_ms=9)
    assert found == JobLag(0.0, 0)


def test_a_commit_that_is_older_than_the_position_is_no_lag():
    # what the log has behind the position is no commit
    found = job_lag(SourceLag(8, newest_ms=4_000), is_behind=True, start_ms=5_000, now_ms=9_000)
    assert found == JobLag(0.0, 8)


def test_a_source_without_times_gives_a_bound_and_says_why():
    found = job_lag(SourceLag(8, note="no times"), is_behind=True, start_ms=5_000, now_ms=7_500)
    assert found == JobLag(2.5, 8, is_bound=True, note="no times")
    assert str(found) == "at most 2.5 s, 8 bytes of log (no times)"


def test_a_journal_without_times_gives_none_and_says_why():
    found = job_lag(SourceLag(None, 7, newest_ms=4), is_behind=True, start_ms=None, now_ms=9)
    assert found == JobLag(None, None, 7, note=NO_TIME)
    assert str(found) == f"7 messages ({NO_TIME})"
    assert str(JobLag(None)) == "not known"
