"""Settings of Flink's sessions."""

import pytest

from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.sql.execution.stream_settings import StreamSettings, check_setting


def test_settings_say_how_statements_run():
    assert StreamSettings.of({}) == StreamSettings()
    given = {
        "execution.runtime-mode": "STREAMING",
        "execution.checkpointing.dir": "/c",
        "execution.checkpointing.interval": "2 min",
        "pipeline.name": "orders",
    }
    for key, value in given.items():
        check_setting(key, value)
    assert StreamSettings.of(given) == StreamSettings(True, "/c", 120_000, "orders")


def test_the_older_key_of_the_checkpoints_directory_counts_where_the_newer_is_not_set():
    older = {"state.checkpoints.dir": "/older"}
    assert StreamSettings.of(older).checkpoint_dir == "/older"
    both = {**older, "execution.checkpointing.dir": "/newer"}
    assert StreamSettings.of(both).checkpoint_dir == "/newer"


def test_a_bare_interval_is_milliseconds_as_in_flink():
    assert StreamSettings.of({"execution.checkpointing.interval": "1500"}).interval_ms == 1500


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("execution.runtime-mode", "stream", "must be one of streaming, batch"),
        ("execution.checkpointing.interval", "soon", "must be a duration"),
        ("execution.checkpointing.dri", "/c", "Did you mean 'execution.checkpointing.dir'"),
        ("pipeline.names", "x", "Did you mean 'pipeline.name'"),
    ],
)
def test_misspelt_settings_are_refused_with_a_suggestion(key, value, message):
    with pytest.raises(InvalidInputError, match=message):
        check_setting(key, value)


def test_settings_of_flink_without_a_counterpart_are_kept():
    for key in ("execution.checkpointing.mode", "pipeline.max-parallelism", "table.exec.x"):
        check_setting(key, "x")


def test_the_automatic_mode_is_refused():
    with pytest.raises(UnsupportedError, match="use 'streaming' or 'batch'"):
        check_setting("execution.runtime-mode", "AUTOMATIC")
