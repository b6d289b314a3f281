"""What a maintenance job does with one table: what is due, and who does it.

The job over many tables is :mod:`tidelake.catalog.upkeep.maintenance_job`. Nothing here decides how
a table is compacted or expires: that is :mod:`tidelake.table.jobs`.
"""

from tidelake.table.upkeep.policy import Task, UpkeepPolicy
from tidelake.table.upkeep.result import TableDone, TablePlan, TaskDone, TaskPlan
from tidelake.table.upkeep.table_upkeep import HERE, TableUpkeep, Workers

__all__ = [
    "HERE",
    "TableDone",
    "TablePlan",
    "TableUpkeep",
    "Task",
    "TaskDone",
    "TaskPlan",
    "UpkeepPolicy",
    "Workers",
]
