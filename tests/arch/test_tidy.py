"""The house's own rules that no linter checks: what every file must and must not have.

Each rule is one test and names every place that breaks it, as ``path:line: what``.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from itertools import chain
from pathlib import Path

import pytest
from arch.sources import ROOT, SRC, trees

import tidelake
from tidelake.options import Support, declared

GOLDEN = ROOT / "tests" / "golden"
DECLARED = SRC / "tidelake" / "options" / "declared.py"
ENGINE = ROOT / "src/tidelake/engine"

MODULE_LINES_MAX = 700
ROOM_MODULES_MAX = 15
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "base", "impl"}
TEXT_SUFFIXES = {".py", ".md", ".toml", ".yml", ".yaml", ".txt", ".tsv", ".html", ".java", ".json"}
FRAGMENT_KINDS = {"feature", "bugfix", "format", "removal", "doc"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
FACES = {
    "src/tidelake/cdc/door.py",
    "src/tidelake/codec/binary_row.py",
    "src/tidelake/codec/bucket.py",
    "src/tidelake/codec/zstd.py",
    "src/tidelake/errors.py",
    "src/tidelake/service/client/connection/tls.py",
    "src/tidelake/sql/syntax/sqlglot_dialect.py",
    "src/tidelake/table/write/new_writer.py",
    "src/tidelake/types/schema.py",
    "src/tidelake/types/schema_change.py",
    "src/tidelake_command.py",
}
"""Modules that pages name by their path, or that pass on another module's names."""
GENERATED = {"tidelake_query_v1_pb2.py", "tidelake_query_v1_pb2_grpc.py"}
"""Made of the .proto file, so their names are the protocol's."""


def repository_files():
    """Files that belong to the repository, also those not yet committed."""
    if shutil.which("git") and (ROOT / ".git").exists():
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        files = [ROOT / name for name in listed]
    else:
        hidden = re.compile(r"\..*|site|out")  # virtualenvs, caches, what is built
        found = [p for p in ROOT.rglob("*") if not p.name.startswith(".")]
        files = [p for p in found if not any(map(hidden.fullmatch, p.relative_to(ROOT).parts))]
    return sorted(path for path in files if path.is_file())


FILES = repository_files()
MODULES = [path for path in FILES if path.is_relative_to(SRC) and path.suffix == ".py"]
TEXTS = [path for path in FILES if path.suffix in TEXT_SUFFIXES or path.name == "Makefile"]


def at(path, line=None):
    name = str(path.relative_to(ROOT))
    return name if line is None else f"{name}:{line}"


def nodes(kind):
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, kind):
                yield path, node


def lines_of(paths):
    for path in paths:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            yield path, number, line


def test_there_is_something_to_check():
    assert len(MODULES) > 50
    assert len(TEXTS) > len(MODULES)


def test_every_module_says_in_a_sentence_what_it_is():
    wrong = []
    for path, tree in trees().items():
        docstring = ast.get_docstring(tree) or ""
        if not docstring.partition("\n")[0].endswith((".", ":")):
            wrong.append(at(path))
    assert not wrong


def test_every_module_fits_in_a_reader_s_head():
    lengths = {at(path): len(path.read_text().splitlines()) for path in MODULES}
    assert not {name: lines for name, lines in lengths.items() if lines > MODULE_LINES_MAX}


def test_no_room_is_crowded():
    rooms = {}
    for path in MODULES:
        if path.name != "__init__.py":
            rooms.setdefault(at(path.parent), []).append(path.name)
    assert not {room: len(names) for room, names in rooms.items() if len(names) > ROOM_MODULES_MAX}


def test_every_room_says_what_it_is_for_and_what_may_not_enter():
    wrong = []
    for path in MODULES:
        if path.name == "__init__.py" and path.parent.parent != SRC:
            sentences = re.findall(r"[.:](?=\s|$)", ast.get_docstring(trees()[path]) or "")
            if len(sentences) < 3:
                wrong.append(at(path))
    assert not wrong


def test_no_module_has_a_name_that_says_nothing():
    wrong = []
    for path in MODULES:
        parts = path.with_suffix("").relative_to(SRC).parts
        if EMPTY_NAMES & {word for part in parts for word in part.split("_")}:
            wrong.append(at(path))
    assert not wrong


def test_no_public_class_has_two_definitions():
    homes = {}
    for path, node in nodes(ast.ClassDef):
        if path.name not in GENERATED and not node.name.startswith("_"):
            homes.setdefault(node.name, []).append(at(path, node.lineno))
    assert len(homes) > 500
    assert not {name: found for name, found in homes.items() if len(found) > 1}


def test_packages_only_re_export():
    wrong = []
    for path, tree in trees().items():
        body = tree.body if path.name == "__init__.py" else []
        for node in chain.from_iterable(imports_hidden_from_type_checkers(n) for n in body):
            is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            is_dunder = isinstance(node, ast.Assign) and all(
                isinstance(t, ast.Name) and t.id.startswith("__") for t in node.targets
            )
            if not (is_docstring or is_dunder or isinstance(node, ast.Import | ast.ImportFrom)):
                wrong.append(at(path, node.lineno))
    assert not wrong


def imports_hidden_from_type_checkers(node):
    """What stands under ``if not TYPE_CHECKING:``; any other statement itself."""
    is_hidden = isinstance(node, ast.If) and ast.unparse(node.test) == "not TYPE_CHECKING"
    return [*node.body, *node.orelse] if is_hidden else [node]


def test_only_faces_list_what_they_export():
    listed = {
        at(path)
        for path, node in nodes(ast.Assign)
        if ast.unparse(node.targets[0]) == "__all__" and path.name != "__init__.py"
    }
    themes = {at(path) for path in DECLARED.glob("*.py")}  # taken by a star
    themes |= {at(path) for path in ENGINE.glob("*.py")}  # the kernel's door
    assert listed - themes <= FACES
    assert listed >= FACES


def test_imports_stand_at_the_top():
    wrong = {
        at(path, node.lineno)
        for path, function in nodes(FUNCTIONS)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert not wrong


def test_what_is_private_to_a_module_stays_there():
    wrong = [
        f"{at(path, node.lineno)}: {alias.name} of {node.module}"
        for path, node in nodes(ast.ImportFrom)
        for alias in node.names
        # a package's optional dependencies are loaded in a module _optional
        if (node.module or "").startswith("tidelake") and re.match(r"_(?!_|optional$)", alias.name)
    ]
    assert not wrong


def test_no_handler_catches_everything():
    """A broad handler may only clean up and raise again."""
    wrong = []
    for path, handler in nodes(ast.ExceptHandler):
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        names = {kind.id for kind in kinds if isinstance(kind, ast.Name)}
        is_broad = None in kinds or names & {"Exception", "BaseException"}
        last = handler.body[-1]
        raises_again = isinstance(last, ast.Raise) and last.exc is None
        if is_broad and not raises_again:
            wrong.append(at(path, handler.lineno))
    assert not wrong


def test_nothing_is_promised_without_an_issue():
    wrong = [
        f"{at(path, number)}: {line.strip()}"
        for path, number, line in lines_of(p for p in TEXTS if p != Path(__file__))
        if re.search(r"\b(TODO|FIXME|XXX|HACK)\b", line) and not re.search(r"#\d+", line)
    ]
    assert not wrong


def test_no_place_on_one_machine_is_named():
    # put together here so that this file does not name one itself
    roots = ["/wo" + "rk/", "/ro" + "ot/", "/ho" + r"me/\w+/", "/Us" + "ers/", "/tmp/t" + "l/"]
    place = re.compile(rf"(?<![\w.])({'|'.join(roots)})")
    wrong = [
        f"{at(path, number)}: {line.strip()}"
        for path, number, line in lines_of(TEXTS)
        if place.search(line)
    ]
    assert not wrong


def test_texts_are_clean():
    wrong = []
    for path in TEXTS:
        text = path.read_bytes().decode("utf-8")
        if "\r" in text:
            wrong.append(f"{at(path)}: carriage returns")
        if text and path.suffix != ".json" and not re.search(r"[^\n]\n\Z", text):
            wrong.append(f"{at(path)}: one newline ends a file")
        if path.suffix in {".py", ".md", ".toml", ".yml"}:
            lines = enumerate(text.split("\n"), 1)
            wrong += [f"{at(path, n)}: blanks at the end" for n, ln in lines if ln != ln.rstrip()]
    assert not wrong


def test_every_option_is_documented():
    page = (ROOT / "docs" / "options.md").read_text()
    assert not [key for key in declared.BY_KEY if f"\n`{key}`\n:   " not in page]


def test_every_page_that_is_named_exists():
    named = {
        (page, at(path, number))
        for path, number, line in lines_of(p for p in TEXTS if not p.is_relative_to(ROOT / "docs"))
        for page in re.findall(r"\bdocs/[\w/.-]+\.md\b", line)
    }
    assert not sorted(f"{where}: {page}" for page, where in named if not (ROOT / page).is_file())


@pytest.mark.skipif("CI" in os.environ, reason="`make check` runs it as docs-check")
def test_generated_pages_are_current():
    command = [sys.executable, "scripts/gen_docs.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_option_said_to_be_supported_is_read_by_the_code():
    used = set()
    for path in MODULES:
        if path != DECLARED:
            used |= set(re.findall(r"\b[A-Z][A-Z0-9_]{2,}\b", path.read_text()))
    supported = [o for o in declared.BY_KEY.values() if o.support is Support.SUPPORTED]
    assert not [option.key for option in supported if option.constant not in used]


def test_an_option_without_effect_is_not_read_by_the_code():
    without = (Support.NO_EFFECT, Support.NOT_DONE)
    idle = {o.constant for o in declared.BY_KEY.values() if o.support in without}
    wrong = []
    for path, tree in trees().items():
        if path.is_relative_to(SRC / "tidelake" / "options"):
            continue
        words = set(re.findall(r"\bdeclared\.([A-Z0-9_]+)\b", path.read_text()))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and "options.declared" in (node.module or ""):
                words |= {alias.name for alias in node.names}
        wrong += [f"{at(path)}: {name}" for name in sorted(words & idle)]
    assert not wrong


def test_every_golden_file_has_a_test_that_reads_it():
    tests = [p for p in FILES if p.is_relative_to(ROOT / "tests") and p.suffix == ".py"]
    sources = "\n".join(path.read_text() for path in tests)
    orphans = []
    for path in FILES:
        if not path.is_relative_to(GOLDEN) or path.suffix == ".py":
            continue
        names = {path.name, path.stem}
        if path.parent != GOLDEN:
            names.add(path.parent.name)
        if not any(f'"{name}' in sources or f"/{name}" in sources for name in names):
            orphans.append(at(path))
    assert not orphans


def test_every_changelog_fragment_has_a_kind_that_towncrier_knows():
    fragments = [p for p in (ROOT / "changes").glob("*.md") if p.name != "README.md"]
    assert not [p.name for p in fragments if p.name.split(".")[1] not in FRAGMENT_KINDS]


def test_tests_of_a_room_lie_where_the_room_does():
    unit, package = ROOT / "tests" / "unit", SRC / "tidelake"
    folders = {path.parent.relative_to(unit) for path in FILES if path.is_relative_to(unit)}
    assert not sorted(str(folder) for folder in folders if not (package / folder).is_dir())


def test_the_size_of_a_run_is_compared_by_identity():
    """A name in quotes is never equal: the larger part would run nowhere."""
    wrong = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in (ROOT / "tests").rglob("*.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(r"\bSIZE\s*[!=]=", line)
    ]
    assert not wrong, wrong


def test_tests_on_spark_lie_in_rooms_of_spark():
    """Those of several rooms, and programs for processes of their own, lie beside the rooms."""
    spark, package = ROOT / "tests" / "spark", SRC / "tidelake" / "spark"
    folders = {path.parent.relative_to(spark) for path in FILES if path.is_relative_to(spark)}
    own = {Path(), Path("paimon_docs"), Path("seeds")}
    assert not sorted(str(folder) for folder in folders - own if not (package / folder).is_dir())
    assert len(folders) > 10


def test_tests_of_a_module_lie_where_the_module_does():
    """A test named as exactly one module is in the folder that mirrors the module's."""
    unit, package = ROOT / "tests" / "unit", SRC / "tidelake"
    homes = {}
    for path in (path for path in MODULES if path.is_relative_to(package)):
        homes.setdefault(path.stem, []).append(path.parent.relative_to(package))
    wrong = []
    for path in FILES:
        if path.is_relative_to(unit) and path.name.startswith("test_"):
            folder = path.parent.relative_to(unit)
            found = [h for h in homes.get(path.stem[5:], []) if h.parts[:1] == folder.parts[:1]]
            if found and folder not in found and not any(h.is_relative_to(folder) for h in found):
                wrong.append(f"{at(path)}: the module is in {', '.join(map(str, found))}")
    assert not wrong


def test_the_extra_spark_brings_what_pyspark_asks_of_mapinarrow():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    spark = project["optional-dependencies"]["spark"]
    # pyspark names neither as a requirement, and refuses mapInArrow without them
    needed = {"pandas", "pyarrow"}
    named = {re.split(r"[^\w-]", text)[0] for text in [*spark, *project["dependencies"]]}
    assert needed <= named


def test_the_package_knows_its_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert tidelake.__version__ == project["version"]


def test_the_environment_has_the_version_of_the_source():
    installed = metadata.version("tidelake")
    told = (
        f"the environment has tidelake {installed}: run `make setup`, or pip install --editable ."
    )
    assert installed == tidelake.__version__, told


def test_the_layers_hold():
    lint_imports = Path(sys.executable).parent / "lint-imports"
    if not lint_imports.exists():
        pytest.skip("import-linter is not installed beside this Python")
    done = subprocess.run(
        [lint_imports, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 broken" in done.stdout


def test_decisions_have_numbers_of_their_own_and_are_in_the_pages():
    found = sorted(path.name for path in (ROOT / "docs" / "adr").glob("[0-9]*.md"))
    found.remove("0000-template.md")
    assert len({name[:4] for name in found}) == len(found)
    pages = (ROOT / "mkdocs.yml").read_text()
    assert [name for name in found if f"adr/{name}" not in pages] == []
    for name in found:
        title = (ROOT / "docs" / "adr" / name).read_text().splitlines()[0]
        assert title.startswith(f"# {int(name[:4])}. ")
