"""Partitions expire: Java 1.3.1 and we read the same times of them, and drop the same ones."""

from __future__ import annotations

import random
import shutil
from datetime import date, datetime, timedelta

import pyarrow as pa
import pytest
from sizes import SIZE

import tidelake
from tidelake.commit.partition_expiry.extraction import formatter_of, partition_time_text
from tidelake.types.java_time import NS_PER_DAY, TimePatternError

pytestmark = pytest.mark.oracle

YEARS, MONTHS, DAYS = ("yyyy", "yy", "y", "uuuu"), ("MM", "M", "MMM"), ("dd", "d")
CLOCKS = ("", "HH", "H", "HH:mm", "HHmm", "HH:mm:ss", "kk", "hh a", "HH[:mm]", "HHmmssSSS", "A")
BETWEEN = ("-", "/", "", ".", "'T'", " ", "_")
ODD = ("DDD yyyy", "yyyy-DDD", "yyyy'Q'Q MM dd", "EEE dd MMM yyyy", "ppd.M.yyyy", "yyyy-MM", "w")


def drawn_format(rng):
    """A format of Java's, or none."""
    if rng.random() < 0.15:
        return None
    if rng.random() < 0.2:
        return rng.choice(ODD)
    day = rng.choice(BETWEEN).join([rng.choice(YEARS), rng.choice(MONTHS), rng.choice(DAYS)])
    if rng.random() < 0.1:
        day = rng.choice(("dd/MM/yyyy", "d.M.yy", "MM/dd/yyyy"))
    clock = rng.choice(CLOCKS)
    return day + (rng.choice(("'T'", " ", "-", "")) + clock if clock else "")


def drawn_text(rng, pattern):
    """A text that the format may read, or almost."""
    when = datetime(2024, 1, 1) + timedelta(minutes=rng.randrange(-4_000_000, 2_000_000))
    text = "" if pattern else f"{when:%Y-%m-%d}" + rng.choice(("", f" {when:%H:%M:%S}", " 8", ".5"))
    parts = {
        "yyyy": f"{when:%Y}", "uuuu": f"{when:%Y}", "yy": f"{when:%y}", "y": f"{when:%Y}",
        "MMM": f"{when:%b}", "MM": f"{when:%m}", "M": str(when.month), "DDD": f"{when:%j}",
        "dd": rng.choice((f"{when:%d}", "31", "30", "29")), "d": str(when.day),
        "HH": rng.choice((f"{when:%H}", "24", "00")), "H": str(when.hour),
        "kk": f"{when.hour + 1:02}",
        "hh": f"{when.hour % 12 + 1:02}", "a": f"{when:%p}", "mm": f"{when:%M}", "ss": f"{when:%S}",
        "SSS": "250", "A": str(rng.randrange(87_000_000)), "Q": str((when.month + 2) // 3),
        "EEE": f"{when:%a}", "ppd": f"{when.day:2}",
    }  # fmt: skip
    rest = pattern or ""
    while rest:
        name = next((n for n in sorted(parts, key=len, reverse=True) if rest.startswith(n)), None)
        if name is not None:
            text, rest = text + parts[name], rest[len(name) :]
        elif rest[0] == "'":
            end = rest.index("'", 1)
            text, rest = text + rest[1:end], rest[end + 1 :]
        elif rest[0] == "[":
            rest = rest[1:] if rng.random() < 0.5 else rest[rest.index("]") + 1 :]
        else:
            text, rest = text + ("" if rest[0] == "]" else rest[0]), rest[1:]
    if rng.random() < 0.12 and text:
        place = rng.randrange(len(text))
        text = text[:place] + rng.choice(("", "0", "x", " ", "-")) + text[place + 1 :]
    return text


def drawn(seed):
    """A pattern of columns, a format, and four partitions."""
    rng = random.Random(seed)
    formatter = drawn_format(rng)
    shape = rng.choice(("first", "one", "two", "none"))
    for _ in range(4):
        text = drawn_text(rng, formatter)
        cut = rng.randrange(len(text) + 1)
        yield {
            "first": (None, formatter, ["dt", "region"], [text, "eu"]),
            "one": ("$dt", formatter, ["region", "dt"], ["eu", text]),
            "two": ("$dt$hour", formatter, ["dt", "hour"], [text[:cut], text[cut:]]),
            "none": ("$day", formatter, ["dt"], [text]),
        }[shape]


def our_time(pattern, formatter, names, values):
    try:
        read = formatter_of(formatter)
    except TimePatternError:
        return "!"
    text = partition_time_text(dict(zip(names, values, strict=True)), pattern)
    found = None if text is None else read.parse(text)
    return "-" if found is None else "{} {}".format(*divmod(found, NS_PER_DAY))


def test_drawn_partitions_have_the_same_times(peer):
    asked = [one for seed in range(SIZE.partition_times) for one in drawn(seed)]
    javas = peer.ask("partition_times", asked=asked)["times"]
    wrong = [
        (one, java, our_time(*one))
        for one, java in zip(asked, javas, strict=True)
        if our_time(*one) != java and not (one[1] == "w" and our_time(*one) == "!")
    ]
    assert wrong == []
    assert sum(java not in "!-" for java in javas) > len(javas) // 4


# a TIMESTAMP's text, 2024-01-31T08:00, is one that Java cannot drop a partition by: it fails there
TABLES = {
    "text": (pa.string(), ["2024-01-31", "2024-2-3", "9999-01-01", "x", " "], {}),
    "compact": (
        pa.string(),
        ["20240131", "20240230", "2024", "99990101"],
        {"partition.timestamp-formatter": "yyyyMMdd"},
    ),
    "number": (pa.int32(), [20240131, 99_990_101], {"partition.timestamp-formatter": "yyyyMMdd"}),
    "date": (pa.date32(), [date(2024, 1, 31), date(9999, 1, 1)], {}),
    "update": (pa.string(), ["a", "b"], {"partition.expiration-strategy": "update-time"}),
    "some": (
        pa.string(),
        [f"2024-01-{day:02}" for day in range(1, 9)],
        {"partition.expiration-max-num": "3", "partition.expiration-batch-size": "2"},
    ),
}


@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("name", "keys"),
    [*((name, []) for name in TABLES), ("text", ["k", "p"]), ("update", ["k", "p"])],
)
def test_the_same_partitions_are_dropped(peer, tmp_path, name, keys):
    data_type, values, options = TABLES[name]
    age = "1 ms" if name == "update" else "7 d"
    options = {
        "bucket": "1" if keys else "-1",
        "partition.expiration-time": age,
        "partition.expiration-check-interval": "0 ms",
        **options,
    }
    ours, javas = tmp_path / "ours/db.db/t", tmp_path / "java/db.db/t"
    columns = pa.schema([pa.field("k", pa.int32(), nullable=False), ("p", data_type)])
    catalog = tidelake.open(ours.parents[1])
    table = catalog.create_table(
        "db.t", columns, primary_keys=keys, partition_keys=["p"],
        options={**options, "write-only": "true"},
    )  # fmt: skip
    table.write([{"k": k, "p": value} for k, value in enumerate(values)])
    shutil.copytree(ours, javas)
    dropped = peer.ask("expire_partitions", table=str(javas), options=options)["partitions"]
    found = table.maintenance.expire_partitions()
    assert [dict(p.values) for p in found.partitions] == dropped
    left = tidelake.open(javas.parents[1]).table("db.t")
    assert table.to_arrow().sort_by("k").equals(left.to_arrow().sort_by("k"))
    _, ours_by_java = peer.read(ours)
    assert len(ours_by_java) == table.count()
