"""The position of a query in a table's stream, as the texts in Spark's checkpoint.

Spark asks for the end of the next batch again and again; a cursor answers from the text of the last
one. Without a text the options decide where a stream begins. The first text then keeps that offset
(``from``), since Spark keeps only ends: a batch that Spark asks for again after a crash begins
where it did before. Where there are no rows to give yet, the text of an empty batch keeps the
offset.

It uses no Java: a source in the driver and a reader in a Python process of Spark share it.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

from tidelake.engine.streams import StreamOffset, StreamPlan
from tidelake.spark.streams.read.alignment import AlignmentGroups, AlignmentRule
from tidelake.spark.streams.read.hold import SourceHold

BEGAN = "from"
"""On disk, never rename: key of the stream's first offset, in the text of its first batch."""
_NUMBERS = itertools.count(1)
_GROUPS = AlignmentGroups()
"""The aligned streams of this process."""


class StreamCursor:
    """The progress of one query in one table. For one thread at a time.

    Parameters
    ----------
    hold : SourceHold, optional
        Holds the next snapshots, so that they do not expire.
    """

    def __init__(self, plan: StreamPlan, hold: SourceHold | None = None) -> None:
        self.plan = plan
        self._hold = hold
        self.number = next(_NUMBERS)
        self._rule = rule = AlignmentRule.of(plan.handle.options, table=plan.table)
        if rule is not None:
            _GROUPS.join(rule, self.number, now_ms=plan.handle.env.clock.now_ms())
        self._is_fixed = False
        self._until: StreamOffset | None = None
        self._began: StreamOffset | None = None

    def fix_end(self) -> None:
        """Set the end of the stream to the newest snapshot of now."""
        self._is_fixed, self._until = True, self.plan.latest(position_only=True)

    def next(self, start: str | None) -> str | None:
        """Find the end of the next batch; the start itself without new rows.

        Raises
        ------
        NotFoundError, UnsupportedError, InvalidInputError
            As of :meth:`tidelake.table.stream.StreamPlan.next`.
        """
        if self._is_fixed and self._until is None:
            self._leave()
            if start is not None:
                self.plan.check_end(self.plan.offset(start))
            return start
        if start is not None:
            at = self.plan.offset(start)
            self.hold_from(at)
            end = self._step(at)
            return start if end == at else end.to_json()
        if self._began is None:
            self._began = self.plan.initial()
        if self._began is None:
            return None
        self.hold_from(self._began)
        document = json.loads(self._step(self._began).to_json())
        return json.dumps({**document, BEGAN: json.loads(self._began.to_json())})

    def hold_from(self, at: StreamOffset) -> None:
        """Hold the snapshots behind an offset before they are read, so that they do not expire."""
        if self._hold is not None:
            self._hold.begin(at)

    def done_before(self, end: str) -> None:
        """Release the snapshots before an offset: they were read and are not needed again."""
        if self._hold is not None:
            self._hold.done_before(self.plan.offset(end))

    def latest(self) -> str | None:
        """Give the offset behind the newest snapshot."""
        found = self.plan.latest(position_only=True)
        return None if found is None else found.to_json()

    def between(self, start: str | None, end: str) -> tuple[StreamOffset, StreamOffset]:
        """Parse the two ends of a batch; does not read the table."""
        last = self.plan.offset(end)
        if start is not None:
            return self.plan.offset(start), last
        began = json.loads(end).get(BEGAN)
        return last if began is None else self.plan.offset(json.dumps(began)), last

    def is_ended(self, at: str) -> bool:
        """Whether the stream has ended."""
        return not self._is_fixed and self.plan.is_ended(self.plan.offset(at))

    def close(self) -> None:
        """Release everything at the end of the query."""
        if self._hold is not None:
            self._hold.close()
        self._leave()

    def _step(self, at: StreamOffset) -> StreamOffset:
        """Find the end of the batch that begins at an offset, as far as the alignment allows."""
        plan, rule = self.plan, self._rule
        if rule is None:
            return plan.next(at, plan.limits, self._until)
        end = self._aligned(rule, at)
        is_at_end = self._until is not None and end.position >= self._until.position
        if is_at_end or plan.is_ended(end):
            self._leave()  # it has nothing more that others could wait for
        else:
            now_ms = plan.handle.env.clock.now_ms()
            _GROUPS.note(rule, self.number, plan.watermark(end), now_ms=now_ms)
        return end

    def _aligned(self, rule: AlignmentRule, at: StreamOffset) -> StreamOffset:
        """As :meth:`_step`, of a member of a group."""
        plan, here = self.plan, self.plan.watermark(at)
        now_ms = plan.handle.env.clock.now_ms()
        reach = _GROUPS.reach(rule, self.number, here, now_ms=now_ms)
        if reach is None or at.phase == "full":  # the rows of a state have no order in time
            return plan.next(at, plan.limits, self._until)
        most = reach.watermark
        if here is not None and most is not None and here > most:
            _GROUPS.wait(rule, self.number, now_ms=now_ms)
            return at
        end = plan.next(at, plan.limits, self._until)
        there = plan.watermark(end)
        if there is None or (most is not None and there <= most):
            return end
        until = None if most is None else plan.end_within(at, end, most)
        if until is not None:
            return plan.next(at, plan.limits, until)
        if not reach.is_last:
            _GROUPS.wait(rule, self.number, now_ms=now_ms)
            return at
        limits = replace(plan.limits, files=1, min_rows=None, max_delay_ms=None)
        return plan.next(at, limits, self._until)

    def _leave(self) -> None:
        if self._rule is not None:
            _GROUPS.leave(self._rule, self.number)
            self._rule = None
