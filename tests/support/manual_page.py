"""Writes the manual page, hostrouting(1), from the command line and from tables of the documentation.

Here: its sections, and the macros of man(7). Not here: the texts of the commands (hostrouting.cli.commands), and what
the files (docs/configuration.md) and the environment variables (docs/operators.md) are for.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.support.pages import ROOT, page, tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.support.command_line import CommandLine, Part, Word

__all__ = ["STOPPED", "date_of", "manual_page"]

_WRITTEN = "2026-11-22"
"""The date of the page until the version is released, when CHANGELOG.md has its date."""

STOPPED = "stopped by Ctrl-C or SIGTERM"
"""The meaning of the exit codes 130 and 143."""

_DESCRIPTION = """\
hostrouting finds addresses whose packets leave a host by the wrong device, because a route of another network is more
specific than the default route. It names the route that captures them and the static routes that repair it, installs
these routes, and checks every address of the networks that have to leave by the default route (the expected CIDRs).

With an installed configuration, it does so at every boot, before a systemd-nspawn machine starts. In mode STRICT,
machines do not start while an address leaves by the wrong device; in mode WARN, this is only logged.

Results go to standard output, logs to standard error. A command is about this host or, with the option --snapshot,
about a saved snapshot of another one.
"""
_ALSO = ("ip-address(8)", "ip-route(8)", "ip-rule(8)", "journalctl(1)", "nft(8)", "systemd-nspawn(1)")
_EVERYWHERE = ("--help", "--json", "--verbose")
"""The options that every command has."""

_SPECIAL = {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "~": "\\(ti", "^": "\\(ha", "…": "..."}
"""Characters that roff would replace by others."""

_WIDTH = 79
"""Of the lines of the source: mandoc complains about longer ones."""


def manual_page(line: CommandLine) -> str:
    """The text of the page."""
    return "".join(f"{it}\n" for it in _lines(line))


def _lines(line: CommandLine) -> Iterator[str]:
    yield '.\\" `make messages` writes this file from the code: change that.'
    date = date_of(line.version, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    yield f'.TH HOSTROUTING 1 {date} "hostrouting {line.version}" "User Commands"'
    yield ".nh"
    yield ".SH NAME"
    summary = f"{line.summary[:1].lower()}{line.summary[1:].rstrip('.')}"
    yield from _filled([_roff("hostrouting"), "\\-", *_words(summary)])
    yield ".SH SYNOPSIS"
    for part in line.commands:
        yield from _filled([_bold(f"hostrouting {part.name}"), *_typed(part)])
        yield ".br"
    yield from _filled([_bold("hostrouting"), f"{_bold('--help')} |", _bold("--version")])
    yield ".SH DESCRIPTION"
    yield from _paragraphs(_DESCRIPTION)
    yield ".SH COMMANDS"
    for part in line.commands:
        yield from _command(part, dict(line.codes))
    yield ".SH OPTIONS"
    yield "Every command has these, and"
    yield f"{_bold('--version')} stands alone."
    known = {word.long: word for word in (*line.commands[0].options, *line.options)}
    for name in (*_EVERYWHERE, "--version"):
        yield from _defined(known[name])
    yield ".SH EXIT STATUS"
    for code, meaning in line.codes:
        yield from _tagged(_bold(str(code)), _sentence(meaning))
    yield from _tagged(f"{_bold('130')}, {_bold('143')}", _sentence(STOPPED))
    yield ".SH ENVIRONMENT"
    for name, meaning in tables(page("operators"), "environment"):
        yield from _tagged(_bold(_plain(name)), _sentence(_plain(meaning)))
    yield ".SH FILES"
    for path, meaning in tables(page("configuration"), "files"):
        yield from _tagged(_slanted(_plain(path)), _sentence(_plain(meaning)))
    yield ".SH EXAMPLES"
    yield ".EX"
    for number, part in enumerate(line.commands):
        yield from ["\\&"] if number else []
        yield from (_line(_roff(it)) for it in part.examples.splitlines())
    yield ".EE"
    yield ".SH SEE ALSO"
    for number, name in enumerate(_ALSO, start=1):
        title, section = name.rstrip(")").split("(")
        yield f".BR {_roff(title)} ({section}){',' if number < len(_ALSO) else ''}"


def date_of(version: str, changes: str) -> str:
    """The date of the page: that of the version, as the text of CHANGELOG.md has it, if it is released."""
    heading = re.search(rf"^## {re.escape(version)} [—-] (unreleased|\d{{4}}-\d\d-\d\d)$", changes, re.MULTILINE)
    if heading is None:
        raise ValueError(f"CHANGELOG.md has no heading for this version; write: ## {version} — unreleased, or its date")
    return _WRITTEN if heading[1] == "unreleased" else heading[1]


def _typed(part: Part) -> Iterator[str]:
    """The options and arguments as they are typed: [--config FILE], [--apply | --undo FILE], CIDR ..."""
    left = [word for word in part.options if word.long not in _EVERYWHERE]
    while left:
        alike = [word for word in left if word is left[0] or {*word.names} & {*left[0].excludes}]
        left = [word for word in left if word not in alike]
        text = " | ".join(map(_placed, alike))
        yield text if alike[0].required else f"[{text}]"
    yield from (_placed(word) if word.required else f"[{_placed(word)}]" for word in part.arguments)


def _placed(word: Word) -> str:
    pieces = [*([_bold(word.long)] if word.names else []), *([_slanted(word.takes)] if word.takes else [])]
    return " ".join([*pieces, *(["...\\&"] if word.repeats else [])])


def _command(part: Part, usual: dict[int, str]) -> Iterator[str]:
    yield f".SS {part.name}"
    yield from _filled(_words(_sentence(part.summary)))
    if part.more:
        yield ".PP"
        yield from _paragraphs(part.more)
    for word in (*part.arguments, *part.options):
        if not word.names or word.long not in _EVERYWHERE:
            yield from _defined(word)
    for code, meaning in part.codes:
        if code and meaning != usual[code]:
            yield from (".PP", *_filled([f"Exit status {code}:", *_words(f"{meaning}.")]))
    yield from (".PP", *_filled([*_words("The document of"), _bold("--json"), "is", *_words(f"{part.schema}.")]))


def _defined(word: Word) -> Iterator[str]:
    names = ", ".join(map(_bold, word.names))
    yield from _tagged(" ".join(filter(None, [names, word.takes and _slanted(word.takes)])), _sentence(word.meaning))


def _tagged(tag: str, text: str) -> Iterator[str]:
    yield from (".TP", tag, *_filled(_words(text)))


def _paragraphs(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(text.strip("\n").split("\n\n")):
        yield from [".PP"] if number else []
        yield from _filled(_words(paragraph))


def _filled(words: Iterable[str]) -> Iterator[str]:
    """The words in lines, none of which looks like a macro."""
    row = ""
    for word in words:
        if row and len(row) + 1 + len(word) > _WIDTH:
            yield row
            row = ""
        row = f"{row} {word}" if row else _line(word)
    yield row


def _line(text: str) -> str:
    """The text as the beginning of a line: a line that begins with a dot would be a macro."""
    return f"\\&{text}" if text.startswith(".") else text


def _words(text: str) -> list[str]:
    return [_roff(word) for word in text.split()]


def _roff(text: str) -> str:
    """The text as it is, whatever characters it has."""
    return "".join(_SPECIAL.get(char, char) for char in text)


def _bold(text: str) -> str:
    return f"\\fB{_roff(text)}\\fR"


def _slanted(text: str) -> str:
    return f"\\fI{_roff(text)}\\fR"


def _plain(cell: str) -> str:
    """The text of a cell of a table, without its markup."""
    return re.sub(r"\[(.*?)\]\(.*?\)", r"\1", cell).replace("`", "")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '?')) else '.'}"
