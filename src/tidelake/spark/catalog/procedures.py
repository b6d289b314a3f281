"""CALL by plain ``spark.sql``: the procedures of ``sys`` as procedures of a Spark catalog.

Spark casts the arguments to the parameters' types, puts NULL for missing ones, and runs the
procedure while it analyses the statement. The procedure does the same as with ``tl.sql``:
:func:`tidelake.sql.execution.execute.execute` runs the same call.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame

from tidelake.engine.tables import Catalog
from tidelake.errors import NotFoundError, near_names
from tidelake.maintenance.procedure import ParameterType, Procedure, ProcedureRunner
from tidelake.maintenance.procedures import PROCEDURES
from tidelake.spark.callbacks.gateway import CONNECTOR, Gateway, JavaObject, Proxy
from tidelake.spark.catalog.scans.frame_scan import NoBatch
from tidelake.spark.sessions.time_zone import session_zone
from tidelake.sql.execution.execute import execute
from tidelake.sql.execution.session import SqlSession
from tidelake.sql.syntax.ast import Call

SYSTEM_DATABASE = "sys"
_KIND = f"{CONNECTOR}.catalog.procedures"
_TYPES = {
    ParameterType.TABLE: "StringType",
    ParameterType.STRING: "StringType",
    ParameterType.LONG: "LongType",
    ParameterType.INTEGER: "IntegerType",
    ParameterType.BOOLEAN: "BooleanType",
    ParameterType.TIME: "StringType",
}
"""A time here is text, possibly a number of milliseconds."""


def procedure_of(name: str, *, namespace: list[str]) -> Procedure:
    """The procedure of a name.

    Raises
    ------
    NotFoundError
        There is none; the message offers near names.
    """
    found = PROCEDURES.get(name.lower())
    if found is None or [part.lower() for part in namespace] != [SYSTEM_DATABASE]:
        shown = ".".join([*namespace, name])
        near = near_names(name, PROCEDURES)
        message = (
            f"There is no procedure '{shown}'.{near} Procedures are in {SYSTEM_DATABASE}:"
            f" {', '.join(PROCEDURES)}."
        )
        raise NotFoundError(message, kind="procedure_not_found", name=shown)
    return found


class LakeProcedure(Proxy, implements=(f"{_KIND}.UnboundProcedure", f"{_KIND}.BoundProcedure")):
    """One procedure on the tables of a warehouse.

    Parameters
    ----------
    runner_of : callable
        Compacts the tables of a catalog.
    """

    def __init__(
        self,
        gateway: Gateway,
        procedure: Procedure,
        catalog: Catalog,
        *,
        catalog_name: str,
        runner_of: Callable[[Catalog], ProcedureRunner | None] | None,
    ) -> None:
        super().__init__(gateway)
        self._procedure = procedure
        self._catalog = catalog
        self._catalog_name = catalog_name
        self._runner_of = runner_of

    def name(self) -> str:
        """Its name."""
        return self._procedure.name

    def description(self) -> str:
        """Its purpose and its call."""
        return f"{self._procedure.description} {self._procedure.usage}"

    def bind(self, _types: JavaObject) -> JavaObject:
        """Itself: it takes one form of arguments."""
        return self

    def isDeterministic(self) -> bool:
        """No: it changes tables."""
        return False

    def parameters(self) -> JavaObject:
        """Its parameters; optional ones default to NULL."""
        kind = self.gateway.java(f"{_KIND}.ProcedureParameter")
        types = self.gateway.java("org.apache.spark.sql.types.DataTypes")
        made = []
        for parameter in self._procedure.parameters:
            # ``in`` is a Python keyword
            one = getattr(kind, "in")(parameter.name, getattr(types, _TYPES[parameter.type]))
            one = one.comment(parameter.description)
            made.append((one if parameter.is_required else one.defaultValue("NULL")).build())
        return self.gateway.array(f"{_KIND}.ProcedureParameter", made)

    def call(self, row: JavaObject) -> JavaObject:
        """Run it; the answer is one scan of its rows."""
        given = {
            parameter.name: self._value(row, index, parameter.type)
            for index, parameter in enumerate(self._procedure.parameters)
            if not row.isNullAt(index)
        }
        spark = self.gateway.spark
        session = SqlSession(
            self._catalog,
            name=self._catalog_name,
            runner_of=self._runner_of,
            time_zone=lambda: session_zone(spark),
        )
        answer = execute(Call(self._procedure.name, (), given), session)
        scans = self.gateway.java("java.util.ArrayList")()
        scans.add(_Answer(self.gateway, spark.createDataFrame(answer)))
        return scans.iterator()

    def _value(self, row: JavaObject, index: int, kind: ParameterType) -> object:
        if kind is ParameterType.LONG:
            return int(row.getLong(index))
        if kind is ParameterType.INTEGER:
            return int(row.getInt(index))
        if kind is ParameterType.BOOLEAN:
            return bool(row.getBoolean(index))
        text = str(row.getUTF8String(index).toString())
        return int(text) if kind is ParameterType.TIME and text.isdecimal() else text


class _Answer(NoBatch, implements=(f"{CONNECTOR}.read.LocalScan",)):
    """The rows of an answer, already in memory."""

    def __init__(self, gateway: Gateway, frame: DataFrame) -> None:
        super().__init__(gateway)
        self._frame = frame

    def readSchema(self) -> JavaObject:
        """The columns."""
        return self._frame._jdf.schema()

    def rows(self) -> JavaObject:
        """The rows."""
        return self._frame._jdf.queryExecution().executedPlan().executeCollect()

    def description(self) -> str:
        """The text in EXPLAIN."""
        return "tidelake procedure"
