"""Finds the masks of a read: from the cache, else computed here or where the caller says.

1. Sections are looked up in the cache.
2. Masks that are not known whole are computed, here on a few threads or, of many rows, by a
   function of the caller's (a job on executors).
3. They are kept, within the bound of ``read.mask-cache-size``.

A section whose held keys would not fit the memory has no mask: it is merged. Of their number that
is known before; of long texts only when they are read, and then noted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TypeAlias

from tidelake.merge import MergeSpec
from tidelake.options import declared
from tidelake.scan.context import ReadContext
from tidelake.scan.masks.cache import MaskCache, NewerFiles
from tidelake.scan.masks.file_masks import section_masks, vector_mask
from tidelake.scan.masks.hidden_rows import HiddenRows
from tidelake.scan.masks.mask_request import FileMask, MaskRequest
from tidelake.scan.masks.rule import MaskRule
from tidelake.scan.split import Section, Split

KEY_BYTES = 64
"""What a held key takes while masks are computed, about, if it is a short one."""

Computed: TypeAlias = tuple[MaskRequest, Sequence[tuple[FileMask, HiddenRows]] | None]
"""A request with its masks; None in their place if they do not fit the memory."""
ComputeMasks: TypeAlias = Callable[[ReadContext, Sequence[MaskRequest]], Iterator[Computed]]
"""Computes the masks that the cache did not know whole, in any order."""


@dataclass(frozen=True, slots=True)
class SectionMasks:
    """What a read leaves out of the files of a section, which need no merge then.

    Parameters
    ----------
    hidden : mapping of str to HiddenRows
        By file name: all other rows are live, each the only one of its key.
    merged : mapping of str to HiddenRows
        Of the hidden rows those that a merge of themselves alone makes live rows of.
    """

    hidden: Mapping[str, HiddenRows]
    merged: Mapping[str, HiddenRows] = field(default_factory=dict)

    @property
    def merged_count(self) -> int:
        """Number of rows to merge."""
        return sum(rows.hidden_count for rows in self.merged.values())


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

    Notes
    -----
    Only keys are read, and what decides between rows of one key.
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
        None if request is None or own is None else _section_masks(context, request, own, cache)
        for request, own in zip(requests, found, strict=True)
    ]


def _section_masks(
    context: ReadContext, request: MaskRequest, own: Mapping[str, HiddenRows], cache: MaskCache
) -> SectionMasks:
    hidden = _with_vectors(context, request, own, cache)
    if request.rule is not MaskRule.LONE:
        return SectionMasks(hidden)
    return SectionMasks(hidden, {name: rows for name, rows in own.items() if rows.hidden_count})


def masks_here(context: ReadContext, requests: Sequence[MaskRequest]) -> Iterator[Computed]:
    """Compute masks on a few threads of this process; the results come in order."""
    spec = MergeSpec.of(context.schema, context.options)
    with closing(
        context.env.executor.map_ahead(
            lambda request: section_masks(context, request, spec),
            requests,
            weight=lambda request: _held_rows(request) * KEY_BYTES,
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
        return MaskRequest(split, section, section, ())
    reason, request = refusal(context, split, section, spec, cache)
    return None if reason else request


def refusal(
    context: ReadContext, split: Split, section: Section, spec: MergeSpec, cache: MaskCache
) -> tuple[str | None, MaskRequest]:
    """Why a section of several runs has no masks, or None; and what is known of them.

    Only the cache and metadata are looked at: keys may turn out to be too long later.
    """
    request = MaskRequest.of(context, split, section, spec, cache)
    if context.options.get(declared.READ_MASK_CACHE_SIZE) == 0:
        return f"{declared.READ_MASK_CACHE_SIZE.key} = 0", request
    if request.is_known:
        return None, request
    if not fits_memory(context, request):
        return f"{_held_rows(request):,} keys that do not fit the memory of a sort", request
    if cache.is_refused(request.digest):
        return "keys too long for the memory of a sort", request
    return None, request


def fits_memory(context: ReadContext, request: MaskRequest) -> bool:
    """Whether the held keys fit, as far as their number tells."""
    return _held_rows(request) * KEY_BYTES <= context.env.memory.sort_keys_bytes


def _held_rows(request: MaskRequest) -> int:
    return sum(file.row_count for file in request.held.values())


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
