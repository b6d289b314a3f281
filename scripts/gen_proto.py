"""Write the Python code of the query service's protocol from its .proto file, or check it.

Usage: python scripts/gen_proto.py [--check]

1. protoc writes messages, their types for mypy, and the stubs of the services. It comes with
   grpcio-tools, whose version the committed code does not depend on: what would refuse older
   libraries than the generator's own is left out.
2. Imports get the package's full name, and each module a first line that says what it is.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src/tidelake/service/protocol"
NAME = "tidelake_query_v1"
HEADS = {
    f"{NAME}_pb2.py": "Messages of the query service, generated from the .proto file beside it.",
    f"{NAME}_pb2.pyi": "Types of the messages of the query service, generated.",
    f"{NAME}_pb2_grpc.py": "Stubs and handlers of the query service's calls, generated.",
}


def generated() -> dict[str, str]:
    """The text of each module by its file name."""
    with tempfile.TemporaryDirectory() as made:
        outputs = [f"--{kind}_out={made}" for kind in ("python", "pyi", "grpc_python")]
        subprocess.run(
            [sys.executable, "-m", "grpc_tools.protoc", f"-I{PACKAGE}", *outputs, f"{NAME}.proto"],
            check=True,
        )
        return {name: _own(Path(made, name).read_text(), head) for name, head in HEADS.items()}


def _own(text: str, head: str) -> str:
    """The generator's text as a module of this package."""
    text = re.sub(
        r"^import (\w+_pb2) as",
        r"from tidelake.service.protocol import \1 as",
        text,
        flags=re.MULTILINE,
    )
    text = re.sub(r"^# Protobuf Python Version: .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(
        r"^from google.protobuf import runtime_version .*\n", "", text, flags=re.MULTILINE
    )
    text = re.sub(r"^_runtime_version\.Validate.*?^\)\n", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^import warnings\n", "", text, flags=re.MULTILINE)
    text = re.sub(
        r"^GRPC_GENERATED_VERSION = .*?^    \)\n", "", text, flags=re.MULTILINE | re.DOTALL
    )
    text = re.sub(r'^"""Client and server classes.*\n', "", text, flags=re.MULTILINE)
    lines = [line.rstrip() for line in text.splitlines()]
    return f'"""{head}"""\n' + re.sub(r"\n{4,}", "\n\n\n", "\n".join(lines)).rstrip("\n") + "\n"


def main() -> int:
    """Write the modules; with --check only compare, and fail where one is old."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, fail if one is old")
    check = parser.parse_args().check
    old = []
    for name, wanted in generated().items():
        path = PACKAGE / name
        if path.exists() and path.read_text() == wanted:
            continue
        old.append(name)
        if not check:
            path.write_text(wanted)
            print(f"wrote {path.relative_to(ROOT)}")
    if check and old:
        print(f"Old: {', '.join(old)}. Run 'python scripts/gen_proto.py'.", file=sys.stderr)
    return int(check and bool(old))


if __name__ == "__main__":
    sys.exit(main())
