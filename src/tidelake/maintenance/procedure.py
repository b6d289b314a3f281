"""Declaration of a procedure: name, parameters, answer columns and function.

Arguments are positional or named, as in Spark: positional ones first, names in any case, NULL for a
missing one. A value is cast if that keeps it: an integer to text, digits to a number, ``'true'`` to
a boolean. Any other type is an error that names parameter and type. A time without a zone is in the
zone of the session that runs the statement; a call without a session refuses it.
"""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from tidelake.engine.jobs import HERE, MaintenanceRound, OrphansOfTables, Runner, TablePlan
from tidelake.engine.tables import (
    Catalog,
    Table,
    Time,
    instant_ms,
    timestamp_ms,
    whole_number,
)
from tidelake.engine.write import WriteResult
from tidelake.errors import InvalidInputError, NotFoundError, near_names, shortened

Rows: TypeAlias = Iterable[Sequence[object]]
INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1


class ParameterType(enum.StrEnum):
    """Type of a parameter, by SQL's name."""

    TABLE = "table name"
    STRING = "STRING"
    LONG = "BIGINT"
    INTEGER = "INT"
    BOOLEAN = "BOOLEAN"
    TIME = "BIGINT or TIMESTAMP"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter.

    Parameters
    ----------
    is_required : bool
        It must be given.
    is_ours : bool
        Paimon 1.3.1 does not have it.
    """

    name: str
    type: ParameterType
    description: str
    is_required: bool = False
    is_ours: bool = False


def required(name: str, type: ParameterType, description: str) -> Parameter:
    """Declare a required parameter."""
    return Parameter(name, type, description, is_required=True)


def optional(
    name: str, type: ParameterType, description: str, *, is_ours: bool = False
) -> Parameter:
    """Declare an optional parameter."""
    return Parameter(name, type, description, is_ours=is_ours)


class CdcTableStatus(Protocol):
    """One table of a job, as :class:`tidelake.cdc.TableStatus`."""

    @property
    def source(self) -> str:
        """Its name in the source."""

    @property
    def target(self) -> str:
        """Its name in the lake."""

    @property
    def phase(self) -> str:
        """How far it is: ``live``, ``suspended``."""

    @property
    def rows(self) -> int:
        """How many rows were applied."""

    @property
    def copies(self) -> int:
        """How often it was copied whole."""

    @property
    def reason(self) -> str:
        """Why it is not live."""


class CdcLag(Protocol):
    """How far a job is behind, as :class:`tidelake.cdc.JobLag`."""

    @property
    def seconds(self) -> float | None:
        """How much newer the source is than the tables."""

    @property
    def is_bound(self) -> bool:
        """Whether it may be less."""

    @property
    def note(self) -> str:
        """Why it is a bound, or not known."""

    @property
    def bytes_count(self) -> int | None:
        """Bytes of the source's log behind the job's position."""

    @property
    def messages_count(self) -> int | None:
        """Messages behind the job's position."""


class CdcStatus(Protocol):
    """How a job is, as :class:`tidelake.cdc.SyncStatus`."""

    @property
    def job(self) -> str:
        """Its name."""

    @property
    def epoch(self) -> int:
        """The newest that was begun; -1 for a job that never ran."""

    @property
    def position(self) -> str:
        """Up to which everything is applied."""

    @property
    def newest(self) -> str:
        """The source's newest position."""

    @property
    def is_behind(self) -> bool:
        """Whether the source has more."""

    @property
    def tables(self) -> Sequence[CdcTableStatus]:
        """Its tables."""

    @property
    def quarantined(self) -> int:
        """How many rows are in the quarantine."""

    @property
    def lag(self) -> CdcLag:
        """How far it is behind the source."""

    @property
    def source(self) -> Mapping[str, object]:
        """The source's own facts."""


class CdcJob(Protocol):
    """A job of change data capture, as :class:`tidelake.cdc.Sync`."""

    def plan(self) -> object:
        """Look at the source and the lake; the plan's text is for people."""

    def run(self, *, once: bool | None = None) -> None:
        """Apply what the source has now."""

    def status(self) -> CdcStatus:
        """Read how the job is."""

    def resnapshot(self, table: str) -> None:
        """Ask that a table is copied again."""

    def replay(self, table: str | None = None) -> object:
        """Ask that rows of the quarantine are tried again; the answer's text is for people."""

    def epochs(self) -> pa.Table:
        """List the complete epochs."""

    def drop(self) -> list[str]:
        """End it for good; what was removed."""


class ProcedureRunner(Protocol):
    """Runs compactions and jobs, such as a Lake on its executors."""

    def cdc_from_file(self, path: str) -> CdcJob:
        """Make the job that a file describes."""
        ...

    def compact(
        self,
        name: str,
        *,
        full: bool = False,
        partitions: object = None,
        buckets: Collection[int] | None = None,
        order: str | None = None,
        by: Sequence[str] | None = None,
        options: Mapping[str, object] | None = None,
    ) -> WriteResult:
        """Compact a table like :meth:`tidelake.Table.compact`."""
        ...

    def remove_orphan_files(
        self,
        name: str,
        *,
        older_than: Time | None = None,
        dry_run: bool = False,
        parallelism: int | None = None,
    ) -> OrphansOfTables:
        """Remove orphan files like :meth:`tidelake.catalog.Catalog.remove_orphan_files`."""
        ...

    def plan_runner(self) -> Runner:
        """What runs the tasks of a job that is a plan."""
        ...

    def maintain(
        self, *tables: str, rounds: int | None = None, dry_run: bool = False
    ) -> MaintenanceRound | tuple[TablePlan, ...]:
        """Maintain tables like :meth:`tidelake.catalog.Catalog.maintain`."""
        ...


@dataclass(frozen=True, slots=True)
class ProcedureCall:
    """One call with bound and cast arguments.

    Parameters
    ----------
    arguments : mapping
        Values by parameter; None for a missing one.
    runner : ProcedureRunner, optional
        Runs compactions, this process by default; and jobs, which need it.
    catalogs : mapping of str to Catalog
        Others by name, for tables of theirs.
    """

    procedure: str
    catalog: Catalog
    arguments: Mapping[str, Any]
    runner: ProcedureRunner | None = None
    catalogs: Mapping[str, Catalog] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    @property
    def plan_runner(self) -> Runner:
        """What runs the tasks of a job that is a plan: this process by default."""
        return HERE if self.runner is None else self.runner.plan_runner()

    @property
    def table(self) -> Table:
        """The table of the parameter ``table``.

        Raises
        ------
        InvalidInputError
            It is a system table.
        """
        return self.data_table(self.catalog, self.arguments["table"])

    def data_table(self, catalog: Catalog, name: str) -> Table:
        """Open a table of a catalog.

        Raises
        ------
        InvalidInputError
            It is a system table.
        """
        found = catalog.table(name)
        if not isinstance(found, Table):
            message = f"'{name}' is a system table: {self.procedure} takes the table itself."
            raise InvalidInputError(message, kind="system_table", table=name)
        return found

    def named(self, argument: str) -> tuple[Catalog, str]:
        """The catalog and the name of a table that an argument names: ``[catalog.]db.t``.

        Raises
        ------
        NotFoundError
            There is no such catalog.
        """
        name: str = self.arguments[argument]
        first, _, rest = name.partition(".")
        if "." not in rest:
            return self.catalog, name
        if first not in self.catalogs:
            message = (
                f"There is no catalog '{first}'.{near_names(first, self.catalogs)} Catalogs are:"
                f" {', '.join(self.catalogs) or 'that of the call alone'}."
            )
            raise NotFoundError(message, kind="catalog_not_found", name=first)
        return self.catalogs[first], rest

    def invalid(self, name: str, reason: str) -> InvalidInputError:
        """Make the error for an invalid argument."""
        message = f"Argument '{name}' of {self.procedure}: {reason}"
        return InvalidInputError(
            message, kind="procedure_argument", procedure=self.procedure, argument=name
        )


@dataclass(frozen=True, slots=True)
class Procedure:
    """One procedure.

    Parameters
    ----------
    name : str
        Its name behind ``sys.``.
    parameters : tuple of Parameter
        In the order of positions.
    run : callable
        Runs it and returns the rows of the answer.
    example : str
        A call, behind ``CALL sys.``.
    """

    name: str
    parameters: tuple[Parameter, ...]
    output: pa.Schema
    description: str
    run: Callable[[ProcedureCall], Rows]
    example: str

    @property
    def usage(self) -> str:
        """Signature in one line."""
        parts = [p.name if p.is_required else f"[{p.name}]" for p in self.parameters]
        return f"{self.name}({', '.join(parts)})"

    def bind(
        self,
        positional: Sequence[object],
        named: Mapping[str, object],
        *,
        zone: dt.tzinfo | None = None,
    ) -> dict[str, object]:
        """Bind values to parameters; None for a missing one.

        `zone` is that of times without one: None to refuse them.

        Raises
        ------
        InvalidInputError
            A name is unknown, an argument is given twice, or missing, there are too many, or a type
            is wrong.
        """
        names = [p.name for p in self.parameters]
        if len(positional) > len(names):
            raise self._wrong(
                f"takes {len(names)} arguments, but got {len(positional)}.",
                argument=str(len(names) + 1),
            )
        given: dict[str, object] = dict(zip(names, positional, strict=False))
        spelled = {name.lower(): name for name in names}
        for name, value in named.items():
            known = spelled.get(str(name).lower())
            if known is None:
                near = near_names(str(name), names)
                raise self._wrong(f"has no parameter '{name}'.{near}", argument=str(name))
            if known in given:
                raise self._wrong(f"has parameter '{known}' given twice.", argument=known)
            given[known] = value
        for parameter in self.parameters:
            if parameter.is_required and given.get(parameter.name) is None:
                raise self._wrong(f"needs '{parameter.name}'.", argument=parameter.name)
        return {p.name: self._cast(p, given.get(p.name), zone) for p in self.parameters}

    def _cast(self, parameter: Parameter, value: object, zone: dt.tzinfo | None) -> object:
        if value is None:
            return None
        if parameter.type is ParameterType.TIME:
            cast: object = self._time_ms(parameter, value, zone)
        else:
            cast = _CASTS[parameter.type](value)
        if cast is None:
            shown = shortened(repr(value))
            raise self._wrong(
                f"takes '{parameter.name}' as {parameter.type}, not {shown}.",
                argument=parameter.name,
            )
        return cast

    def _time_ms(self, parameter: Parameter, value: object, zone: dt.tzinfo | None) -> int | None:
        if not isinstance(value, (str, dt.date)):
            return whole_number(value)
        try:
            if zone is not None:
                return timestamp_ms(value, zone=zone)
            what = f"argument '{parameter.name}' of {self.name}"
            return instant_ms(value, what=what)
        except InvalidInputError as error:
            if error.kind == "naive_time":
                raise
            return None

    def _wrong(self, what: str, *, argument: str) -> InvalidInputError:
        message = f"Procedure '{self.name}' {what} Usage: {self.usage}."
        return InvalidInputError(
            message, kind="procedure_argument", procedure=self.name, argument=argument
        )


def _text(value: object) -> str | None:
    if isinstance(value, str):
        return value
    number = whole_number(value)
    return None if number is None else str(number)


def _table_name(value: object) -> str | None:
    return value.replace("`", "") if isinstance(value, str) and value.strip() else None


def _whole(value: object) -> int | None:
    if isinstance(value, str):
        digits = value.strip()
        is_number = digits.removeprefix("-").isdecimal() and digits.isascii()
        return int(digits) if is_number else None
    return whole_number(value)


def _number_below(bound: int) -> Callable[[object], int | None]:
    def cast(value: object) -> int | None:
        number = _whole(value)
        return number if number is not None and -bound - 1 <= number <= bound else None

    return cast


def _truth(value: object) -> bool | None:
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else None


_CASTS: Mapping[ParameterType, Callable[[object], object]] = {
    ParameterType.TABLE: _table_name,
    ParameterType.STRING: _text,
    ParameterType.LONG: _number_below(LONG_MAX),
    ParameterType.INTEGER: _number_below(INT_MAX),
    ParameterType.BOOLEAN: _truth,
}
