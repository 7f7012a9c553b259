"""Writes what is generated from the code: docs/messages.md and docs/commands.md.

`make messages` runs it. Here: the layout of the two pages. Not here: the messages (tests.support.sentences) and their
meanings (docs/messages.toml); the help of each command (hostrouting.cli.commands).
"""

from __future__ import annotations

import functools
import re
import sys
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from hostrouting import errors
from hostrouting.cli.commands import every_command
from hostrouting.cli.commands.manual import STOPPED
from hostrouting.cli.entry_point import exit_codes
from hostrouting.cli.failure import code_of
from hostrouting.cli.schemas import ERROR
from hostrouting.cli.words import words_of
from tests.support.pages import ROOT
from tests.support.sentences import Sentence, sentences

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["GENERATED", "commands_page", "listed", "messages_page", "notes", "sorted_out", "whole_of"]

_UNLISTED = {"HostRoutingError", "Fault", "is_denied"}


@functools.cache
def notes() -> dict[str, Any]:
    """The contents of docs/messages.toml."""
    return tomllib.loads((ROOT / "docs/messages.toml").read_text(encoding="utf-8"))


@functools.cache
def sorted_out() -> tuple[dict[int, list[Sentence]], list[Sentence], set[str]]:
    """The messages of each entry, by its number; the messages without an entry; and the patterns without a message."""
    entries = notes()["entry"]
    everything = [(pattern, number) for number, entry in enumerate(entries) for pattern in entry["at"]]
    everything += [(pattern, -1) for pattern in notes()["silent"]["at"]]
    patterns = [it for it in everything if ": " not in it[0]]
    by_text = [it for it in everything if ": " in it[0]]
    found: dict[int, list[Sentence]] = {number: [] for number in range(len(entries))}
    unknown: list[Sentence] = []
    unused = {pattern for pattern, _ in everything}
    known: dict[str, tuple[int, str] | None] = {}
    only_names = set(notes()["silent"]["texts"])
    for sentence in sentences():
        place = sentence.place
        if place not in known:
            fits = [(len(text), number, text) for text, number in patterns if _fits(place, text)]
            known[place] = max(fits)[1:] if fits else None
        whole = f"{place}: {sentence.text}"
        fit = next(((number, text) for text, number in by_text if _fits(whole, text)), known[place])
        if fit is None:
            unknown.append(sentence)
            continue
        number, pattern = fit
        unused.discard(pattern)
        if number >= 0 and sentence.text not in only_names:
            found[number].append(sentence)
    return found, unknown, unused


def _fits(place: str, pattern: str) -> bool:
    fixed = pattern.partition("*")[0]
    return place.startswith(fixed) and fnmatchcase(place, pattern)


def messages_page() -> str:
    """The text of docs/messages.md."""
    return "\n".join(_messages()) + "\n"


def _messages() -> Iterator[str]:
    yield from _head("Messages", "make messages", "docs/messages.toml")
    yield "Every message that hostrouting and phases print or raise, with what it means, why it appears, and what to do."
    yield "In a message, `{name}` stands for a value. If it stands for one of several texts, these are indented under the"
    yield "message."
    yield ""
    yield "## Lines of a check"
    yield ""
    yield "These lines appear in logs and in the journal. Scripts can rely on the words in the first column. A line begins with"
    yield "them or, if they come after …, contains them. Any other … stands for text that varies."
    yield ""
    yield "<!-- messages -->"
    yield "| the line | it means | what to do |"
    yield "|---|---|---|"
    for line in notes()["line"]:
        yield f"| {line['begins']} | {line['means']} | {line['do']} |"
    yield ""
    yield "## Errors and exit codes"
    yield ""
    yield "Every error of `hostrouting.errors`, with the exit code of a command that meets it. A boot script exits with 0 or"
    yield "1. The kernel's refusals of one route, such as `RouteExists`, are the reasons inside an `ApplyError`."
    yield ""
    yield "<!-- errors -->"
    yield "| error | it means | what to do | exit code |"
    yield "|---|---|---|---|"
    for name, kind in _errors():
        yield f"| `{name}` | {_first_sentence(kind)} | {notes()['errors'].get(name, '')} | {_exit_code(kind)} |"
    yield ""
    yield from _exit_codes()
    found, _, _ = sorted_out()
    section = ""
    for number, entry in enumerate(notes()["entry"]):
        if entry["section"] != section:
            section = entry["section"]
            yield f"## {section}"
            yield ""
        yield f"### {entry['title']}"
        yield ""
        if "begins" in entry:
            yield entry["begins"]
            yield ""
        yield from listed(found[number])
        yield ""
        yield f"**Meaning:** {entry['means']}"
        yield ""
        yield f"**Why:** {entry['why']}"
        yield ""
        yield f"**What to do:** {entry['do']}"
        yield ""


def _head(title: str, command: str, source: str) -> Iterator[str]:
    yield f"# {title}"
    yield ""
    yield f"<!-- `{command}` writes this page from the code and from {source}: change those. -->"
    yield ""


def whole_of(sentence: Sentence) -> tuple[str, str]:
    """The pattern in `whole` that fits a part of a message, and the whole message; ("", "") if it is a message."""
    wholes, said = notes()["whole"], f"{sentence.place}: {sentence.text}"
    pattern = max((it for it in wholes if _fits(said if ": " in it else sentence.place, it)), key=len, default="")
    return pattern, wholes.get(pattern, "")


def listed(found: Iterable[Sentence]) -> Iterator[str]:
    """Each message once; the parts of a message are indented under it, or put into it if it has only one."""
    messages: dict[str, dict[tuple[str, str], None]] = {}
    said = set()
    for sentence in found:
        text = sentence.text.strip(" ;,:")
        _, whole = whole_of(sentence)
        part = _PART.search(whole)
        if part is None:
            said.add(text)
            messages.setdefault(text, {})
        else:
            name = f"{{{part[1]}}}"
            messages.setdefault(whole.replace(part[0], name), {})[name, text] = None
    for whole, parts in messages.items():
        if len(parts) == 1 and whole not in said:
            ((name, text),) = parts
            yield f"- {_code(whole.replace(name, text))}"
            continue
        one = {name for name, _ in parts}
        yield f"- {_code(whole)}" + (f", where `{min(one)}` can be:" if len(one) == 1 else "")
        yield from (f"    - {f'`{name}`: ' if len(one) > 1 else ''}{_code(text)}" for name, text in parts)


_PART = re.compile(r"\{>([^}]+)\}")
"""In a whole message: where the part is."""


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _errors() -> Iterator[tuple[str, type[Exception]]]:
    for name in errors.__all__:
        kind = getattr(errors, name)
        if name not in _UNLISTED and not issubclass(kind, errors.RouteRefused):
            yield name, kind


def _first_sentence(kind: type[Exception]) -> str:
    return " ".join((kind.__doc__ or "").split("\n\n")[0].split())


def _exit_code(kind: type[Exception]) -> int:
    error = kind.__new__(kind)
    error.__dict__["errno"] = None  # a file's error says whether root is missing; that is NotPermitted's row
    return code_of(error)


def _exit_codes() -> Iterator[str]:
    yield "| exit code | it means |"
    yield "|---|---|"
    yield "| 0 | fine |"
    yield "| 1 | an overlap was found; a change failed or was refused; `plan` found something to do or a failure; `status` found something wrong; `preflight` found warnings |"
    yield "| 2 | bad input: the command line, the configuration, the snapshot or another input file; `preflight` found errors |"
    yield "| 3 | no answer: the verdict is undecided or no-default-route, permission was denied, or something that is needed, such as netlink, nft or the metadata service, is missing or does not answer (also if STRICT fails because of that) |"
    yield f"| 130, 143 | {STOPPED} |"
    yield ""


def commands_page() -> str:
    """The text of docs/commands.md."""
    return "\n".join(_commands()) + "\n"


def _commands() -> Iterator[str]:
    usual = dict(exit_codes())
    yield from _head("Commands", "make messages", "hostrouting/cli/commands")
    yield "`hostrouting COMMAND --help` prints the same. Results go to standard output, logs to standard error. `--json` works"
    yield "with every command, before or after its name. [Messages](messages.md#errors-and-exit-codes) explains the exit codes."
    yield ""
    yield "| command | what it does | requires root |"
    yield "|---|---|---|"
    for command in every_command():
        yield f"| [`{command.name}`](#{command.name}) | {command.summary} | {'yes' if command.changes else 'no'} |"
    yield ""
    yield "## The JSON documents"
    yield ""
    yield "In the names of keys, `[]` marks the items of a list, and `.` a key of an object. If a command could not run, it prints a"
    yield "`hostrouting/error/1` document instead, with these keys:"
    yield ""
    yield "| key | meaning |"
    yield "|---|---|"
    for key, meaning in ERROR.items():
        yield f"| `{key}` | {meaning} |"
    for command in every_command():
        yield ""
        yield f"## {command.name}"
        yield ""
        yield f"{command.summary[:1].upper()}{command.summary[1:]}{'' if command.summary.endswith('?') else '.'}"
        yield ""
        if command.more:
            yield "```text"
            yield command.more.strip("\n")
            yield "```"
            yield ""
        yield "```console"
        yield from (f"{'' if it.startswith('#') else '$ '}{it}" for it in command.examples.splitlines())
        yield "```"
        yield ""
        codes = dict(exit_codes(command))
        if 1 in codes:
            yield f"Exit code 1: {codes[1]}."
            yield ""
        if codes[2] != usual[2]:
            yield f"Exit code 2: {codes[2]}."
            yield ""
        yield "| argument | meaning |"
        yield "|---|---|"
        for word in words_of(command):
            if "--help" not in word.names:
                yield f"| `{word.usage}` | {word.meaning} |"
        yield ""
        if not command.keys:
            yield f"The document `{command.schema}` has the fields of `hostrouting.Snapshot`."
            continue
        yield f"| key in `{command.schema}` | meaning |"
        yield "|---|---|"
        for key, meaning in command.keys.items():
            yield f"| `{key}` | {meaning} |"


GENERATED: dict[str, Callable[[], str]] = {
    "docs/messages.md": messages_page,
    "docs/commands.md": commands_page,
}
"""The files that are generated, each with what makes its text."""


def main() -> None:
    """Write all of them. If messages have no entry, print them and fail."""
    _, unknown, unused = sorted_out()
    for sentence in unknown:
        sys.stderr.write(f"{sentence.place}, line {sentence.line}: no entry in docs/messages.toml: {sentence.text}\n")
    for pattern in sorted(unused):
        sys.stderr.write(f"docs/messages.toml: no message matches {pattern}\n")
    for path, made in GENERATED.items():
        (ROOT / path).write_text(made(), encoding="utf-8")
    raise SystemExit(1 if unknown or unused else 0)


if __name__ == "__main__":
    main()
