"""Removes tags whose time is over.

A tag with a time to live goes when the local clock has passed its creation and that time. With
`older_than` every tag goes that was made before: one without a time to live counts from its file.
A tag that a branch needs stays (:mod:`tidelake.commit.tags.branch_starts`).
Source: Paimon's ``TagTimeExpire`` (2.1), which looks at no branch.
"""

from __future__ import annotations

from contextlib import suppress

from tidelake.commit.context import CommitContext
from tidelake.commit.tags.branch_starts import unneeded_by_branches
from tidelake.commit.tags.deletion import delete_tag_and_files, tags_of
from tidelake.commit.tags.reading import read_tags
from tidelake.errors import NotFoundError
from tidelake.metadata.log.tag import Tag


def expire_tags(
    context: CommitContext, *, older_than_ms: int | None = None, dry_run: bool = False
) -> list[str]:
    """Remove tags whose time is over; their names.

    Parameters
    ----------
    older_than_ms : int, optional
        Remove tags made before this instant too, milliseconds since the epoch.
    """
    clock, tags = context.env.clock, tags_of(context)
    offset_ms = clock.local_offset_ms()
    now_ms = clock.now_ms() + offset_ms
    made_in_files: dict[str, int] = {}
    if older_than_ms is not None:
        listed = context.fileio.list_dir(context.paths.tag_dir)
        made_in_files = {s.name.removeprefix("tag-"): s.modified_ms or now_ms for s in listed}

    def is_over(tag: Tag) -> bool:
        made_ms, kept_ms = tag.create_time_ms, tag.time_retained_ms
        is_past = made_ms is not None and kept_ms is not None and now_ms > made_ms + kept_ms
        if older_than_ms is None:
            return is_past
        if made_ms is None or kept_ms is None:
            made_ms = made_in_files.get(tag.name, now_ms) + offset_ms
        return is_past or older_than_ms + offset_ms > made_ms

    over: list[str] = []
    known = read_tags(context.fileio, context.paths, context.manifests, table=context.table)
    for name in [name for name, tag in known.items() if is_over(tag)]:
        with suppress(NotFoundError):  # deleted meanwhile
            if is_over(tags.load(name)):
                over.append(name)
    expired = []
    for name in unneeded_by_branches(context, over):
        if not dry_run:
            with suppress(NotFoundError):
                delete_tag_and_files(context, name)
        expired.append(name)
    return expired
