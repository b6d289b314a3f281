"""Settings of Flink's sessions that decide how statements run, set by SET.

Keys and meanings: Flink's ``ExecutionOptions``, ``CheckpointingOptions`` and ``PipelineOptions``. A
key of these groups that Flink lacks is refused, since a misspelt one would have no effect. Keys of
Flink without a counterpart here are kept without effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidelake.errors import InvalidInputError, UnsupportedError, near_names
from tidelake.options import Option, parse_value
from tidelake.options.option import duration, enumeration, text

RUNTIME_MODE = "execution.runtime-mode"
CHECKPOINT_DIR = "execution.checkpointing.dir"
OLDER_CHECKPOINT_DIR = "state.checkpoints.dir"
INTERVAL = "execution.checkpointing.interval"
PIPELINE_NAME = "pipeline.name"
STREAMING, BATCH = "streaming", "batch"

_OWN: Mapping[str, Option[Any]] = {
    option.key: option
    for option in (
        enumeration(RUNTIME_MODE, BATCH, (STREAMING, BATCH), "How INSERT and SELECT run."),
        text(CHECKPOINT_DIR, None, "Directory of the jobs' checkpoints."),
        duration(INTERVAL, None, "Time from one batch of a job to the next."),
        text(PIPELINE_NAME, None, "Name of the next job."),
    )
}
_CHECKED = ("execution.", "pipeline.")
_WITHOUT_EFFECT = frozenset(
    f"{group}.{key}"
    for group, keys in {
        "execution": ("attached", "target", "buffer-timeout", "batch-shuffle-mode",
                      "shutdown-on-attached-exit", "job-status-changed-listeners"),
        "execution.buffer-timeout": ("enabled", "interval"),
        "execution.checkpointing": (
            "mode", "min-pause", "timeout", "max-concurrent-checkpoints", "num-retained",
            "tolerable-failed-checkpoints", "storage", "unaligned", "unaligned.enabled",
            "aligned-checkpoint-timeout", "externalized-checkpoint-retention", "incremental",
            "interval-during-backlog", "savepoint-dir", "snapshot-compression",
            "checkpoints-after-tasks-finish", "data-inline-threshold", "write-buffer-size",
        ),
        "pipeline": (
            "auto-generate-uids", "auto-watermark-interval", "cached-files", "classpaths",
            "default-kryo-serializers", "force-avro", "force-kryo", "generic-types",
            "global-job-parameters", "jars", "jobvertex-parallelism-overrides", "max-parallelism",
            "object-reuse", "operator-chaining", "operator-chaining.enabled",
            "registered-kryo-types", "registered-pojo-types", "serialization-config",
            "vertex-description-mode", "vertex-name-include-index-prefix", "watermark-alignment",
        ),
    }.items()
    for key in keys
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """The settings that decide how statements run.

    Parameters
    ----------
    is_streaming : bool
        INSERT starts a job, SELECT follows its tables.
    interval_ms : int, optional
        Time between the starts of a job's batches; None to start each after the previous one.
    """

    is_streaming: bool = False
    checkpoint_dir: str | None = None
    interval_ms: int | None = None
    pipeline_name: str | None = None

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> StreamSettings:
        """Read a session's settings.

        Examples
        --------
        >>> StreamSettings.of({RUNTIME_MODE: "STREAMING", INTERVAL: "10 s"})
        StreamSettings(is_streaming=True, checkpoint_dir=None, interval_ms=10000, \
pipeline_name=None)
        """
        interval = settings.get(INTERVAL)
        return cls(
            settings.get(RUNTIME_MODE, BATCH).lower() == STREAMING,
            settings.get(CHECKPOINT_DIR) or settings.get(OLDER_CHECKPOINT_DIR) or None,
            None if interval is None else _milliseconds(interval),
            settings.get(PIPELINE_NAME) or None,
        )


def check_setting(key: str, value: str) -> None:
    """Refuse an unknown key of Flink's, or a value that its key does not take.

    Raises
    ------
    InvalidInputError
        The key or the value is unknown.
    UnsupportedError
        The mode is Flink's AUTOMATIC.

    Examples
    --------
    >>> check_setting("execution.checkpointing.intervals", "1 s")
    Traceback (most recent call last):
    tidelake.errors.InvalidInputError: There is no setting 'execution.checkpointing.intervals'. \
Did you mean 'execution.checkpointing.interval' or 'execution.checkpointing.dir'? SET lists those \
that are set.
    """
    if key == RUNTIME_MODE and value.lower() == "automatic":
        message = (
            f"'{RUNTIME_MODE}' = 'automatic' is not supported: use '{STREAMING}' or '{BATCH}'."
        )
        raise UnsupportedError(message, kind="sql_streaming", option=key)
    if key == INTERVAL:
        _milliseconds(value)
    elif key in _OWN:
        _parsed(_OWN[key], value)
    elif key.startswith(_CHECKED) and key not in _WITHOUT_EFFECT:
        message = (
            f"There is no setting '{key}'.{near_names(key, _OWN)} SET lists those that are set."
        )
        raise InvalidInputError(message, kind="unknown_option", option=key)


def _milliseconds(value: str) -> int:
    """Read a duration; Flink takes a bare number as milliseconds."""
    bare = value.strip().isdecimal()
    parsed = _parsed(_OWN[INTERVAL], f"{value.strip()} ms" if bare else value)
    assert isinstance(parsed, int)
    return parsed


def _parsed(option: Option[Any], value: str) -> object:
    try:
        return parse_value(option, value)
    except ValueError as error:
        message = f"Setting '{option.key}' is '{value}' but must be {error}."
        raise InvalidInputError(message, kind="option_value", option=option.key) from error
