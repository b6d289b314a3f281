"""File indexes of Java and ours: equal bytes, and equal answers to every question both ways."""

from __future__ import annotations

import math
import random

import numpy as np
import pyarrow as pa
import pytest
from unit.format.file_index.golden_indexes import VALUES as GOLDEN_VALUES
from unit.format.file_index.golden_indexes import sections

from interop.file_indexes import ask_java, cell, our_container, to_predicate
from tidelake.errors import UnsupportedError
from tidelake.fileio import MemoryFileIO
from tidelake.format.file_index import indexed_rows
from tidelake.format.file_index.container import head_size, parse_head
from tidelake.types import DataField, parse_type
from tidelake.types.predicate import evaluate
from tidelake.types.values import storage_to_arrow

pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("java")]

MICROS = 1_700_000_000_123_456_000
VALUES = {
    "BOOLEAN": [True, False, None, True],
    "TINYINT": [-128, 127, 0, 1, None, 1, 5],
    "SMALLINT": [-32768, 32767, 0, None, 7, 7],
    "INT": [1, 2, None, 1, -(2**31), 2**31 - 1, 0],
    "BIGINT": [1, 2, None, 1, 1 - 2**63, 2**63 - 1, 0],
    "FLOAT": [0.0, -0.0, math.nan, 1.5, None, -math.inf, math.inf, 1.5],
    "DOUBLE": [0.0, -0.0, math.nan, 1.5, None, -math.inf, 1e300, 5e-324],
    "DATE": [0, -1, 19_000, None],
    "TIME(3)": [0, 86_399_999, None, 5],
    "TIMESTAMP(3)": [0, -1_000_000, 1_700_000_000_123_000_000, None],
    "TIMESTAMP(6)": [0, -1_000, MICROS, None],
    "TIMESTAMP(9)": [1, -1, MICROS + 789, MICROS, None],
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": [0, -1_000, None, MICROS],
    "STRING": ["", "a", "é", "日本", "z" * 40, None, "a", "😀", "abcdefgh" * 9, "abcd", "abcdefg"],
    "CHAR(3)": ["abc", "a", None],
    "BYTES": [b"", b"\x00", b"\xff" * 33, None],
    "DECIMAL(10, 2)": [1, -150, None, 9_999_999_999],
}
OPTIONS = {
    "bloom-filter": [{"items": "100"}],
    "bitmap": [{}, {"version": "1"}, {"index-block-size": "200b"}],
    "range-bitmap": [{}, {"chunk-size": "20b"}],
    "bsi": [{}],
}
OPERATORS = ("==", "!=", "<", "<=", ">", ">=")


def body(container: bytes) -> bytes:
    (entry,) = parse_head(container[: head_size(container)])
    return entry.check(container[entry.start :])


def write_request(type_text, kind, options, values):
    cells = [cell(v, type_text) for v in values]
    return {
        "op": "write", "column": "a", "type": type_text, "kind": kind, "options": options,
        "values": cells,
    }  # fmt: skip


def questions(values):
    literals = [v for v in dict.fromkeys(values) if v is not None]
    asked = [["is null"], ["is not null"], ["in", *literals[:2]]]
    return asked + [[op, literal] for op in OPERATORS for literal in literals]


def mask_of(answer, count):
    mask = np.full(count, answer == "remain" if isinstance(answer, str) else False)
    if not isinstance(answer, str):
        mask[answer] = True
    return mask


def test_java_answers_from_our_indexes_as_from_its_own_and_as_we_do():
    cases = [
        (type_text, kind, options, values)
        for type_text, values in VALUES.items()
        for kind, all_options in OPTIONS.items()
        for options in all_options  # type: ignore[attr-defined]
    ]
    made = ask_java([write_request(*case) for case in cases])
    asked = []
    for (type_text, kind, options, values), answer in zip(cases, made, strict=True):
        if "error" in answer:  # Java has no such index: we must not make one either
            with pytest.raises(UnsupportedError):
                our_container(type_text, kind, values, options)
            continue
        containers = [bytes.fromhex(answer["container"])]
        if kind != "bsi":
            containers.append(our_container(type_text, kind, values, options))
            if options != {"version": "1"}:  # values are in the order of a hash map there
                assert body(containers[1]).hex() == answer["index"], (type_text, kind, options)
        asked += [(type_text, kind, values, container) for container in containers]
    requests = [
        {
            "op": "ask", "column": "a", "type": type_text, "container": container.hex(),
            "predicates": [[op, *(cell(v, type_text) for v in given)]
                           for op, *given in questions(values)],
        }
        for type_text, _, values, container in asked
    ]  # fmt: skip
    words = set()
    for (type_text, kind, values, container), answers in zip(
        asked, ask_java(requests), strict=True
    ):
        field = DataField(0, "a", parse_type(type_text))
        batch = pa.record_batch({"a": storage_to_arrow(values, field.type)})
        for question, answer in zip(questions(values), answers["answers"], strict=True):
            predicate = to_predicate(question)
            where = (type_text, kind, question)
            left = indexed_rows(
                predicate, container, MemoryFileIO(),
                fields=[field], file_fields=[field], row_count=len(values),
            )  # fmt: skip
            ours = np.full(len(values), left) if isinstance(left, bool) else left
            java = mask_of(answer, len(values))
            words.add(answer if isinstance(answer, str) else "rows")
            wanted = evaluate(predicate, batch, [field]).to_numpy(zero_copy_only=False)
            assert not (wanted & ~ours).any(), where
            if type_text in {"FLOAT", "DOUBLE"} and 0.0 in question[1:]:
                continue  # to Java the two zeros are two values
            if type_text == "TIMESTAMP(9)" and len(question) > 1:
                continue  # Java compares microseconds: it loses rows of < > <> that are near
            if kind == "bitmap" and question[0] == "!=":
                # Java leaves null rows here
                java = java & ~np.array([v is None for v in values])  # type: ignore[attr-defined]
            assert ours.tolist() == java.tolist(), where
    assert words == {"skip", "remain", "rows"}


def test_large_indexes_are_java_s_byte_for_byte():
    rng = random.Random(7)
    dense = list(range(60))
    columns = {
        # sorted (runs), scattered (arrays), half of all rows (bitsets), beyond one container
        "sorted": [i // 1_500 for i in range(90_000)],
        "scattered": [rng.choice(dense) if rng.random() < 0.9 else None for _ in range(90_000)],
        "halves": [rng.randrange(2) for _ in range(90_000)],
    }
    requests, ours = [], []
    for values in columns.values():
        for kind in ("bitmap", "range-bitmap"):
            requests.append(write_request("INT", kind, {}, values))
            ours.append(body(our_container("INT", kind, values)))
    wide = [f"customer-{rng.randrange(30_000):05}" * (1 + i % 5) for i in range(20_000)]
    requests.append(write_request("STRING", "range-bitmap", {}, wide))
    ours.append(body(our_container("STRING", "range-bitmap", wide)))
    requests.append(
        write_request("STRING", "bloom-filter", {"items": "20000", "fpp": "0.01"}, wide)
    )
    ours.append(
        body(our_container("STRING", "bloom-filter", wide, {"items": "20000", "fpp": "0.01"}))
    )
    for request, answer, own in zip(requests, ask_java(requests), ours, strict=True):
        assert answer["index"] == own.hex(), (request["kind"], request["type"])


def test_the_golden_bytes_are_still_what_java_makes():
    titles = [t for t in sections() if t.split()[0] not in {"ours", "container"}]
    requests = []
    for title in titles:
        kind, *settings = title.split()
        options = dict(s.split("=") for s in settings)
        requests.append(write_request("INT", kind, options, GOLDEN_VALUES))
    for title, answer in zip(titles, ask_java(requests), strict=True):
        assert answer["index"] == sections()[title].hex()
