"""The objects of a bucket in memory, sorted by key: put with a condition, list by pages."""

from __future__ import annotations

import bisect
import hashlib
import itertools
from dataclasses import dataclass, field

HASHED_BYTES_MAX = 1 << 20
_versions = itertools.count(1)


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One object."""

    data: bytes
    etag: str
    modified_s: float
    metadata: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a listing; `after` is where the next one begins, None at the end."""

    keys: list[str]
    prefixes: list[str]
    after: str | None


def etag_of(data: bytes) -> str:
    """An entity tag: the hash as in S3, or a number for large bodies, which would be slow."""
    if len(data) <= HASHED_BYTES_MAX:
        return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'
    return f'"{next(_versions):032x}-1"'


class ObjectMap:
    """Objects by key. Not safe for threads by itself."""

    def __init__(self) -> None:
        self._objects: dict[str, StoredObject] = {}
        self._keys: list[str] = []

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: str) -> bool:
        return key in self._objects

    @property
    def keys(self) -> list[str]:
        """All keys, ascending."""
        return list(self._keys)

    def get(self, key: str) -> StoredObject | None:
        """One object."""
        return self._objects.get(key)

    def put(
        self, key: str, data: bytes, now_s: float, metadata: dict[str, str] | None = None
    ) -> StoredObject:
        """Write or overwrite."""
        if key not in self._objects:
            bisect.insort(self._keys, key)
        self._objects[key] = made = StoredObject(data, etag_of(data), now_s, metadata or {})
        return made

    def delete(self, key: str) -> None:
        """Delete one, if it is there."""
        if self._objects.pop(key, None) is not None:
            del self._keys[bisect.bisect_left(self._keys, key)]

    def page(self, prefix: str, delimiter: str, begin: str, count_max: int) -> Page:
        """List keys with a prefix from `begin` on; those with the delimiter behind it as one."""
        at = bisect.bisect_left(self._keys, max(prefix, begin))
        keys: list[str] = []
        prefixes: list[str] = []
        while at < len(self._keys) and self._keys[at].startswith(prefix):
            key = self._keys[at]
            if len(keys) + len(prefixes) == count_max:
                return Page(keys, prefixes, key)
            end = key.find(delimiter, len(prefix)) if delimiter else -1
            if end < 0:
                keys.append(key)
                at += 1
                continue
            shared = key[: end + len(delimiter)]
            prefixes.append(shared)
            beyond = shared[:-1] + chr(ord(shared[-1]) + 1)
            at = bisect.bisect_left(self._keys, beyond, at)
        return Page(keys, prefixes, None)
