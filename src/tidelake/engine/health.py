"""How healthy a table is, and who reads it and works on it."""

from __future__ import annotations

from tidelake.metadata.log.consumer import ConsumerState
from tidelake.scan import live_deletions
from tidelake.table.health.finding import WARNING, Diagnosis, HealthFinding, RemedyCall
from tidelake.table.health.measures import FileMeasures
from tidelake.table.upkeep.claim import Claim, newest_claim

__all__ = [
    "WARNING",
    "Claim",
    "ConsumerState",
    "Diagnosis",
    "FileMeasures",
    "HealthFinding",
    "RemedyCall",
    "live_deletions",
    "newest_claim",
]
