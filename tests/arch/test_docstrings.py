"""Docstrings against the code that they describe: parameters of the signature, in its order."""

import ast
import importlib
import inspect
import re
from itertools import chain

from arch.sources import ROOT, trees

import tidelake

FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
HOLDS_FUNCTIONS = (ast.stmt, ast.excepthandler, ast.match_case)
"""Expressions hold none, and are nine tenths of a tree."""


def written():
    """The trees of modules that are not generated."""
    return {path: tree for path, tree in trees().items() if "_pb2" not in path.name}


def classes():
    """Each class of them by its name."""
    found = chain.from_iterable(map(ast.walk, written().values()))
    return {node.name: node for node in found if isinstance(node, ast.ClassDef)}


def parameters_section(docstring):
    """The entries of a numpydoc Parameters section, each the names that share a text, or None."""
    lines = docstring.splitlines()
    titles = [i for i, line in enumerate(lines[:-1]) if re.fullmatch(r"-{3,}", lines[i + 1])]
    start = next((i for i in titles if lines[i] == "Parameters"), None)
    if start is None:
        return None
    end = next((i for i in titles if i > start), len(lines))
    heads = [line for line in lines[start + 2 : end] if line and not line[0].isspace()]
    return [re.split(r"\s*,\s*", re.split(r" ?:(?: |$)", head)[0]) for head in heads]


def arguments(function, *, is_method):
    """Names as numpydoc writes them: ``*rows``, ``**options``; without self and cls."""
    args = function.args
    names = [arg.arg for arg in args.posonlyargs + args.args]
    if is_method and "staticmethod" not in map(ast.unparse, function.decorator_list):
        names = names[1:]
    names += [f"*{args.vararg.arg}"] if args.vararg else []
    names += [arg.arg for arg in args.kwonlyargs]
    return names + ([f"**{args.kwarg.arg}"] if args.kwarg else [])


def constructor(node, known):
    """What a class takes: of its __init__, else its fields, those of its bases first."""
    for member in node.body:
        if isinstance(member, FUNCTION) and member.name == "__init__":
            return arguments(member, is_method=True)
    names = []
    for base in node.bases:
        base = base.value if isinstance(base, ast.Subscript) else base
        above = known.get(getattr(base, "id", getattr(base, "attr", "")))
        names += constructor(above, known) if above not in (None, node) else []
    fields = [m.target.id for m in node.body if isinstance(m, ast.AnnAssign)]
    return names + [name for name in fields if name not in names]


def described(tree, known):
    """Each function and class with what its signature takes."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, HOLDS_FUNCTIONS):
            continue
        if isinstance(node, FUNCTION):
            yield node, arguments(node, is_method=isinstance(tree, ast.ClassDef))
        elif isinstance(node, ast.ClassDef):
            yield node, constructor(node, known)
        yield from described(node, known)


def sections():
    known = classes()
    for path, tree in written().items():
        for node, taken in described(tree, known):
            named = parameters_section(ast.get_docstring(node) or "")
            if named is not None:
                yield f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}", named, taken


def in_order(names, taken):
    return names == [name for name in taken if name in names]


def test_a_parameters_section_names_parameters_of_the_signature_in_its_order():
    wrong = []
    for where, entries, taken in sections():
        firsts = [names[0] for names in entries]
        is_known = all(name in taken for names in entries for name in names)
        if not (is_known and all(in_order(names, taken) for names in [firsts, *entries])):
            wrong.append(f"{where} describes {entries}, takes {taken}")
    assert not wrong, "\n".join(wrong)


def test_the_section_of_a_public_function_names_all_parameters():
    wrong = []
    for name, member in public_members():
        entries = parameters_section(inspect.getdoc(member) or "")
        named = [name for names in entries or () for name in names]
        if entries is not None and set(signature(member)) - set(named):
            wrong.append(f"{name} describes {named}, takes {signature(member)}")
    assert not wrong, "\n".join(wrong)


def public_members():
    """What docs/reference.md shows and `tidelake` exports: functions, classes, their methods."""
    pages = re.findall(r"^::: (\S+)", (ROOT / "docs/reference.md").read_text(), re.MULTILINE)
    shown = {name: named(name) for name in pages}
    for name, value in list(shown.items()):
        if inspect.ismodule(value):
            shown |= {f"{name}.{key}": getattr(value, key) for key in value.__all__}
    shown |= {f"tidelake.{key}": getattr(tidelake, key) for key in tidelake.__all__}
    assert len(shown) > 70
    for name, value in shown.items():
        if inspect.isclass(value):
            yield name, value
            for key, member in inspect.getmembers(value):
                member = getattr(member, "__func__", member)
                if inspect.isfunction(member) and not key.startswith("_"):
                    yield f"{name}.{key}", member
        elif inspect.isfunction(value):
            yield name, value


def named(name):
    """The value behind a dotted name."""
    module, _, last = name.rpartition(".")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return getattr(importlib.import_module(module), last)


def signature(function):
    taken = inspect.signature(function).parameters.values()
    stars = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}
    names = [stars.get(p.kind.name, "") + p.name for p in taken]
    return [name for name in names if name not in ("self", "cls")]
