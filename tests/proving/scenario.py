"""What a scenario is: a table, the operations on it, and maybe another process beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from proving.fsck import walk
from proving.model import MergedTable, ModelTable
from proving.steps import Step
from proving.world import NAME, WAREHOUSE, Shape, open_catalog
from tidelake.fileio import MemoryFileIO


@dataclass
class Beside:
    """Another process, which acts in the midst of a scenario's steps."""

    step: Step
    moment: Callable[[str, bytes], bool]
    """As of `Between`."""
    fails: bool
    """Whether its calls are those that fail, and not those of the steps."""


@dataclass
class Scenario:
    """A table and the operations on it."""

    name: str
    shape: Shape
    steps: list[Step] = field(default_factory=list)
    settle: Callable | None = None
    """What makes all that was written visible, and a table that stopped half-way writable."""
    given: list[Step] = field(default_factory=list)
    """What was done before, without a fault; if there is any, the table is there too."""
    beside: Beside | None = None

    @cached_property
    def world(self) -> tuple[dict[str, bytes], ModelTable]:
        """What was given: the files there are, and the model."""
        files, model = MemoryFileIO(), _model_of(self.shape)
        if self.given:
            catalog = open_catalog(files, 3)
            self.shape.create(catalog)
            for step in self.given:
                step.engine(catalog.table(NAME))
                step.model(model)
        return {path: files.read_bytes(path) for path, _ in walk(files, WAREHOUSE)}, model


def _model_of(shape: Shape) -> ModelTable:
    if shape.engine in ("partial-update", "aggregation"):
        return MergedTable(shape.keys, options=dict(shape.options))
    return ModelTable(shape.keys, shape.partition_keys, shape.sequence_field, engine=shape.engine)
