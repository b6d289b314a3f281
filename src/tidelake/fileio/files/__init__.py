"""Files that are open: read by ranges, and written in parts.

What pyarrow wants of a Python file, and what every remote output promises. A storage's own calls
may not enter: each storage gives them by a subclass or a function.
"""

from tidelake.fileio.files.parted_output import PartedOutput
from tidelake.fileio.files.positioned_file import PositionedFile
from tidelake.fileio.files.tailed_input import TAIL_BYTES, open_tailed

__all__ = ["TAIL_BYTES", "PartedOutput", "PositionedFile", "open_tailed"]
