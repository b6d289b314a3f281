"""W1 upsert commits beside pypaimon with its native options, in turn, on the same rows."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import rows
from kernel import SIZES, Line, scratch
from measure import ratio
from pipeline import Worker

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
COMMITS = 12


def peer_python() -> str | None:
    """Python of the virtualenv that holds pypaimon, where `make interop` made one."""
    python = ROOT / ".venv-oracle" / "pypaimon" / "bin" / "python"
    if not python.exists():
        return None
    installed = subprocess.run(
        [python, "-c", "import pypaimon_rust"], capture_output=True, check=False
    )
    if installed.returncode != 0:
        subprocess.run([python, "-m", "pip", "install", "-q", "pypaimon-rust==0.4.0"], check=True)
    return str(python)


class PeerWorker(Worker):
    """A worker of `peer_worker.py`."""

    script = "peer_worker.py"


def lines(size_name: str) -> Iterator[Line]:
    """Upsert commits of 2 % of the rows."""
    size = SIZES[size_name]
    python = peer_python() if size_name == "full" else None
    with scratch() as place:
        data = place / "data"
        data.mkdir()
        base = rows.with_key(rows.shuffled_keys(size.load_rows, 1), 2)
        pq.write_table(base, data / "base.parquet")
        for number in range(COMMITS):
            keys = rows.upsert_keys(size.load_rows, size.upsert_rows, 50 + number)
            pq.write_table(rows.with_key(keys, 80 + number), data / f"upsert-{number}.parquet")
        workers = {"tidelake": PeerWorker(sys.executable, "tidelake", place, data)}
        if python is not None:
            workers["pypaimon"] = PeerWorker(python, "pypaimon", place, data)
        cpu: dict[str, list[float]] = {name: [] for name in workers}
        wall: dict[str, list[float]] = {name: [] for name in workers}
        try:
            for number in range(COMMITS):
                for name, worker in workers.items():
                    figures = worker.do("upsert", number)
                    if number >= 2:  # the first two warm up
                        cpu[name].append(figures["cpu"])
                        wall[name].append(figures["wall"])
            counts = {worker.do("count")["answer"] for worker in workers.values()}
        finally:
            for worker in workers.values():
                worker.close()
        if len(counts) != 1:
            raise AssertionError(f"the engines disagree: {counts}")
    what = f"upsert commit of {size.upsert_rows:,} rows into {size.load_rows:,}"
    if python is None:
        yield Line("W1", what, "pypaimon native", None, "<= 1.0", "no peer here: run make interop")
        return
    walls = [a / b for a, b in zip(wall["tidelake"], wall["pypaimon"], strict=True)]
    found = ratio(cpu["tidelake"], cpu["pypaimon"], walls)
    yield Line("W1", what, "pypaimon 2.1 native", found, "<= 1.0")
