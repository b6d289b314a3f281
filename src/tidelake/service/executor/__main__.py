"""An executor as a process: ``python -m tidelake.service.executor``.

Its configuration is the first line of standard input, as JSON: arguments would show the secret to
everybody on the machine. A line of JSON on standard output says how it ended. Where its parent was
killed it ends by itself, as every executor without an address server does.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

import msgspec

from tidelake.service.executor.config import ExecutorConfig
from tidelake.service.executor.executor import run_executor
from tidelake.service.observe.json_logs import log_of_process


def main() -> int:
    """Run until asked to stop, or until SIGTERM comes."""
    log_of_process(os.environ, sys.stderr)
    line = sys.stdin.buffer.readline()
    if not line:
        return 0  # a spare one, whose parent has ended
    config = ExecutorConfig.from_json(line)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    summary = run_executor(config, stop=stop)
    sys.stdout.buffer.write(msgspec.json.encode(summary) + b"\n")
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
