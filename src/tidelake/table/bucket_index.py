"""Which bucket of a partition a key belongs to, where buckets are made as they are needed.

1. A key is known by the hash of its row; two keys of one hash share a bucket, which is no harm.
2. A hash that is in the index goes where it is.
3. A new one goes into the first bucket that is not full (``dynamic-bucket.target-row-num``), else
   into a new bucket; once there are ``dynamic-bucket.max-buckets`` into one of these, by its hash.

The new hashes of a batch are taken in order of the hash: which rows come with which does not
matter, only their order between batches. Of several assigners at work each takes the hashes that
are its own, and fills buckets ``b`` with ``b % assigners == number``.

Known hashes are two sorted arrays (6 bytes a key), a large one and one of the latest, merged when
the latter has grown; a batch of ``n`` rows costs O(n log keys). Source of the rule: Paimon's
``PartitionIndex`` (1.3.1), which takes the last step by chance.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from tidelake.errors import ConflictError, CorruptError, InvalidInputError

__all__ = ["BUCKETS_MAX", "BucketIndex", "Fill"]

BUCKETS_MAX = 32_767
"""Buckets of one partition, as Paimon numbers them in 16 bits."""

RECENT_MIN = 1 << 16
"""Latest hashes are merged into the large array when they are more than this and than a quarter."""

Hashes = npt.NDArray[np.int32]
Buckets = npt.NDArray[np.int32]


class Fill:
    """How new keys are spread over buckets.

    Parameters
    ----------
    target_rows : int
        Keys after which a bucket counts as full.
    buckets_max : int
        Most buckets of a partition; -1 for :data:`BUCKETS_MAX`.
    assigners, number : int
        How many assigners share a partition, and which of them this is.
    """

    __slots__ = ("assigners", "buckets_max", "number", "target_rows")

    def __init__(
        self, *, target_rows: int, buckets_max: int = -1, assigners: int = 1, number: int = 0
    ) -> None:
        self.target_rows = target_rows
        self.buckets_max = buckets_max
        self.assigners = assigners
        self.number = number

    def own(self, hashes: Hashes) -> Hashes:
        """Those of some hashes that are this assigner's."""
        if self.assigners == 1:
            return hashes
        return hashes[np.abs(hashes.astype(np.int64)) % self.assigners == self.number]


class BucketIndex:
    """The index of one partition. Not thread-safe.

    Parameters
    ----------
    known : mapping of int to int32 array
        The hashes of each bucket.
    fill : Fill
        How new keys are spread.
    where : str
        The partition, for messages.

    Raises
    ------
    CorruptError
        A hash is in two buckets: writers that knew nothing of each other put its keys into both.

    Examples
    --------
    >>> index = BucketIndex({0: np.array([7, 5], np.int32)}, Fill(target_rows=3), where="table t")
    >>> index.assign(np.array([5, 6, 9, 6], np.int32)).tolist()
    [0, 0, 1, 0]
    >>> index.known_count(0), index.hashes(0).tolist()
    (2, [7, 5, 6])
    """

    def __init__(self, known: Mapping[int, Hashes], fill: Fill, *, where: str) -> None:
        self._fill = fill
        self._where = where
        # an assigner among several does not keep what the others look up
        self._known = dict(known) if fill.assigners == 1 else {}
        self._added: dict[int, list[Hashes]] = {}
        self._counts = {
            bucket: len(known[bucket])
            for bucket in sorted(known)
            if bucket % fill.assigners == fill.number
        }
        self._used = set(known)
        self._next = fill.number
        own = {bucket: fill.own(hashes) for bucket, hashes in known.items()}
        self._hashes, self._buckets = _sorted(
            np.concatenate([np.empty(0, np.int32), *own.values()]),
            np.repeat(np.array(list(own), np.int16), [len(hashes) for hashes in own.values()]),
        )
        twice = np.flatnonzero(self._hashes[1:] == self._hashes[:-1])
        if len(twice):
            message = (
                f"The hash index of {where} has a key in buckets {self._buckets[twice[0]]} and"
                f" {self._buckets[twice[0] + 1]}: jobs that did not know of each other wrote to it."
                " Rewrite the partition with mode='overwrite'."
            )
            raise CorruptError(message, kind="index_twice")
        self._recent_hashes = np.empty(0, np.int32)
        self._recent_buckets = np.empty(0, np.int16)

    def assign(self, hashes: Hashes) -> Buckets:
        """Give each key its bucket; from now on the index knows them all.

        Parameters
        ----------
        hashes : int32 array [n]
            The keys' hashes, in any order, repeated or not.

        Returns
        -------
        int32 array [n]

        Raises
        ------
        InvalidInputError
            A key needs a bucket beyond :data:`BUCKETS_MAX`.
        """
        distinct = np.sort(hashes)
        distinct = distinct[
            np.flatnonzero(np.r_[True, distinct[1:] != distinct[:-1]][: len(distinct)])
        ]
        buckets = self._look_up(distinct)
        new = np.flatnonzero(buckets < 0)
        if len(new):
            buckets[new] = self._placed(distinct[new])
            self._remember(distinct[new], buckets[new])
        if buckets.min(initial=0) == buckets.max(initial=0):
            return np.zeros(len(hashes), np.int32)
        return buckets[np.searchsorted(distinct, hashes)]

    def put(self, bucket: int, hashes: Hashes) -> None:
        """Take note that keys were given a bucket elsewhere.

        Raises
        ------
        ConflictError
            One of them is in another bucket.
        """
        distinct = np.unique(hashes)
        buckets = self._look_up(distinct)
        if ((buckets >= 0) & (buckets != bucket)).any():
            message = (
                f"Keys of bucket {bucket} of {self._where} are in another bucket too, by the index"
                " or by rows of this write. Nothing was committed; write again."
            )
            raise ConflictError(message, kind="bucket_assignment")
        new = distinct[buckets < 0]
        if len(new):
            self._remember(new, np.full(len(new), bucket, np.int32))

    def known_count(self, bucket: int) -> int:
        """How many hashes the bucket had at the beginning."""
        return len(self._known.get(bucket, ()))

    def has_added(self, bucket: int) -> bool:
        """Whether the bucket has new hashes."""
        return bucket in self._added

    def hashes(self, bucket: int) -> Hashes:
        """All hashes of a bucket, those from the beginning first."""
        return np.concatenate(
            [self._known.get(bucket, np.empty(0, np.int32)), *self._added.get(bucket, ())]
        )

    def _look_up(self, distinct: Hashes) -> Buckets:
        """The buckets of sorted hashes; -1 for those that are new."""
        buckets = np.full(len(distinct), -1, np.int32)
        for hashes, own in (
            (self._hashes, self._buckets),
            (self._recent_hashes, self._recent_buckets),
        ):
            if len(hashes):
                places = np.minimum(np.searchsorted(hashes, distinct), len(hashes) - 1)
                found = hashes[places] == distinct
                buckets[found] = own[places[found]]
        return buckets

    def _placed(self, new: Hashes) -> Buckets:
        """Buckets for new hashes, filled one after the other."""
        buckets: list[Buckets] = []
        rest = len(new)
        for bucket, count in self._counts.items():  # over buckets, not rows
            taken = min(rest, max(0, self._fill.target_rows - count))
            if taken:
                buckets.append(np.full(taken, bucket, np.int32))
                self._counts[bucket] = count + taken
                rest -= taken
            if not rest:
                break
        while rest and (made := self._new_bucket()) is not None:
            taken = min(rest, max(1, self._fill.target_rows))
            buckets.append(np.full(taken, made, np.int32))
            self._counts[made] = taken
            rest -= taken
        if rest:
            own = np.array(sorted(self._counts) or sorted(self._used), np.int32)
            over = new[len(new) - rest :].astype(np.int64)
            buckets.append(own[np.abs(over) % len(own)])
        return np.concatenate(buckets)

    def _new_bucket(self) -> int | None:
        """The next number that is free and this assigner's; None where there are enough."""
        fill = self._fill
        limit = BUCKETS_MAX if fill.buckets_max == -1 else fill.buckets_max
        while self._next in self._used:
            self._next += fill.assigners
        if self._next >= limit and fill.buckets_max != -1 and self._used:
            return None
        if self._next >= limit and fill.buckets_max == -1:
            message = (
                f"{self._where} needs more than {BUCKETS_MAX} buckets of {fill.target_rows} keys:"
                " raise 'dynamic-bucket.target-row-num', or give 'dynamic-bucket.max-buckets'."
            )
            raise InvalidInputError(message, kind="too_many_buckets")
        self._used.add(self._next)
        return self._next

    def _remember(self, hashes: Hashes, buckets: Buckets) -> None:
        """Add sorted new hashes."""
        for bucket in np.unique(buckets).tolist():
            self._added.setdefault(bucket, []).append(hashes[buckets == bucket])
            self._used.add(bucket)
        self._recent_hashes, self._recent_buckets = _sorted(
            np.concatenate([self._recent_hashes, hashes]),
            np.concatenate([self._recent_buckets, buckets.astype(np.int16)]),
        )
        if len(self._recent_hashes) > max(RECENT_MIN, len(self._hashes) // 4):
            self._hashes, self._buckets = _sorted(
                np.concatenate([self._hashes, self._recent_hashes]),
                np.concatenate([self._buckets, self._recent_buckets]),
            )
            self._recent_hashes = np.empty(0, np.int32)
            self._recent_buckets = np.empty(0, np.int16)


def _sorted(hashes: Hashes, buckets: npt.NDArray[np.int16]) -> tuple[Hashes, npt.NDArray[np.int16]]:
    order = np.argsort(hashes, kind="stable")
    return hashes[order], buckets[order]
