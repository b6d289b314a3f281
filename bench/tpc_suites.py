"""The two suites of queries on tables that change: which tables have keys, and what upserts change.

Imported beside DuckDB too, in an environment without Tidelake (`tpc_data.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

UPSERTS = 3
BUCKETS = 4
FRACTION = "0.0001000000"
"""In q11 of TPC-H, for scale factor 1."""


@dataclass(frozen=True)
class Suite:
    """A suite as DuckDB's extension of its name makes it."""

    name: str
    title: str
    make: str
    """The call that makes its rows."""

    keys: Mapping[str, tuple[str, ...]]
    """The tables that are upserted, with their primary keys; the first is that of the buckets."""

    changed: Mapping[str, Mapping[str, str]]
    """Columns that an upsert changes: SQL in which `{n}` is its number."""

    few: frozenset[str] = field(default=frozenset())
    """Tables with keys that are too small for several buckets."""

    def buckets(self, table: str) -> int:
        """How many buckets a table with keys has."""
        return 1 if table in self.few else BUCKETS

    def options(self, table: str) -> dict[str, str | int]:
        """Options of a table with keys, which nobody compacts."""
        own = {"bucket": self.buckets(table), "bucket-key": self.keys[table][0]}
        return {**own, "write-only": "true"}

    def text(self, name: str, found: str, scale: float) -> str:
        """A query as it is asked."""
        text = found.strip().rstrip(";").replace('"', "`")
        if (self.name, name) == ("tpch", "q11"):
            # the benchmark divides it by the scale; without that no part of a large scale is above
            text = text.replace(FRACTION, f"{float(FRACTION) / max(1, scale):.10f}")
        return text


TPCH = Suite(
    "tpch",
    "TPC-H",
    "dbgen",
    {"lineitem": ("l_orderkey", "l_linenumber"), "orders": ("o_orderkey",)},
    {
        "lineitem": {
            "l_quantity": "(l_quantity + {n}) % 50 + 1",
            "l_extendedprice": "l_extendedprice + {n}",
            "l_discount": "(l_discount + 0.0{n}) % 0.11",
        },
        "orders": {
            "o_totalprice": "o_totalprice + {n}",
            "o_comment": "'upsert {n} ' || o_comment",
        },
    },
)


def _sales(p: str) -> dict[str, str]:
    """What an upsert changes of a row of sales; `p` is the prefix of its columns."""
    return {
        f"{p}_quantity": f"({p}_quantity + {{n}}) % 100 + 1",
        f"{p}_ext_sales_price": f"{p}_ext_sales_price + {{n}}",
        f"{p}_net_profit": f"{p}_net_profit - {{n}}",
    }


TPCDS = Suite(
    "tpcds",
    "TPC-DS",
    "dsdgen",
    {
        "store_sales": ("ss_ticket_number", "ss_item_sk"),
        "store_returns": ("sr_ticket_number", "sr_item_sk"),
        "catalog_sales": ("cs_order_number", "cs_item_sk"),
        "catalog_returns": ("cr_order_number", "cr_item_sk"),
        "web_sales": ("ws_order_number", "ws_item_sk"),
        "web_returns": ("wr_order_number", "wr_item_sk"),
        "inventory": ("inv_item_sk", "inv_date_sk", "inv_warehouse_sk"),
    },
    {
        "store_sales": _sales("ss"),
        "catalog_sales": _sales("cs"),
        "web_sales": _sales("ws"),
        "store_returns": {
            "sr_return_quantity": "sr_return_quantity % 100 + {n}",
            "sr_net_loss": "sr_net_loss + {n}",
        },
        "catalog_returns": {
            "cr_return_quantity": "cr_return_quantity % 100 + {n}",
            "cr_net_loss": "cr_net_loss + {n}",
        },
        "web_returns": {
            "wr_return_quantity": "wr_return_quantity % 100 + {n}",
            "wr_net_loss": "wr_net_loss + {n}",
        },
        "inventory": {"inv_quantity_on_hand": "(inv_quantity_on_hand + 7 * {n}) % 1000"},
    },
    frozenset({"store_returns", "catalog_returns", "web_returns"}),
)
SUITES = {suite.name: suite for suite in (TPCH, TPCDS)}
