"""The identity of an epoch's commit to one target."""

from __future__ import annotations

from dataclasses import dataclass

from tidelake.engine.streams import COPY_MARK, REPLAY_MARK, Covered, MadeCommit, StreamStep
from tidelake.engine.tables import TableHandle
from tidelake.engine.write import CommitIdentity


@dataclass(frozen=True, slots=True)
class EpochStep:
    """One epoch.

    A commit of it says in its snapshot's properties which positions it covers: an epoch of the same
    number with other positions is refused, as that of a journal which was restored from a copy.

    Parameters
    ----------
    user : str
        The job, as commits name it.
    start, end : str
        The source's positions.
    """

    user: str
    epoch: int
    start: str
    end: str

    @classmethod
    def of_replay(cls, user: str, epoch: int, run: str) -> EpochStep:
        """Give the step of a replay, which covers no positions.

        The run tells it from an epoch of this number that another journal made.
        """
        mark = f"{REPLAY_MARK}{epoch} {run}"
        return cls(user, epoch, mark, mark)

    @classmethod
    def of_copy(cls, user: str, epoch: int, position: str) -> EpochStep:
        """Give the step of a copy.

        Its position tells it from a copy of this epoch that another journal made.
        """
        return cls(user, epoch, f"{COPY_MARK}{epoch}", f"{COPY_MARK}{position}")

    def identity(self, handle: TableHandle, before: MadeCommit | None) -> CommitIdentity:
        """Give the identity of the commit to one table.

        Parameters
        ----------
        before : MadeCommit, optional
            The job's last commit to the table. If it is no longer in the table's history the table
            was rolled back, and the commit is refused.
        """
        step = StreamStep(Covered.between(self.start, self.end), before)
        return CommitIdentity.of(handle, self.user, self.epoch, step=step)
