"""Finds the masks of a read: from the cache, else computed here or where the caller says.

1. Sections in which a key has one of its rows, or none, are looked up in the cache.
2. Masks that are not known whole are computed, here on a few threads or, of many rows, by a
   function of the caller's (a job on executors).
3. They are kept, within the bound of ``read.mask-cache-size``.

A section whose fresh keys would not fit the memory has no mask: it is merged. Of their number that
is known before; of long texts only when they are read, and then noted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TypeAlias

from tidelake.merge import MergeSpec
from tidelake.options import declared
from tidelake.scan.context import ReadContext
from tidelake.scan.masks.cache import MaskCache, NewerFiles
from tidelake.scan.masks.file_masks import (
    FileMask,
    MaskRequest,
    merge_reason,
    section_masks,
    vector_mask,
)
from tidelake.scan.masks.hidden_rows import HiddenRows
from tidelake.scan.split import Section, Split

__all__ = ["ComputeMasks", "SectionMasks", "find_masks", "fits_memory", "masks_here"]

KEY_BYTES = 64
"""What a fresh key takes while masks are computed, about, if it is a short one."""

Computed: TypeAlias = tuple[MaskRequest, Sequence[tuple[FileMask, HiddenRows]] | None]
"""A request with its masks; None in their place if they do not fit the memory."""
ComputeMasks: TypeAlias = Callable[[ReadContext, Sequence[MaskRequest]], Iterator[Computed]]
"""Computes the masks that the cache did not know whole, in any order."""


SectionMasks: TypeAlias = Mapping[str, HiddenRows]
"""The hidden rows of a section's files, by file name: all other rows are live."""


def find_masks(
    context: ReadContext,
    sections: Sequence[tuple[Split, Section]],
    cache: MaskCache,
    *,
    compute: ComputeMasks | None = None,
) -> list[SectionMasks | None]:
    """Find the masks of sections of a primary-key table, or of files with deletion vectors.

    Parameters
    ----------
    context : ReadContext
        The table.
    sections : sequence of (Split, Section)
        Sections of one plan.
    cache : MaskCache
        Kept masks.
    compute : callable, optional
        Computes masks; by default on this process's threads.

    Returns
    -------
    list of (SectionMasks or None)
        For each section; None if it must be merged.

    Raises
    ------
    CorruptError, NotFoundError
        As of :func:`~tidelake.scan.masks.file_masks.section_masks`.
    """
    bytes_max = context.options.get(declared.READ_MASK_CACHE_SIZE)
    if bytes_max == 0:
        return [None] * len(sections)
    spec = MergeSpec.of(context.schema, context.options) if context.schema.primary_keys else None
    requests = [_request(context, split, section, spec, cache) for split, section in sections]
    found = [
        None
        if request is None
        else {m.file.file_name: m.known for m in request.files if m.known is not None}
        for request in requests
    ]
    unknown = [r for r in requests if r is not None and not r.is_known]
    places = {id(request): at for at, request in enumerate(requests) if request is not None}
    if unknown:
        for request, computed in (compute or masks_here)(context, unknown):
            own = found[places[id(request)]]
            assert own is not None
            if computed is None:
                cache.refuse(request.digest)
                found[places[id(request)]] = None
                continue
            for mask, hidden in computed:
                own[mask.file.file_name] = hidden
                cache.keep(mask.path, mask.names, hidden, bytes_max=bytes_max)
    cache.shrink(bytes_max)
    return [
        None if request is None or own is None else _with_vectors(context, request, own, cache)
        for request, own in zip(requests, found, strict=True)
    ]


def masks_here(context: ReadContext, requests: Sequence[MaskRequest]) -> Iterator[Computed]:
    """Compute masks on a few threads of this process; the results come in order."""
    spec = MergeSpec.of(context.schema, context.options)
    with closing(
        context.env.executor.map_ahead(
            lambda request: section_masks(context, request, spec),
            requests,
            weight=lambda request: _fresh_rows(request) * KEY_BYTES,
            weight_max=context.env.memory.sort_keys_bytes,
        )
    ) as computed:
        yield from zip(requests, computed, strict=True)


def _request(
    context: ReadContext,
    split: Split,
    section: Section,
    spec: MergeSpec | None,
    cache: MaskCache,
) -> MaskRequest | None:
    """What must be known of a section; None if it has to be merged."""
    if split.raw or spec is None:
        return MaskRequest(split, section, ())
    if merge_reason(section, spec) is not None:
        return None
    request = MaskRequest.of(context, split, section, spec, cache)
    is_merged = not request.is_known and (
        not fits_memory(context, request) or cache.is_refused(request.digest)
    )
    return None if is_merged else request


def fits_memory(context: ReadContext, request: MaskRequest) -> bool:
    """Whether the fresh keys fit, as far as their number tells."""
    return _fresh_rows(request) * KEY_BYTES <= context.env.memory.sort_keys_bytes


def _fresh_rows(request: MaskRequest) -> int:
    return sum(file.row_count for file in request.fresh.values())


def _with_vectors(
    context: ReadContext, request: MaskRequest, hidden: Mapping[str, HiddenRows], cache: MaskCache
) -> dict[str, HiddenRows]:
    """Add the rows that the files' own vectors delete.

    Both alone and united they are kept, so that each read gets the same objects.
    """
    found = dict(hidden)
    split = request.split
    if not split.deletions:
        return found
    bytes_max = context.options.get(declared.READ_MASK_CACHE_SIZE)
    masks = {mask.file.file_name: mask for mask in request.files}
    for file in (f for run in request.section for f in run):
        where = split.deletions.get(file.file_name)
        if where is None:
            continue
        vector = f"{where.path}:{where.offset}"
        own = _exactly(cache, vector, frozenset())
        if own is None:
            own = vector_mask(context, split, file)
            assert own is not None, "the file has a vector"
            cache.keep(vector, frozenset(), own, bytes_max=bytes_max)
        replaced = hidden.get(file.file_name)
        if replaced is not None:
            mask = masks[file.file_name]
            both = f"{vector}|{mask.path}"
            united = _exactly(cache, both, mask.names)
            if united is None:
                united = own.united(replaced)
                cache.keep(both, mask.names, united, bytes_max=bytes_max)
            own = united
        found[file.file_name] = own
    return found


def _exactly(cache: MaskCache, path: str, names: NewerFiles) -> HiddenRows | None:
    """A kept mask of these very names."""
    known = cache.nearest(path, names)
    return known[1] if known is not None and known[0] == names else None
