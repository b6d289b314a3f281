"""The page of all errors by class and kind, read from the source that raises them.

A kind is the ``kind=`` of a call that makes an error; its words are the message of one such call.
What a message fills in at run time stands as ``…``. Of several messages the longest stands, so that
the page does not depend on where the code lies.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from prose import wrapped

SRC = Path(__file__).resolve().parents[1] / "src"
MESSAGE_WORDS_MAX = 60
Function = ast.FunctionDef | ast.AsyncFunctionDef

HEAD = """\
# Errors by kind

<!-- Written by scripts/errors_page.py from the errors of src/tidelake: change them there. -->

Every error of Tidelake is a `TidelakeError`. Its **class** says what a program can do about it, its
`kind` says which case it is, and `context` names table, snapshot, path, column or option. A kind
keeps its meaning in later versions; messages may change.

```pycon
>>> import tempfile, tidelake
>>> catalog = tidelake.open(tempfile.mkdtemp())
>>> table = catalog.create_table("db.t", {"k": "INT", "v": "STRING"}, primary_keys=["k"])
>>> try:
...     table.write([{"k": 1, "v": "a", "w": 2}])
... except tidelake.InvalidInputError as error:
...     print(error.kind, error.context["column"])
...     print(error)
column_unknown w
The data has the column 'w', which is not in table 'db.t'. The table's columns are: k, v.
Leave it out, or add it: ALTER TABLE db.t ADD COLUMN. Writes on Spark add it by the option
'write.merge-schema'.
>>> try:
...     catalog.table("db.u")
... except tidelake.NotFoundError as error:
...     print(error.kind)
table_not_found

```

Each kind below stands with the message of one place that raises it; `…` is what the message fills
in. The message says what to do.
"""

CLASSES = {
    "InvalidInputError": "Your data, name, option or argument is wrong. Nothing was written."
    " **Correct it**; the same call fails again. Also a `ValueError`.",
    "UnsupportedError": "Paimon has this feature and this version does not cover it. Nothing was"
    " written or read. **Do without it**, in the way that the message names.",
    "NotFoundError": "A database, table, snapshot, tag, column or file does not exist."
    " **Check the name**, or open the table again. Also a `KeyError`.",
    "AlreadyExistsError": "Something of that name exists."
    ' **Take another name**, or `if_exists="ignore"` where the call has it.',
    "ConflictError": "Other writers were faster. Nothing of this commit is visible."
    " **Run the statement again** on the newest state.",
    "CorruptError": "A file of the table is damaged, cut, or not what its metadata says."
    " **Restore the file**, or go back to a snapshot or tag that does not name it.",
    "StorageError": "The storage failed. **Run it again** when the storage works.",
    "StorageRefusedError": "The storage refused and changed nothing. **Repair what the message"
    " names**; running it again alone does not help.",
    "OutcomeUnknownError": "The storage failed after the commit began to publish: it may be"
    " visible. **Repeat it with its identity** ([how](reliability.md#repeat-a-write)).",
    "NotEnoughMemoryError": "Memory ended; nothing is damaged. **Give more, or work in smaller"
    " pieces** ([Sizing](sizing.md#memory)). Also a `MemoryError`.",
    "TidelakeError": "Anything else, such as a failure that Spark reports.",
    "ClosedError": "A writer, reader or session was used after it was closed. **Open a new one.**",
}
"""The classes in the order of the page, with what they mean and what to do."""

MAKERS = {"fault": "InvalidInputError", "refusal": "UnsupportedError"}
"""Functions of the SQL parser that make errors, with the class that they make by default."""


@dataclass(slots=True)
class Module:
    """What one module says about errors: its texts by name, and what its functions return."""

    name: str
    tree: ast.Module
    texts: dict[str, str] = field(default_factory=dict)
    returns: dict[str, str] = field(default_factory=dict)


def errors_page() -> str:
    """The page as text."""
    found = kinds()
    parts = [HEAD]
    for name, meaning in CLASSES.items():
        own = {kind: message for (owner, kind), message in found.items() if owner == name}
        parts += [f"## {name}", "", wrapped(meaning), ""]
        parts += [
            wrapped(f"- `{kind}`: {message}", indent="  ") for kind, message in sorted(own.items())
        ]
        parts += [""]
    return "\n".join(parts).rstrip() + "\n"


def kinds() -> dict[tuple[str, str], str]:
    """A message for each class and kind that the source raises."""
    modules = {module.name: module for module in _modules()}
    found: dict[tuple[str, str], str] = {}
    for module in modules.values():
        for scope in ast.walk(module.tree):
            if isinstance(scope, Function):
                for owner, kind, message in _raised(scope, module, modules):
                    if owner in CLASSES:
                        kept = found.get((owner, kind), DEFAULT)
                        found[owner, kind] = max(kept, message, key=_informs)
    return found


def _informs(message: str) -> tuple[bool, int, str]:
    return message != DEFAULT, len(message), message


DEFAULT = "the message says which option, column or word."


def _modules() -> Iterator[Module]:
    for path in sorted((SRC / "tidelake").rglob("*.py")):
        if path.name == "faulty.py":  # fails on purpose, for tests
            continue
        name = ".".join(path.relative_to(SRC).with_suffix("").parts)
        module = Module(name, ast.parse(path.read_text(encoding="utf-8")))
        for node in ast.walk(module.tree):
            if isinstance(node, Function) and node.returns is not None:
                module.returns[node.name] = ast.unparse(node.returns).strip("'\"")
        for node in module.tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and _is_text(node.value):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                if isinstance(target, ast.Name):
                    module.texts[target.id] = node.value.value
        yield module


def _raised(
    scope: Function, module: Module, modules: dict[str, Module]
) -> Iterator[tuple[str, str, str]]:
    """Class, kind and message of each error that a function makes."""
    lines = list(ast.walk(scope))  # once: to walk for each call takes ten seconds of all modules
    choices = _choices(lines)
    for node in lines:
        if not isinstance(node, ast.Call):
            continue
        given = {word.arg: word.value for word in node.keywords if word.arg}
        kind = _text(given.get("kind"), module, modules)
        if kind is None and "kind" in given:
            continue
        for owner in _classes(node, given, module, choices):
            if kind is not None:
                yield owner, kind, _message(node, scope)
            elif owner in CLASSES and _name(node.func).endswith("Error"):
                yield owner, _default_kind(owner, modules["tidelake.errors"]), _message(node, scope)


def _choices(lines: list[ast.AST]) -> dict[str, list[str]]:
    """Both values by the name that a condition gives one of them: of_storage = A if b else C."""
    found: dict[str, list[str]] = {}
    for line in lines:
        if isinstance(line, ast.Assign) and isinstance(line.value, ast.IfExp):
            both = [_name(line.value.body), _name(line.value.orelse)]
            found.setdefault(ast.unparse(line.targets[0]), both)
    return found


def _classes(
    node: ast.Call, given: dict[str, ast.expr], module: Module, choices: dict[str, list[str]]
) -> list[str]:
    """The classes of the errors that a call makes; mostly one, none where it makes no error."""
    name = _name(node.func)
    if name.endswith("Error"):
        return [name]
    if "error" in given and isinstance(given["error"], ast.Name):
        return [given["error"].id]
    if name in choices:
        return choices[name]
    made = MAKERS.get(name) or module.returns.get(name)
    return [made] if made else []


def _default_kind(owner: str, errors: Module) -> str:
    classes = {node.name: node for node in errors.tree.body if isinstance(node, ast.ClassDef)}
    node = classes[owner]
    for line in node.body:
        if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "default_kind":
            assert isinstance(line.value, ast.Constant)
            return str(line.value.value)
    return _default_kind(_name(node.bases[0]), errors)


def _text(value: ast.expr | None, module: Module, modules: dict[str, Module]) -> str | None:
    """The text that an expression stands for: itself, or a constant of this or another module."""
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return value.value
    if not isinstance(value, ast.Name):
        return None
    if value.id in module.texts:
        return module.texts[value.id]
    for node in module.tree.body:
        if isinstance(node, ast.ImportFrom) and value.id in {a.name for a in node.names}:
            return modules[node.module or ""].texts.get(value.id) if node.module else None
    return None


def _message(node: ast.Call, scope: Function) -> str:
    """The words of an error: of the call's arguments, or of what was last put into its name."""
    for argument in node.args:
        if isinstance(argument, ast.Name):
            before = [
                line
                for line in ast.walk(scope)
                if isinstance(line, ast.Assign)
                and ast.unparse(line.targets[0]) == argument.id
                and line.lineno <= node.lineno
            ]
            words = _words(max(before, key=lambda line: line.lineno).value) if before else ""
        else:
            words = _words(argument)
        if len(re.findall(r"\w{3,}", words)) >= 2:
            return _shown(words)
    return DEFAULT


def _words(value: ast.expr) -> str:
    if isinstance(value, ast.Constant):
        return str(value.value)
    if isinstance(value, ast.JoinedStr):
        return "".join(
            part.value if isinstance(part, ast.Constant) else "…" for part in value.values
        )
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        return _words(value.left) + _words(value.right)
    if isinstance(value, ast.IfExp):
        return _words(value.body)
    return "…"


def _shown(words: str) -> str:
    """A message fit for a page: one line, nothing that Markdown takes for a mark."""
    text = re.sub(r"(…[\s.:,]*){2,}", "… ", " ".join(words.split())).strip()
    kept = text.split(" ")
    if len(kept) > MESSAGE_WORDS_MAX:
        text = " ".join(kept[:MESSAGE_WORDS_MAX]) + " …"
    return re.sub(r"([*|<\[\]])", r"\\\1", text)


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else ast.unparse(node)


def _is_text(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, str)
