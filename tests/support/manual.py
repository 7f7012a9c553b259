"""The manual page of the packages, hostrouting(1), written from the records of the commands.

Here: its sections, and the macros of man(7). Not here: the texts of the commands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from hostrouting.cli.entry_point import exit_codes
from hostrouting.release import __version__
from tests.support.words import Word, main_words, summary, words_of

if TYPE_CHECKING:
    from hostrouting.cli.command import Command

WRITTEN = "2026-11-22"
"""The date on the page: that of the release, once it is in CHANGELOG.md."""

STOPPED = "stopped by Ctrl-C or SIGTERM"
"""The meaning of the exit codes 130 and 143."""

_DESCRIPTION = """\
hostrouting finds addresses whose packets leave a host by the wrong device, because a route of another network is more
specific than the default route. It names the route that captures them and the static routes that repair it, installs
these routes, and checks every address of the networks that have to leave by the default route (the expected CIDRs).

With an installed configuration, it does so at every boot, before a gated unit starts. In mode STRICT,
gated units do not start while an address leaves by the wrong device; in mode WARN, this is only logged.

Results go to standard output, logs to standard error. A command is about this host or, with the option --snapshot,
about a saved snapshot of another one.
"""
_ENVIRONMENT = {
    "NO_COLOR": "if it is set and not empty, the output has no colour. Output that does not go to a terminal never has "
    "colour, and TERM=dumb turns it off, too",
    "TERM": "the type of the terminal",
    "COLUMNS": "the width of the text of --help and of the live tree, instead of that of the terminal",
    "LC_ALL, LC_CTYPE, LANG": "the locale: in C and POSIX, the output is ASCII",
    "NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID, JOURNAL_STREAM": "set by systemd for the guard, which then reports "
    "its state to systemd and logs to the journal",
}
_FILES = {
    "/etc/hostrouting": "the scripts that run at boot, and the list of those that the gate runs",
    "/etc/aks-flex-node": "links to two of these scripts, where an agent has this folder",
    "/etc/systemd/system": "the units of these scripts, of the gate and of the guard, and the drop-ins that make units "
    "wait for the gate",
    "/etc/systemd/system-preset": "presets, which keep these units enabled",
    "/etc/iproute2/rt_protos.d/hostrouting.conf": "lets ip route print proto hostrouting",
    "/etc/systemd/networkd.conf.d": "tells systemd-networkd to keep routes and rules that it does not know",
    "/run/aks-flex-node": "the results of the last check",
    "/run/hostrouting": "the guard's state, its figures for Prometheus, and locks",
    "/var/lib/hostrouting": "what clean --undo restores",
}
"""The directories; docs/configuration.md says what each file is, and `hostrouting status` lists those of a host."""
_ALSO = ("ip-address(8)", "ip-route(8)", "ip-rule(8)", "journalctl(1)", "nft(8)", "systemd-nspawn(1)")
_EVERYWHERE = ("--help", "--json")
"""The options that every command has."""

_SPECIAL = {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "~": "\\(ti", "^": "\\(ha", "…": "..."}
"""Characters that roff would replace by others."""

_WIDTH = 79
"""Of the lines of the source: mandoc complains about longer ones."""


def manual_page(commands: Sequence[Command]) -> str:
    """The text of the page."""
    return "".join(f"{line}\n" for line in _lines(commands))


def _lines(commands: Sequence[Command]) -> Iterator[str]:

    words = {command.name: words_of(command) for command in commands}
    yield f'.TH HOSTROUTING 1 {WRITTEN} "hostrouting {__version__}" "User Commands"'
    yield ".nh"
    yield ".SH NAME"
    purpose = summary()
    yield from _filled([_roff("hostrouting"), "\\-", *_words(f"{purpose[:1].lower()}{purpose[1:].rstrip('.')}")])
    yield ".SH SYNOPSIS"
    for command in commands:
        yield from _filled([_bold(f"hostrouting {command.name}"), *_typed(words[command.name])])
        yield ".br"
    yield from _filled([_bold("hostrouting"), f"{_bold('--help')} |", _bold("--version")])
    yield ".SH DESCRIPTION"
    yield from _paragraphs(_DESCRIPTION)
    yield ".SH COMMANDS"
    usual = dict(exit_codes())
    for command in commands:
        codes = [(code, meaning) for code, meaning in exit_codes(command) if code and meaning != usual[code]]
        yield from _command(command, words[command.name], codes)
    yield ".SH OPTIONS"
    yield "Every command has these, and"
    yield f"{_bold('--version')} stands alone."
    known = {word.long: word for word in (*words[commands[0].name], *main_words())}
    for name in (*_EVERYWHERE, "--version"):
        yield from _defined(known[name])
    yield ".SH EXIT STATUS"
    for code, meaning in usual.items():
        yield from _tagged(_bold(str(code)), meaning)
    yield from _tagged(f"{_bold('130')}, {_bold('143')}", STOPPED)
    yield ".SH ENVIRONMENT"
    for name, meaning in _ENVIRONMENT.items():
        yield from _tagged(_bold(name), meaning)
    yield ".SH FILES"
    for path, meaning in _FILES.items():
        yield from _tagged(_slanted(path), meaning)
    yield ".SH EXAMPLES"
    yield ".EX"
    for number, command in enumerate(commands):
        yield from ["\\&"] if number else []
        yield from (_line(_roff(line)) for line in command.examples.splitlines())
    yield ".EE"
    yield ".SH SEE ALSO"
    for number, name in enumerate(_ALSO, start=1):
        title, section = name.rstrip(")").split("(")
        yield f".BR {_roff(title)} ({section}){',' if number < len(_ALSO) else ''}"


def _typed(words: Sequence[Word]) -> Iterator[str]:
    """The options and arguments as they are typed: [--config FILE], [--apply | --undo FILE], CIDR ..."""
    left = [word for word in words if word.names and word.long not in _EVERYWHERE]
    while left:
        alike = [word for word in left if word is left[0] or {*word.names} & {*left[0].excludes}]
        left = [word for word in left if word not in alike]
        text = " | ".join(map(_placed, alike))
        yield text if alike[0].required else f"[{text}]"
    yield from (_placed(word) if word.required else f"[{_placed(word)}]" for word in words if not word.names)


def _placed(word: Word) -> str:
    pieces = [*([_bold(word.long)] if word.names else []), *([_slanted(word.takes)] if word.takes else [])]
    return " ".join([*pieces, *(["...\\&"] if word.repeats else [])])


def _command(command: Command, words: Sequence[Word], codes: Iterable[tuple[int, str]]) -> Iterator[str]:
    yield f".SS {command.name}"
    yield from _filled(_words(_sentence(command.summary)))
    if command.more:
        yield ".PP"
        yield from _paragraphs(command.more)
    for word in words:
        if word.long not in _EVERYWHERE:
            yield from _defined(word)
    for code, meaning in codes:
        yield from (".PP", *_filled([f"Exit status {code}:", *_words(f"{meaning}.")]))
    yield from (".PP", *_filled([*_words("The document of"), _bold("--json"), "is", *_words(f"{command.schema}.")]))


def _defined(word: Word) -> Iterator[str]:
    names = ", ".join(map(_bold, word.names))
    yield from _tagged(" ".join(filter(None, [names, word.takes and _slanted(word.takes)])), word.meaning)


def _tagged(tag: str, text: str) -> Iterator[str]:
    yield from (".TP", tag, *_filled(_words(_sentence(text))))


def _paragraphs(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(text.strip("\n").split("\n\n")):
        yield from [".PP"] if number else []
        yield from _filled(_words(paragraph))


def _filled(words: Iterable[str]) -> Iterator[str]:
    """The words, filled into lines that roff cannot mistake for macros."""
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


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '?')) else '.'}"
