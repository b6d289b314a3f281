"""The merge engines as loops over the rows of one key, in plain Python.

Written from the rules in docs/format/merge.md and the vectors that ran on Java; shares no code with
the engines. Rows are (kind, values): kind '+I', '-U', '+U' or '-D', values a dict.
"""

from __future__ import annotations

import math
import struct
from decimal import ROUND_HALF_UP, Decimal

from proving.bitmap32 import Bitmap


class Refused(Exception):
    """The engine cannot take these rows."""


def float32(value):
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


class Column:
    """The accumulator of one column under one function."""

    def __init__(self, name, *, kind="", ignore_retract=False, **settings):
        self.name, self.kind, self.ignore = name, kind, ignore_retract
        self.settings = settings
        self.value, self.begun, self.overflows = None, False, False

    def add(self, new):
        self.value = self.combined(self.value, new)

    def add_older(self, old):
        if self.name == "collect" and not self.ignore:
            self.value = self.combined(self.value, old)
        else:
            self.value = self.combined(old, self.value)

    def combined(self, a, b):
        name = self.name
        if name == "last_value":
            return b
        if name == "last_non_null_value":
            return a if b is None else b
        if name == "first_value":
            if self.begun:
                return a
            self.begun = True
            return b
        if name == "first_non_null_value":
            if self.begun or b is None:
                return a
            self.begun = True
            return b
        if name == "collect" and self.settings.get("distinct"):
            if a is None and b is None:
                return None
            both = [*(a or []), *(b or [])]
            return [x for i, x in enumerate(both) if x not in both[:i]]
        if name == "listagg" and self.settings.get("distinct"):
            a, b = (None if x is None or not x.strip() else x for x in (a, b))
        if a is None or b is None:
            return b if a is None else a
        return getattr(self, "both_" + name)(a, b)

    def both_max(self, a, b):
        return b if self.rank(a) < self.rank(b) else a

    def both_min(self, a, b):
        return a if self.rank(a) <= self.rank(b) else b

    @staticmethod
    def rank(value):
        if isinstance(value, float):
            return (1, 0, 0) if math.isnan(value) else (0, value, math.copysign(1, value))
        return value.encode() if isinstance(value, str) else value

    def both_sum(self, a, b):
        return self.checked(a + b) if isinstance(a, float) else a + b

    @property
    def result(self):
        """The value that is stored: only here a sum must fit, on its way it may be larger."""
        if self.name == "sum" and self.value is not None:
            self.checked(self.value)
        if self.overflows:
            raise Refused
        return self.value

    def clear(self, value):
        """Begin again."""
        self.value, self.overflows = value, False

    def both_product(self, a, b):
        return self.checked(a * b)

    def checked(self, value):
        if self.kind == "FLOAT":
            return float32(value)
        if isinstance(value, Decimal):
            value = value.quantize(Decimal("0.01"), ROUND_HALF_UP)
            self.overflows |= abs(value) >= 1000  # DECIMAL(5, 2)
        elif isinstance(value, int):
            self.overflows |= not -(2**31) <= value < 2**31
        return value

    def both_bool_and(self, a, b):
        return a and b

    def both_bool_or(self, a, b):
        return a or b

    def both_listagg(self, a, b):
        delimiter = self.settings.get("delimiter", ",")
        if not self.settings.get("distinct"):
            return a + delimiter + b
        seen = a.split(delimiter)  # what is there stays as it is
        new = [x for x in dict.fromkeys(b.split(delimiter)) if x.strip() and x not in seen]
        return delimiter.join([a, *new])

    def both_collect(self, a, b):
        return a + b

    def both_rbm32(self, a, b):
        return Bitmap(a.numbers | b.numbers)

    def both_merge_map(self, a, b):
        return {**a, **b}

    def both_nested_update(self, a, b):
        limit = self.settings.get("count_limit")
        limit = 2**31 - 1 if limit is None else limit
        if len(a) >= limit:
            return a
        rows = [x for x in a if x is not None] + [x for x in b if x is not None][: limit - len(a)]
        if self.settings.get("nested_key"):
            return list({self.nested_key(x): x for x in rows}.values())
        return rows

    def nested_key(self, row):
        return tuple(row[name] for name in self.settings["nested_key"].split(","))

    def retract(self, old):
        if self.ignore:
            return
        name, value = self.name, self.value
        if name == "last_value":
            self.value = None
        elif name == "last_non_null_value":
            self.value = value if old is None else None
        elif name == "sum":
            if old is not None:
                self.value = -old if value is None else self.both_sum(value, -old)
        elif name == "product":
            if value is not None and old is not None:
                self.value = self.divided(value, old)
        elif name == "collect":
            if value is not None and old:
                gone, left = list(old), []
                for x in value:
                    if x in gone:
                        gone.remove(x)
                    else:
                        left.append(x)
                self.value = left
        elif name == "merge_map":
            if value is not None and old:
                self.value = {k: v for k, v in value.items() if k not in old}
        elif name == "nested_update":
            if value is not None and old is not None:
                rows = [x for x in value if x is not None]
                gone = [x for x in old if x is not None]
                if self.settings.get("nested_key"):
                    keys = [self.nested_key(x) for x in gone]
                    last = {self.nested_key(x): x for x in rows}
                    self.value = [x for k, x in last.items() if k not in keys]
                else:
                    self.value = [x for x in rows if x not in gone]
        else:
            raise Refused

    def divided(self, a, b):
        if b == 0:
            if isinstance(a, float):
                raise NotImplementedError
            raise Refused
        if isinstance(a, int):
            return self.checked(abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1))
        return self.checked(a / b)


def aggregated(rows, functions, *, remove_on_delete=False, not_null=()):
    """(kind, values) of one key's rows under 'aggregation'."""
    if len(rows) == 1:
        return rows[0]
    columns = {name: Column(**function) for name, function in functions.items()}
    deleted = False
    for kind, values in rows:
        deleted = remove_on_delete and kind == "-D"
        for name, column in columns.items():
            if deleted:
                column.clear(values[name] if name in not_null else None)
            elif kind in ("-U", "-D"):
                column.retract(values[name])
            else:
                column.add(values[name])
    return "-D" if deleted else "+I", {name: c.result for name, c in columns.items()}


def below(a, b):
    """Whether sequence a is below b; null is smallest."""
    return [(x is not None, x) if x is not None else (False,) for x in a] < [
        (x is not None, x) if x is not None else (False,) for x in b
    ]


def partially_updated(
    rows, functions, groups=(), *, ignore_delete=False, remove_on_delete=False, not_null=()
):
    """(kind, values) of one key's rows under 'partial-update'.

    groups: (sequence columns, members, removes). functions: of members only.
    """
    if len(rows) == 1:
        return rows[0]
    names = list(rows[0][1])
    columns = {n: Column(**functions.get(n, {"name": "last_value"})) for n in names}
    deleted, inserted = False, False

    def cleared(values):
        for n, column in columns.items():
            column.clear(values[n] if n in not_null else None)

    for kind, values in rows:
        deleted = False
        retracts = kind in ("-U", "-D")
        if retracts and ignore_delete:
            continue
        if retracts and not groups:
            if not remove_on_delete:
                raise Refused
            if kind == "-D":
                deleted = True
                cleared(values)
            continue
        inserted |= not retracts

        def compared(sequence, values=values):
            """None where the row says nothing of the group."""
            own = [values[n] for n in sequence]
            if all(x is None for x in own):
                return None
            return not below(own, [columns[n].value for n in sequence])

        deleted = kind == "-D" and any(r and compared(s) for s, _, r in groups)
        for sequence, members, _ in () if deleted else groups:
            newer = compared(sequence)
            if newer is None:
                continue
            for n in members:
                has_function = n in functions
                if newer and not retracts:
                    columns[n].add(values[n])
                elif newer or (retracts and has_function):
                    columns[n].retract(values[n])
                elif has_function:
                    columns[n].add_older(values[n])
            if newer:
                for n in sequence:
                    columns[n].value = values[n]
        if deleted:
            cleared(values)
        elif not retracts:
            grouped = {n for s, m, _ in groups for n in (*s, *m)}
            for n, column in columns.items():
                if n not in grouped and values[n] is not None:
                    column.value = values[n]
    return "-D" if deleted or not inserted else "+I", {n: c.result for n, c in columns.items()}


def merged(rows, options, *, keys, not_null=()):
    """(kind, values) of one key's rows in merge order, by a table's options.

    not_null: columns that hold no null.
    """
    others = [name for name in rows[0][1] if name not in keys]
    functions = {
        name: {
            "name": function,
            "ignore_retract": options.get(f"fields.{name}.ignore-retract") == "true",
            "distinct": options.get(f"fields.{name}.distinct") == "true",
            "delimiter": options.get(f"fields.{name}.list-agg-delimiter", ","),
            "nested_key": options.get(f"fields.{name}.nested-key"),
            "count_limit": int(options.get(f"fields.{name}.count-limit", 2**31 - 1)),
        }
        for name in others
        if (function := options.get(f"fields.{name}.aggregate-function"))
    }
    key_values = {name: rows[0][1][name] for name in keys}
    own = [(kind, {name: values[name] for name in others}) for kind, values in rows]
    if options["merge-engine"] == "aggregation":
        sequence = options.get("sequence.field", "").split(",")
        default = options.get("fields.default-aggregate-function", "last_non_null_value")
        for name in others:
            ignores = options.get(f"fields.{name}.ignore-retract") == "true"
            name_of = "last_value" if name in sequence else default
            functions.setdefault(name, {"name": name_of, "ignore_retract": ignores})
        removes = options.get("aggregation.remove-record-on-delete") == "true"
        kind, values = aggregated(own, functions, remove_on_delete=removes, not_null=not_null)
    else:
        removed = options.get("partial-update.remove-record-on-sequence-group", "").split(",")
        groups = []
        for option, members in options.items():
            if option.endswith(".sequence-group"):
                sequence = option.removeprefix("fields.").removesuffix(".sequence-group").split(",")
                groups.append((sequence, members.split(","), not set(sequence).isdisjoint(removed)))
        kind, values = partially_updated(
            own,
            functions,
            groups,
            ignore_delete=options.get("ignore-delete") == "true",
            remove_on_delete=options.get("partial-update.remove-record-on-delete") == "true",
            not_null=not_null,
        )
    return kind, key_values | values
