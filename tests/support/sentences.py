"""Finds every message in the source: its text, its placeholders, and its place in the code.

Here: which texts are messages, and how an expression becomes a placeholder. Not here: the meaning of a message
(docs/messages.toml), and the page that is written from both (tests.support.write_pages).
"""

from __future__ import annotations

import ast
import functools
import re
from typing import TYPE_CHECKING

import attrs

from tests.support.alternatives import MARKS, each, either
from tests.support.awk_texts import statements, texts_in
from tests.support.pages import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["SILENT", "Sentence", "sentences", "sentences_of"]

SILENT = {
    "hostrouting/__init__.py": "names only",
    "hostrouting/boot/gate_files.py": "the text of units",
    "hostrouting/boot/probe.py": "settings of a script",
    "hostrouting/boot/scripts.py": "settings of a script",
    "hostrouting/boot/units.py": "the text of units",
    "hostrouting/check/overlap.py": "how values print",
    "hostrouting/check/segments.py": "the legend of a map",
    "hostrouting/cli/": "prints what the page of commands describes; its refusals are below",
    "hostrouting/fib/": "how values print, and mistakes in calls",
    "hostrouting/fleet/grouping.py": "what groups of nodes are called",
    "hostrouting/fleet/page.py": "the text of a page",
    "hostrouting/host/effects.py": "how values print",
    "hostrouting/kernel/nftables/table.py": "the text of a table",
    "hostrouting/model/": "how values print, and mistakes in calls",
    "hostrouting/testing/": "for tests",
    "phases/__init__.py": "names only",
    "phases/live.py": "a drawing",
    "phases/report.py": "keys of a document, and a drawing",
    "phases/testing.py": "for tests",
    "phases/text.py": "numbers in words",
}
"""Files whose texts are not messages, each with the reason; the names in SPEAKING are exceptions."""

SPEAKING = (
    "hostrouting/cli/changes.py",
    "hostrouting/cli/command.py",
    "hostrouting/cli/commands/apply.py",
    "hostrouting/cli/commands/plan.py",
    "hostrouting/cli/commands/status.py",
    "hostrouting/cli/entry_point.py",
    "hostrouting/cli/fleet.py",
    "hostrouting/cli/source.py",
    "hostrouting/model/prefix.py",
    "hostrouting/model/snapshot.py",
)

_SCRIPTS = ROOT / "hostrouting/boot/assets"
_SAID = re.compile(r"\b(?:say|fail|refuse|complain)\b[^\"'\n]*?([\"'])(.*?)\1(?:$|[ ;|)])")
_KEPT = re.compile(r"=\(?([\"'])(?:refused|failed) (.*?)\1")
"""What a script keeps in a variable, and says later."""
_PRINTED = re.compile(r"(?<!\\)'<\d>[\w-]+: (.*?)\\n'")
_FOR_IP = re.compile(r"nexthop via |table .* proto ")
"""In a text that a script gives to `ip`."""
_NOT_SAID = {"compile", "match", "fullmatch", "Literal", "add_argument", "cast", "getattr", "TypeVar"}
_LOGS = {"debug", "info", "warning", "error", "exception"}
_FAULTS = {"Fault": 2, "Unreadable": 0, "_fail": 1, "faulty": 1, "note": 1, "note_absence": 0}
"""Calls whose texts are one message, however short; and how many arguments are before them."""


@attrs.frozen(order=True)
class Sentence:
    """One message, or a part of one, as written in the code."""

    place: str
    """The place: `hostrouting.boot.gate:refuse`, or the file name of a script."""
    line: int
    text: str
    """The text, with each value as `{name}`."""


@functools.cache
def sentences() -> tuple[Sentence, ...]:
    """All messages, in the order of the code."""
    found = [*_in_python(), *_in_scripts()]
    return tuple(sorted(found))


def _in_python() -> Iterator[Sentence]:
    for path in sorted([*(ROOT / "hostrouting").rglob("*.py"), *(ROOT / "phases").rglob("*.py")]):
        name = path.relative_to(ROOT).as_posix()
        if name not in SPEAKING and any(name.startswith(silent) for silent in SILENT):
            continue
        module = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        yield from sentences_of(module, ast.parse(path.read_text(encoding="utf-8")))


def sentences_of(module: str, tree: ast.Module) -> list[Sentence]:
    """The messages of one module."""
    return _Reader(module).read(tree)


def _in_scripts() -> Iterator[Sentence]:
    for path in sorted(_SCRIPTS.glob("*.sh")):
        program: list[tuple[int, str]] = []
        in_awk = False
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            in_awk = line == "program='" or (in_awk and line != "'")
            if in_awk:
                program.append((number, line.removeprefix("program='")))
                continue
            said = [it[2] for it in (*_SAID.finditer(line), *_KEPT.finditer(line))]
            said += [_filled(it[1], re.findall(r"\$\w+", line[it.end() :])) for it in _PRINTED.finditer(line)]
            for text in said:
                plain = re.sub(
                    r"\$\{(\w+)[^}]*\}|\$(\w+)|\$\*|\$\(.*?\)|%s",
                    lambda it: f"{{{(it[1] or it[2] or ('command' if '*' in it[0] else '…')).lower()}}}",
                    text,
                )
                if not plain.startswith("<") and re.search(r"\b[a-z]{4,}", re.sub(r"\{.*?\}", "", plain)):
                    yield Sentence(place=path.name, line=number, text=plain)
        for number, statement in statements(program):
            for text in filter(_is_sentence, texts_in(statement)):
                for it in each(text):
                    if not _FOR_IP.search(it):
                        yield Sentence(place=path.name, line=number, text=it.strip().removeprefix("failed "))


def _is_sentence(text: str) -> bool:
    words = re.sub(rf"\{{.*?\}}|[{MARKS}]", " ", text).split()
    return len([word for word in words if re.fullmatch(r"[\w',.;:()-]*[a-z]{2}[\w',.;:()=-]*", word)]) >= 3


class _Reader:
    """Goes through one module and collects its messages.

    Adjacent texts in one call form one message, and a text that is assigned to a name is inserted where the name is used.
    Alternatives in a text make a message each; of two that are only words, such as a singular and a plural, the longer
    one is shown.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._found: list[Sentence] = []
        self._named: dict[str, tuple[list[Sentence], str]] = {}  # with the text as written, which may end with a blank
        self._assigned: set[str] = set()
        self._touched: set[Sentence] = set()
        self._used: set[Sentence] = set()

    def read(self, tree: ast.Module) -> list[Sentence]:
        self._body(tree.body, "")
        self._named.clear()
        return [it for it in self._found if it not in self._used]

    def _body(self, statements: list[ast.stmt], within: str) -> None:
        later = []
        for it in statements:
            if isinstance(it, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                later.append(it)  # once all names of this body are known
            elif isinstance(it, ast.AnnAssign | ast.Assign):
                self._assignment(it, within)
            elif not (isinstance(it, ast.Expr) and isinstance(it.value, ast.Constant)):  # a docstring
                self._statement(it, within)
        for it in later:
            known = dict(self._named)
            self._body(it.body, f"{within}.{it.name}" if within else it.name)
            self._named = known

    def _assignment(self, it: ast.AnnAssign | ast.Assign, within: str) -> None:
        target = it.target if isinstance(it, ast.AnnAssign) else it.targets[0]
        name = target.id if isinstance(target, ast.Name) else ""
        if it.value is None:
            return
        self._touched.clear()
        place, text = within or name, self._text(it.value)
        if not name or text is None:
            self._node(it.value, place)
            return
        self._named.pop(name, None)
        if said := self._say(it.value, text, place):
            self._named[name] = said, text
        self._assigned.add(name)

    def _statement(self, it: ast.AST, within: str) -> None:
        for part in ast.iter_child_nodes(it):
            if isinstance(part, ast.ExceptHandler | ast.match_case):
                self._branch(part.body, within)
            elif not isinstance(part, ast.stmt):
                self._node(part, within)
        for block in (getattr(it, name, []) for name in ("body", "orelse", "finalbody")):
            self._branch(block, within)

    def _branch(self, statements: list[ast.stmt], within: str) -> None:
        """A name that is assigned in a branch has that text until the branch ends; after that, its text is not known."""
        before, outside = dict(self._named), self._assigned
        self._assigned = set()
        self._body(statements, within)
        self._named = {name: it for name, it in before.items() if name not in self._assigned}
        self._assigned |= outside

    def _node(self, node: ast.AST, within: str) -> None:
        self._touched.clear()
        text = None if isinstance(node, ast.Name) else self._text(node)
        if text is not None:
            self._say(node, text, within)
            return
        parts = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.Call):
            if _called(node) in _NOT_SAID:
                return
            self._touched.clear()
            texts = [(it, self._text(it)) for it in node.args]
            if _called(node) in _LOGS and texts and texts[0][1] is not None:
                self._say(node.args[0], _filled(texts[0][1], map(self._value, node.args[1:])), within)
                parts = [it for it in parts if it is not node.args[0]]
                texts = []
            said = [it for _, it in texts if it is not None and _is_sentence(it)]
            if _called(node) in _FAULTS:
                said = [self._value(it) if text is None else text for it, text in texts[_FAULTS[_called(node)] :]]
                said = [it for it in said if it]
            if len(said) > 1 or (said and _called(node) in _FAULTS):
                self._say(node, ("" if _called(node) == "line" else "; ").join(said), within)
                parts = [it for it in parts if not any(it is part and text is not None for part, text in texts)]
        if isinstance(node, ast.Dict):
            parts = list(node.values)
        for part in parts:
            self._node(part, within)

    def _say(self, node: ast.AST, text: str, within: str) -> list[Sentence]:
        said: list[Sentence] = []
        if _is_sentence(text):
            line = getattr(node, "lineno", 0)
            place = f"{self._module}:{within}" if within else self._module
            said = [Sentence(place=place, line=line, text=_even(it)) for it in each(text) if _is_sentence(it)]
            self._found += said
            self._used |= self._touched
        if isinstance(node, ast.JoinedStr):
            for value in node.values:
                if isinstance(value, ast.FormattedValue) and not self._is_inlined(value.value):
                    self._node(value.value, within)
        return said

    def _text(self, node: ast.AST) -> str | None:
        """The text with its values as placeholders; None if the expression is not a text."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        if isinstance(node, ast.JoinedStr):
            return _distinct(node.values, map(self._part, node.values))
        if isinstance(node, ast.Name) and node.id in self._named:
            said, text = self._named[node.id]
            self._touched.update(said)
            return text
        if isinstance(node, ast.IfExp):
            first, second = self._text(node.body), self._text(node.orelse)
            if first is not None and second is not None and _is_sentence(first) and _is_sentence(second):
                return either([first, second])
        if isinstance(node, ast.Call) and _called(node) == "Painted" and node.args:
            return self._text(node.args[0])
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            template = self._text(node.left)
            values = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
            return None if template is None else _filled(template, map(self._value, values))
        return None

    def _part(self, node: ast.expr) -> str:
        if not isinstance(node, ast.FormattedValue):
            return str(getattr(node, "value", ""))
        return self._value(node.value)

    def _value(self, node: ast.expr) -> str:
        """A value in a text: its own text if that is known, or its name."""
        text = self._text(node) if self._is_inlined(node) else None
        if text is None and isinstance(node, ast.IfExp) and self._is_inlined(node):
            text = max(str(self._text(node.body)), str(self._text(node.orelse)), key=len)
        return f"{{{_name(node)}}}" if text is None else text

    def _is_inlined(self, node: ast.expr) -> bool:
        if isinstance(node, ast.IfExp):
            return None not in {self._text(node.body), self._text(node.orelse)}
        return isinstance(node, ast.Name) and node.id in self._named


def _filled(text: str, values: Iterable[str]) -> str:
    """A text for `printf` or a logger, with its values."""
    rest = iter(values)
    return re.sub(r"%[sgrd]", lambda _: next(rest, "{…}"), text)


def _distinct(nodes: Iterable[ast.expr], texts: Iterable[str]) -> str:
    """The text of a formatted string. Two values that would have one name are told apart: {dev} and {other dev}."""
    named: dict[str, set[str]] = {}
    found = []
    for node, text in zip(nodes, texts, strict=True):
        known = named.setdefault(text, set())
        value = ast.dump(node.value) if isinstance(node, ast.FormattedValue) else ""
        found.append(text.replace("{", "{other ") if value and known - {value} else text)
        known.add(value)
    return "".join(found)


def _is_constant(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id.isupper()


def _even(text: str) -> str:
    return " ".join(text.split())


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _name(node: ast.AST) -> str:
    """The name of a value in a message."""
    if isinstance(node, ast.Name):
        name = "this" if node.id == "self" else node.id.strip("_")
        return name.lower() if name.isupper() or name.istitle() else name
    if isinstance(node, ast.Attribute):
        if node.attr == "__name__":
            return "type"
        inner = _name(node.value) if node.attr in {"name", "path", "prefix"} else ""
        return f"{inner}.{node.attr}".strip("._") if inner not in {"", "this", "it"} else node.attr.strip("_")
    if isinstance(node, ast.Call):
        called = _called(node).strip("_")
        if not node.args:
            return _name(node.func.value) if isinstance(node.func, ast.Attribute) and called == "strip" else called
        # What a call is about: not the function that `map` calls, and not a constant such as IPV4.
        subject = next((it for it in node.args if called != "map" and not _is_constant(it)), node.args[-1])
        inner = _name(subject)
        return f"number of {inner}" if called == "len" else inner
    if isinstance(node, ast.Subscript | ast.Starred | ast.Await):
        return _name(node.value)
    if isinstance(node, ast.BinOp):
        return _name(node.left)
    if isinstance(node, ast.BoolOp):
        return _name(node.values[0])
    if isinstance(node, ast.IfExp):
        return _name(node.orelse if isinstance(node.body, ast.Constant) else node.body)
    if isinstance(node, ast.GeneratorExp | ast.ListComp):
        return _name(node.generators[0].iter)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.lower()
    return "…"
