"""Chooses the engine for a table's rules."""

from __future__ import annotations

from tidelake.errors import UnsupportedError
from tidelake.merge.engines.aggregation import Aggregation
from tidelake.merge.engines.engine import Deduplicate, MergeEngine
from tidelake.merge.engines.first_row import FirstRow
from tidelake.merge.engines.partial_update import PartialUpdate
from tidelake.merge.spec import AGGREGATION, DEDUPLICATE, FIRST_ROW, PARTIAL_UPDATE, MergeSpec


def engine_of(spec: MergeSpec) -> MergeEngine:
    """Give the engine that a spec names."""
    if spec.engine == DEDUPLICATE:
        return Deduplicate(ignore_delete=spec.ignore_delete)
    if spec.engine == FIRST_ROW:
        return FirstRow()
    if spec.engine == AGGREGATION:
        return Aggregation(spec.functions, spec.remove_on_delete, spec.not_null)
    if spec.engine == PARTIAL_UPDATE:
        return PartialUpdate(
            spec.functions, spec.groups, spec.ignore_delete, spec.remove_on_delete, spec.not_null
        )
    message = f"Merge engine '{spec.engine}' is not covered by this version."
    raise UnsupportedError(message, kind="merge_engine")
