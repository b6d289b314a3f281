"""Checks of options that fight each other, or what the table is used for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidelake.metadata.log.snapshot import CommitKind
from tidelake.options import declared, target_file_size_bytes
from tidelake.table.health.examined import Examined
from tidelake.table.health.finding import ADVICE, WARNING, Forecast, HealthFinding, RemedyCall

TARGET_BYTES_MIN = 8 << 20
SNAPSHOTS_LOOKED_AT = 64


def fighting_options(examined: Examined) -> Iterator[HealthFinding]:
    """Pairs of options of which one undoes the other."""
    examined.figures["options_that_fight"] = 0
    found = list(_fights(examined))
    examined.figures["options_that_fight"] = len(found)
    for severity, cause, evidence, settings in found:
        remedies = () if not settings else (_set(examined, settings),)
        predicted = {"options_that_fight": Forecast(len(found), len(found) - 1)} if settings else {}
        yield HealthFinding("fighting_options", severity, cause, evidence, remedies, predicted)


Fight = tuple[str, str, dict[str, object], dict[str, str]]


def _fights(examined: Examined) -> Iterator[Fight]:
    options = examined.handle.options
    trigger = options.get(declared.NUM_SORTED_RUN_COMPACTION_TRIGGER)
    stop = options.get(declared.NUM_SORTED_RUN_STOP_TRIGGER)
    if stop is not None and stop <= trigger:
        yield (
            WARNING,
            "Writers stop for a compaction before one is due.",
            {
                declared.NUM_SORTED_RUN_STOP_TRIGGER.key: stop,
                declared.NUM_SORTED_RUN_COMPACTION_TRIGGER.key: trigger,
            },
            {declared.NUM_SORTED_RUN_STOP_TRIGGER.key: str(trigger + 3)},
        )
    given = options.get(declared.TARGET_FILE_SIZE)
    if given is not None and given < TARGET_BYTES_MIN:
        target = target_file_size_bytes(options, has_primary_key=examined.is_keyed)
        yield (
            ADVICE,
            "Compactions make small files, since that is the size they aim at.",
            {declared.TARGET_FILE_SIZE.key: target},
            {declared.TARGET_FILE_SIZE.key: "128 mb"},
        )
    if not options.get(declared.WRITE_ONLY):
        return
    hides_rows = options.get(declared.DELETION_VECTORS_MERGE_ON_READ) is False
    if hides_rows and examined.is_keyed and options.get(declared.DELETION_VECTORS_ENABLED):
        yield (
            WARNING,
            "Writers leave compactions to a job, and reads show nothing that is not compacted.",
            {
                declared.WRITE_ONLY.key: "true",
                declared.DELETION_VECTORS_MERGE_ON_READ.key: "false",
            },
            {declared.DELETION_VECTORS_MERGE_ON_READ.key: "true"},
        )
    if not _is_compacted(examined):
        yield (
            WARNING,
            "Writers leave compaction and expiry to a job, and none has run: call table.compact()"
            " on a schedule, or let writers do it.",
            {declared.WRITE_ONLY.key: "true", "compactions": 0},
            {declared.WRITE_ONLY.key: "false"},
        )


def _is_compacted(examined: Examined) -> bool:
    """Whether one of the last snapshots is a compaction, or there are too few to tell."""
    handle, newest = examined.handle, examined.snapshot
    trigger = handle.options.get(declared.NUM_SORTED_RUN_COMPACTION_TRIGGER)
    seen = 0
    for number in range(newest.id, max(newest.id - SNAPSHOTS_LOOKED_AT, 0), -1):
        snapshot = handle.snapshots.find(number)
        if snapshot is None:
            break
        if snapshot.commit_kind is CommitKind.COMPACT:
            return True
        seen += 1
    return seen <= trigger


def _set(examined: Examined, settings: Mapping[str, str]) -> RemedyCall:
    pairs = ", ".join(f"'{key}' = '{value}'" for key, value in settings.items())
    return RemedyCall(
        f"table.set_options({dict(settings)!r})",
        f"ALTER TABLE {examined.handle.identifier} SET TBLPROPERTIES ({pairs})",
    )
