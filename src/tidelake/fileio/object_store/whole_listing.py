"""Notices a listing that ended too early: a store, or what stands between, lost its last pages.

A page holds up to 1,000 names, and the client stops where the store does not say that there are
more. If a listing ends with a full page, the names behind its last one are asked for: in truth
there are none. Other listings cost no further request, and a loss in the middle of a page shows
nowhere.
"""

from __future__ import annotations

from typing import Any

PAGE_NAMES = 1_000
"""Names of a page of S3 and GCS; Azure's holds five times as many."""
WHOLE_TRIES_MAX = 3
"""Listings of one directory: another may write behind the last name meanwhile."""
HIGHEST = "\U0010ffff"


def last_of_full_pages(found: Any) -> str | None:
    """The last name of a listing whose pages are all full; else None."""
    shared = found["common_prefixes"]
    count = len(shared) + len(found["objects"])
    if not count or count % PAGE_NAMES:
        return None
    files = [entry["path"] for entry in found["objects"]]
    return max([*files, *(f"{one.rstrip('/')}/{HIGHEST}" for one in shared)])


def ends_with(calls: Any, client: Any, prefix: str, last: str) -> bool:
    """Whether a store has nothing behind a name."""
    for page in calls.list(client, prefix or None, offset=last, chunk_size=1):
        return not page
    return True
