"""``python -m tidelake`` is the program ``tidelake``."""

import sys

from tidelake.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
