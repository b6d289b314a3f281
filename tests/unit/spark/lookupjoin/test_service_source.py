"""Keys asked of the query service: the answers of local files."""

import pyarrow as pa
import pytest

import tidelake
from tidelake.errors import NotFoundError
from tidelake.spark.lookupjoin.join import LookupMeans, lookup_function
from tidelake.spark.lookupjoin.service_source import ServiceLookup, is_served
from tidelake.spark.lookupjoin.task import LocalLookup


def test_a_service_gives_what_local_files_give(tmp_path):
    catalog = tidelake.open(tmp_path)
    schema = {"day": "INT", "no": "STRING", "v": "STRING"}
    table = catalog.create_table("db.t", schema, primary_keys=["day", "no"], options={"bucket": 2})
    (first,) = table.write(
        [{"day": n % 3, "no": str(n), "v": None} for n in range(50)]
    ).snapshot_ids
    means = LookupMeans("service", catalog=catalog)
    assert not is_served(table)
    with pytest.raises(NotFoundError, match="No query service"):
        lookup_function(table, table.table_schema.fields, means)
    keys = pa.RecordBatch.from_pydict(
        {"day": [n % 4 for n in range(60)], "no": [str(n) for n in range(60)]},
        schema=pa.schema({"day": pa.int32(), "no": pa.string()}),
    )
    local = LocalLookup(table, ("v", "no"))
    local.show(first)
    with tidelake.serve(str(tmp_path), ["db.t"], parallelism=1):
        assert is_served(table)
        served = ServiceLookup(catalog, "db.t", "day", ("v", "no"), {})
        served.show(first)
        ours, theirs = local.at(keys, first), served.at(keys, first)
        assert theirs[0].tolist() == ours[0].tolist()
        assert theirs[1].to_pydict() == ours[1].to_pydict()
        none = keys.slice(0, 1).set_column(0, "day", pa.array([77], pa.int32()))
        assert served.newest(none)[1].num_rows == 0
