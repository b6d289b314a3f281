"""Sets consumers to another snapshot or removes them, while no run uses them.

Source: Paimon's ``ResetConsumerProcedure`` and ``ClearConsumersProcedure`` (1.3.1), which do so
while a run uses the consumer, too; the next record of that run would undo the reset.
"""

from __future__ import annotations

import re

from tidelake.errors import ConflictError, InvalidInputError
from tidelake.fileio import OpenDirectory, validate_name
from tidelake.metadata.log.consumer import (
    ConsumerLog,
    ConsumerState,
    holder_of_state,
    state_holder,
)
from tidelake.table.handle.handle import TableHandle


def reset_consumer(handle: TableHandle, consumer_id: str, next_snapshot: int | None) -> None:
    """Set the next snapshot of a consumer; None removes the consumer.

    Raises
    ------
    NotFoundError
        The snapshot does not exist.
    ConflictError
        A run uses the consumer.
    """
    validate_name(consumer_id, "consumer")
    log = ConsumerLog(handle.fileio, handle.paths)
    states = log.states()
    state, holder = states.get(consumer_id), states.get(state_holder(consumer_id))
    _check_unused(handle, state)
    _check_unused(handle, holder)
    with log.open_dir() as place:
        # open the directory before the check: a new table at this path gets no consumer
        handle.schemas.check_same(handle.schema, table=handle.identifier)
        if next_snapshot is not None:
            handle.snapshots.load_or_changelog(next_snapshot)
        _end_lease(handle, log, state, place, next_snapshot)
        if holder is not None and not holder.is_end:
            _end_lease(handle, log, holder, place)
            log.delete_consumer(holder.consumer_id, within=place)
        if next_snapshot is None:
            log.delete_consumer(consumer_id, within=place)
        else:
            log.record(consumer_id, next_snapshot, within=place)


def clear_consumers(
    handle: TableHandle, including: str | None = None, excluding: str | None = None
) -> tuple[str, ...]:
    """Remove consumers by patterns of their whole names; return their ids.

    Raises
    ------
    InvalidInputError
        A pattern is not a regular expression.
    ConflictError
        A run uses one of them; none was removed.
    """
    included, excluded = _pattern(handle, including or ".*"), _pattern(handle, excluding or "")
    log = ConsumerLog(handle.fileio, handle.paths)
    chosen = {
        name: state
        for name, state in log.states().items()
        if any(map(included.fullmatch, {name, holder_of_state(name)}))
        if not (excluding and any(map(excluded.fullmatch, {name, holder_of_state(name)})))
        if not state.is_end
    }
    for state in chosen.values():
        _check_unused(handle, state)
    if chosen:
        with log.open_dir() as place:
            handle.schemas.check_same(handle.schema, table=handle.identifier)
            for name, state in chosen.items():
                _end_lease(handle, log, state, place)
                log.delete_consumer(name, within=place)
    return tuple(chosen)


def forget_state(handle: TableHandle, consumer_id: str) -> None:
    """Remove the hold of a first full state that a killed run left, for a run that needs none.

    Requires: this run holds the consumer.
    """
    log, name = ConsumerLog(handle.fileio, handle.paths), state_holder(consumer_id)
    if log.next_id(name) is not None:
        log.delete(name)


def _end_lease(
    handle: TableHandle,
    log: ConsumerLog,
    state: ConsumerState | None,
    place: OpenDirectory,
    next_snapshot: int | None = None,
) -> None:
    """Write a closed lease of the next term, which refuses a run that was only silent."""
    if state is None or state.lease is None or state.is_end:
        return
    run_id, now_ms = f"reset-{handle.env.ids.uuid()}", handle.env.clock.now_ms()
    end = state.lease.ended(run_id, now_ms, next_snapshot_id=next_snapshot or 0)
    if not log.take(end, within=place):
        _check_unused(handle, log.states().get(state.consumer_id))


def _check_unused(handle: TableHandle, state: ConsumerState | None) -> None:
    if state is None or state.lease is None or not state.is_in_use(handle.env.clock.now_ms()):
        return
    message = (
        f"Consumer '{state.consumer_id}' of table '{handle.identifier}' is in use by run"
        f" '{state.lease.run_id}': stop it first."
    )
    raise ConflictError(
        message, kind="consumer_in_use", table=handle.identifier, consumer=state.consumer_id
    )


def _pattern(handle: TableHandle, text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        message = f"'{text}' is not a regular expression for names of consumers: {error}."
        raise InvalidInputError(
            message, kind="consumer_pattern", table=handle.identifier
        ) from error
