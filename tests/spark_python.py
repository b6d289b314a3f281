"""The Python of Spark's tasks in the tests: its processes begin with our modules loaded.

Spark starts a daemon for each kind of task, and the daemon forks a process for a task; a data
source needs three or four of them for each read. Each imports the same modules anew, which takes
1.5 s of CPU, and collects garbage among all that it imported when its task ends. Here the daemon
imports them before it forks. What users have is tested by ``spark/test_local_cluster.py`` and
``spark/test_cli.py``, whose processes import for themselves.

This file is the program, copied by :func:`quick_spark.python` behind a line that names the Python.
"""

import gc
import importlib
import os
import runpy
import sys

DAEMON = ["-m", "pyspark.daemon"]
LOADED = ("pandas", "pyspark.worker", "tidelake.spark.source.data_source")


def main() -> None:
    """Do what Python would do with the words of the command line."""
    words = sys.argv[1:]
    if words[:2] != DAEMON:
        os.execv(sys.executable, [sys.executable, *words])
    for name in LOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # no collection of a process goes through them again
    sys.argv = words[1:]
    runpy.run_module(words[1], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
