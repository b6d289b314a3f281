"""dbt with Spark in its own process: ``python run.py WAREHOUSE build``, in this directory.

dbt's ``method: session`` takes the Spark session that runs, here one with the warehouse attached.
"""

import sys

from dbt.cli.main import dbtRunner

import tidelake.spark

if __name__ == "__main__":
    tidelake.spark.attach(tidelake.spark.session("dbt"), sys.argv[1])
    sys.exit(0 if dbtRunner().invoke(sys.argv[2:]).success else 1)
