"""Arguments that the parser accepts, and how little a usage error loads."""

import sys

import pytest

from hostrouting.cli.command import Command
from hostrouting.cli.commands import every_command
from tests.support.cli import say
from tests.support.programs import completed


@pytest.mark.linux
@pytest.mark.parametrize("words", [["--help"], ["chek"], []], ids=" ".join)
def test_usage_loads_nothing_of_ours(words: list[str]) -> None:
    """Help and bad usage are answered before attrs, the configuration or a kernel is loaded."""
    code = (
        "import sys\nfrom hostrouting.cli import main\n"
        f"try:\n    main({words!r})\nexcept SystemExit:\n    print(*sys.modules, file=sys.stderr)"
    )
    done = completed([sys.executable, "-c", code], check=True)
    loaded = done.stderr.splitlines()[-1].split()
    ours = {name for name in loaded if name.partition(".")[0] in {"hostrouting", "phases"}}
    light = {f"hostrouting.cli.{name}" for name in ("commands", "entry_point", "output")}
    assert ours == {"hostrouting", "hostrouting.cli", "hostrouting.text", "hostrouting.release", *light}
    assert not {"attrs", "attr", "typing", "json", "logging", "pyroute2", "ipaddress"} & set(loaded)


def test_help_names_every_command_and_every_exit_code() -> None:
    """The help fits one screen, and says what each command and each exit code is."""
    said = say("--help", COLUMNS="100")
    assert said.code == 0
    for command in every_command():
        assert f"  {command.name:<12}{command.summary}" in said.lines
    assert [line[:4] for line in said.lines[-4:]] == ["  0 ", "  1 ", "  2 ", "  3 "]
    assert len(said.lines) <= 34
    assert said.out.isascii()
    assert max(map(len, said.lines)) <= 100


@pytest.mark.parametrize("command", every_command(), ids=lambda command: command.name)
def test_help_of_each_command(command: Command) -> None:
    """Each command says what it is for, which options it takes, its schema and its exit codes."""
    said = say(command.name, "--help", COLUMNS="100")
    assert said.code == 0
    assert f"{command.name}: {command.summary}" in said.out
    assert command.schema in said.out
    assert "  3  no answer" in said.out
    assert ("\n  1  " in said.out) is (command.name not in {"explain", "snapshot"})
    assert f"examples:\n  {command.examples.rstrip().replace(chr(10), chr(10) + '  ')}\n\nexit codes:\n" in said.out
    assert said.out.isascii()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "required: COMMAND"),
        ((), "hostrouting --help"),
        (("chek",), "'chek' is not a known command; did you mean check? (known: check, explain, repair, "),
        (("wipe",), "'wipe' is not a known command (known: check, "),
        (("plan", "--config", "x", "--snapshto", "y"), "arguments: --snapshto y; did you mean --snapshot?"),
        (("clean", "azure-vent"), "'azure-vent' is not a known CNI; did you mean azure-vnet? (known: azure-vnet)"),
        (("plan", "--config", "x", "--jsno=1"), "unrecognized arguments: --jsno=1; did you mean --json?"),
        (("--versoin", "check"), "unrecognized arguments: --versoin; did you mean --version?"),
        (("explain",), "required: ADDRESS"),
        (("plan",), "required: --config"),
        (("check", "--js"), "unrecognized arguments: --js"),
        (("apply", "--config", "x", "--wait", "abc"), "'abc' is not a number of seconds, such as 30"),
        (("apply", "--config", "x", "--wait", "-1"), "not between 0 and 86400"),
        (("apply", "--config", "x", "--wait", "nan"), "not between 0 and 86400"),
    ],
)
def test_bad_usage(words: tuple[str, ...], problem: str) -> None:
    """Bad usage is exit code 2, the problem on standard error, and nothing on standard output."""
    said = say(*words)
    assert said.code == 2
    assert problem in said.err
    assert not said.out


def test_version() -> None:
    """The version is that of the package."""
    from hostrouting import __version__  # noqa: PLC0415  only here

    assert say("--version").out == f"hostrouting {__version__}\n"


def test_usage_of_the_command_that_was_meant() -> None:
    """An option that a command does not have is reported with the usage of that command."""
    said = say("check", "172.16.0.0/16", "--bogus")
    assert said.code == 2
    assert said.err.startswith("usage: hostrouting check ")
    assert said.err.endswith("hostrouting check: error: unrecognized arguments: --bogus\n")
    assert say("--bogus", "check").err.startswith("usage: hostrouting COMMAND")


@pytest.mark.parametrize("words", [(), *((command.name,) for command in every_command())])
def test_the_help_is_as_wide_as_the_terminal(words: tuple[str, ...]) -> None:
    """No line of a help is wider than 80 columns in a terminal of 80, and no word is lost there.

    Kills: text that was filled for 120 columns, and filling that drops or breaks a word.
    """
    narrow, wide = (say(*words, "--help", COLUMNS=columns).out for columns in ("80", "200"))
    assert [row for row in narrow.splitlines() if len(row) > 80] == []
    assert sorted({*wide.split()} - {*narrow.split()}) == []
