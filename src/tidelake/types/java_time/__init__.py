"""Times as texts, read exactly as Java's ``DateTimeFormatter`` reads them.

A pattern becomes parts, a text becomes fields, and fields become a local time. No zone and no clock
may enter: a local time is a number.
"""

from tidelake.types.java_time.fields import Field
from tidelake.types.java_time.formatter import NS_PER_MS, TimeFormatter, local_time_text
from tidelake.types.java_time.pattern import TimePatternError
from tidelake.types.java_time.resolve import NS_PER_DAY, Style

__all__ = [
    "NS_PER_DAY",
    "NS_PER_MS",
    "Field",
    "Style",
    "TimeFormatter",
    "TimePatternError",
    "local_time_text",
]
