"""The program ``tidelake``: tells its version at once; everything else is :mod:`tidelake.cli`.

It lies outside the package, which takes most of a second to load.
"""

import importlib
import sys
from importlib import metadata

__all__ = ["main"]


def main() -> int:
    """Run the program; gives its exit code."""
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"tidelake {metadata.version('tidelake')}\n")
        return 0
    code: int = importlib.import_module("tidelake.cli.main").main()
    return code
