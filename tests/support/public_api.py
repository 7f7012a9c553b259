"""What is public, one line each: the names of both packages with their types, and what programs and operators read.

Here: reading the source, without importing it, so that the lines are the same on every version of Python. Not here: what
the lines are compared with (tests/public_api.txt). `make public` writes that file.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache

import attrs

from hostrouting import HostLayout, HostRoutingConfig
from hostrouting.cli.commands import every_command
from hostrouting.cli.entry_point import exit_codes
from tests.support.config_keys import COMPLETE, keys_of
from tests.support.pages import ROOT
from tests.support.words import words_of
from tests.tables.documents import KEYS

LISTED = ROOT / "tests" / "public_api.txt"

_MODULES = (
    "hostrouting",
    "hostrouting.kernel",
    "hostrouting.errors",
    "hostrouting.fleet",
    "hostrouting.testing",
    "hostrouting.check.report",
    "phases",
    "phases.testing",
)
# What only other modules of ours need of these: not promised.
_OURS_ALONE = frozenset(
    {
        "hostrouting.errors.is_denied",
        *("hostrouting.check.report.CHECK_SCHEMA", "hostrouting.check.report.CHECK_SCHEMA_BY_FAMILY"),
        *("hostrouting.check.report.GUARD_SCHEMA", "hostrouting.check.report.contested_clause"),
        *("hostrouting.check.report.deletion_lines", "hostrouting.check.report.document_in"),
        *("hostrouting.check.report.entries_name", "hostrouting.check.report.packets_line"),
    }
)
_DUNDERS = frozenset(
    {"__add__", "__call__", "__contains__", "__enter__", "__getitem__", "__init__", "__iter__", "__len__"}
)
_HEAD = "# What is public. `make public` writes this file; docs/stability.md says what may change in which version.\n"


@attrs.frozen
class _Place:
    """Where something is defined."""

    module: str
    node: ast.stmt


@cache
def _tree(module: str) -> ast.Module | None:
    """The source of a module of ours; None for another one."""
    path = ROOT.joinpath(*module.split("."))
    for file in (path.with_suffix(".py"), path / "__init__.pyi", path / "__init__.py"):
        if file.exists():
            return ast.parse(re.split(r"# \d\. Provisional:", file.read_text(encoding="utf-8"))[0])
    return None


@cache
def _places(module: str, name: str) -> tuple[_Place, ...]:
    """The definitions of a name: several for an overloaded function, none for a name that is not ours."""
    tree = _tree(module)
    if tree is None:
        return ()
    found = tuple(_Place(module, node) for node in tree.body if name in _defined(node))
    if found:
        return found
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return _places(node.module, alias.name)
    return ()


def _defined(node: ast.stmt) -> set[str]:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
            return {name}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
        case ast.Assign(targets=targets):
            return {target.id for target in targets if isinstance(target, ast.Name)}
    return set()


def _offered(module: str) -> list[str]:
    tree = _tree(module)
    if tree is None:
        raise LookupError(module)
    for node in tree.body:
        if isinstance(node, ast.Assign) and "__all__" in _defined(node):
            found: list[str] = ast.literal_eval(node.value)
            return sorted(found)
    return sorted(
        alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    )  # a stub


def _names() -> Iterator[str]:
    """The names of both packages. A name that several modules offer is described once."""
    first: dict[_Place, str] = {}
    for module in _MODULES:
        for name in _offered(module):
            path = f"{module}.{name}"
            if path in _OURS_ALONE:
                continue
            places = _places(module, name)
            known = next((first[it] for it in places if it in first), None)
            if known is not None:
                yield f"{path} is {known}"
                continue
            first |= dict.fromkeys(places, path)
            for place in places:
                yield from _described(path, place)
            if not places:
                yield path


def _described(path: str, place: _Place) -> Iterator[str]:
    match place.node:
        case ast.ClassDef() as node:
            yield f"class {path}{_made(node)}{_bases(node)}"
            for line in _members(place, seen=set()):
                yield f"{path}.{line}"
        case ast.FunctionDef() as node:
            yield f"def {path}{_signature(node)}"
        case ast.AnnAssign(annotation=annotation, value=value):
            yield f"{path}: {ast.unparse(annotation)} = {ast.unparse(value) if value else ''}"
        case ast.Assign(value=value):
            yield f"{path} = {_value(value)}"


def _made(node: ast.ClassDef) -> str:
    """How the class makes an instance, if not by `__init__`."""
    made = [ast.unparse(it) for it in node.decorator_list]
    return "".join(f" @{it}" for it in made if it.startswith("attrs."))


def _bases(node: ast.ClassDef) -> str:
    return f" ({', '.join(map(ast.unparse, node.bases))})" if node.bases else ""


def _members(place: _Place, seen: set[str]) -> Iterator[str]:
    """What a class offers, with what it inherits from classes of ours."""
    assert isinstance(place.node, ast.ClassDef)
    mine = [(name, line) for node in place.node.body for name, line in _member(node)]
    yield from (line for name, line in mine if name not in seen)
    seen.update(name for name, _ in mine)
    for base in place.node.bases:
        inner = base.value if isinstance(base, ast.Subscript) else base
        for above in _places(place.module, inner.id) if isinstance(inner, ast.Name) else ():
            if isinstance(above.node, ast.ClassDef):
                yield from _members(above, seen)


def _member(node: ast.stmt) -> Iterator[tuple[str, str]]:
    match node:
        case ast.FunctionDef(name=name) if name in _DUNDERS or not name.startswith("_"):
            kinds = {ast.unparse(it) for it in node.decorator_list}
            if kinds & {"property", "cached_property"}:
                yield name, f"{name}: {_text(node.returns)}"
            else:
                kind = "".join(f"@{it} " for it in sorted(kinds & {"classmethod", "staticmethod"}))
                yield name, f"{kind}{name}{_signature(node)}"
        case ast.AnnAssign(target=ast.Name(id=name)) if not name.startswith("_"):
            yield name, f"{name}: {_text(node.annotation)}{_default(node.value)}"
        case ast.Assign(targets=[ast.Name(id=name)]) if not name.startswith("_"):
            yield name, f"{name} = {_value(node.value)}"


def _default(value: ast.expr | None) -> str:
    """The default of a field. What makes it, and how it is checked, is not public."""
    if value is None:
        return ""
    if not (isinstance(value, ast.Call) and ast.unparse(value.func) == "attrs.field"):
        return f" = {_value(value)}"
    given = {keyword.arg: keyword.value for keyword in value.keywords}
    words = [f" = {_value(given['default'])}"] if "default" in given else [" = ..."] if "factory" in given else []
    return "".join(words) + ("  (keyword)" if "kw_only" in given else "")


def _value(value: ast.expr) -> str:
    """A default or a constant. A sentence may change at any time."""
    text = ast.unparse(value)
    return text if len(text) <= 100 and " " not in text.strip("'\"") and text[0] != "_" else "..."


def _text(annotation: ast.expr | None) -> str:
    """An annotation; one that is quoted says the same."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value
    return "" if annotation is None else ast.unparse(annotation)


def _signature(node: ast.FunctionDef) -> str:
    told = ast.unparse(node.args).replace("lambda : ", "lambda: ")  # as Python 3.10 writes it
    return f"({told}) -> {_text(node.returns)}"


def _read_by_programs() -> Iterator[str]:
    """Keys, options, exit codes, documents, files, figures and the identifiers of log lines."""
    for key, value in keys_of(HostRoutingConfig.from_mapping(COMPLETE).to_mapping()).items():
        yield f"configuration: {key}: {type(value).__name__}"
    for command in every_command():
        for word in words_of(command):
            yield f"command: {command.name} {word.usage}{' (required)' if word.required else ''}"
        for code, _ in exit_codes(command):
            yield f"exit code: {command.name} {code}"
        for key in KEYS.get(command.name, ()):
            yield f"document: {command.schema} {key}"
    sources = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "hostrouting").rglob("*.py"))]
    sources += [path.read_text(encoding="utf-8") for path in sorted((ROOT / "phases").rglob("*.py"))]
    schemas = {name for text in sources for name in re.findall(r"\"((?:hostrouting|phases)/[a-z-]+/\d+)\"", text)}
    yield from (f"schema: {name}" for name in sorted(schemas))
    layout = HostLayout()
    for name in sorted(it for it in dir(layout) if not it.startswith("_")):
        if isinstance(value := getattr(layout, name), str):
            yield f"file: {name} = {value}"
    figures = (ROOT / "hostrouting/tasks/guard/state.py").read_text(encoding="utf-8")
    for name in re.findall(r"^        \"(\w+)\": \(", figures, re.MULTILINE):
        yield f"figure: hostrouting_{name} {'counter' if name.endswith('_total') else 'gauge'}"
    guard = (ROOT / "hostrouting/tasks/guard/loop.py").read_text(encoding="utf-8")
    for name, number in re.findall(r"^(_[A-Z]+) = \"([0-9a-f]{32})\"$", guard, re.MULTILINE):
        yield f"MESSAGE_ID: {name.strip('_').lower()} = {number}"


def public_lines() -> list[str]:
    """All lines."""
    return [*_names(), *_read_by_programs()]


def breaks(before: Iterable[str], now: Iterable[str]) -> list[str]:
    """The lines that are gone or different: whoever relied on them may be broken."""
    present = set(now)
    return [line for line in before if line not in present]


if __name__ == "__main__":
    lines = public_lines()
    gone = breaks(LISTED.read_text(encoding="utf-8").splitlines()[1:], lines) if LISTED.exists() else []
    LISTED.write_text(_HEAD + "".join(f"{line}\n" for line in lines), encoding="utf-8")
    sys.stdout.write("".join(f"was public: {it}\n" for it in gone))
