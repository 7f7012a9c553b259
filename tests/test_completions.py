"""What bash completes: it is started, and asked at its command line."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hostrouting.cli.command import Command
from hostrouting.cli.commands import COMMANDS, every_command
from hostrouting.cli.commands.completion import completion_script
from tests.support.cli import say
from tests.support.namespace import private_namespace
from tests.support.needs import require
from tests.support.package_hook import shared
from tests.support.shells import LIBRARY, shell

Offers = Callable[[str], set[str]]

pytestmark = pytest.mark.linux

COMMAND_NAMES = set(COMMANDS)


def asked(stack: ExitStack, home: Path, share: Path, *, script: str = "", before: tuple[str, ...] = ()) -> Offers:
    """What bash offers in this directory, after it has run the script."""
    it = stack.enter_context(shell(home, share, before=before))
    if not script:
        (share / "printed.txt").write_text(completion_script(), encoding="ascii")
    it.run(script or f"source {share / 'printed.txt'}")
    return it.offers


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a file, a file with a blank in its name, and a directory."""
    path = tmp_path_factory.mktemp("home")
    (path / "agent.json").touch()
    (path / "a node.json").touch()
    (path / "images").mkdir()
    return path


@pytest.fixture(scope="module")
def share(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a package puts below /usr/share."""
    folder = tmp_path_factory.mktemp("share")
    for name, content in shared().items():
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture(scope="module")
def offers(home: Path, share: Path) -> Iterator[Offers]:
    """What bash offers."""
    with ExitStack() as stack:
        yield asked(stack, home, share)


def test_commands(offers: Offers) -> None:
    """The commands are offered, also after an option, and after a part of a name those that fit."""
    assert offers("hostrouting ") == COMMAND_NAMES
    assert offers("hostrouting --json ") == COMMAND_NAMES
    assert offers("hostrouting re") == {"repair", "remove", "render"}
    assert offers("hostrouting --") == {"--help", "--version", "--json"}


@pytest.mark.parametrize("command", every_command(), ids=lambda it: it.name)
def test_options(offers: Offers, command: Command) -> None:
    """Every option in the help of a command is offered there, and no other, also after words that look like commands."""
    known = set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", say(command.name, "--help", COLUMNS="100").out, re.MULTILINE))
    assert {"--help", "--json"} <= known
    assert offers(f"hostrouting {command.name} --") == known
    assert offers(f"hostrouting {command.name} --js") == {"--json"}


def test_a_value_is_not_the_command(offers: Offers) -> None:
    """The command is the first word, whatever words the values of its options are."""
    assert offers("hostrouting render --root check --con") == {"--config"}
    assert offers("hostrouting explain fe80::1 --i") == {"--iif", "--ipproto"}


def test_files(offers: Offers) -> None:
    """A file is offered where the help says FILE, in both ways of writing an option; a name with a blank is one word."""
    for typed in ("hostrouting plan --config a", "hostrouting plan --config=a", "hostrouting clean --undo a"):
        assert offers(typed) == {"agent.json", "a node.json"}


def test_directories(offers: Offers) -> None:
    """Only directories are offered where the help says DIR."""
    assert offers("hostrouting render --root i") == {"images"}
    offered = offers("hostrouting render --root ")
    assert "images" in offered
    assert not {"agent.json", "a node.json"} & offered


def test_devices(offers: Offers) -> None:
    """The devices of this host are offered where the help says DEV."""
    devices = {path.name for path in Path("/sys/class/net").iterdir() if path.is_dir()}
    assert devices
    assert offers("hostrouting check --dev ") == devices
    assert offers("hostrouting explain 10.0.0.1 --iif=l") == {name for name in devices if name.startswith("l")}


def test_choices(offers: Offers) -> None:
    """An option with a few possible words offers these, once."""
    assert offers("hostrouting clean ") == {"azure-vnet"}
    assert not {"azure-vnet"} & offers("hostrouting clean azure-vnet ")


def test_nothing_is_made_up(offers: Offers) -> None:
    """If nothing is known, nothing is offered: for an address, a CIDR, a number, and after an unknown command."""
    for typed in ("check 1", "explain a", "explain 10.0.0.1 --mark a", "apply --wait a", "nonsense a"):
        assert offers(f"hostrouting {typed}") == set()


@pytest.mark.needs("root")
def test_odd_names_of_devices(tmp_path: Path, share: Path) -> None:
    """A device whose name is a command for a shell is put in as a word; no command runs."""
    odd = ["$(touch${IFS}x)", "a;b", "eth0", "~"]
    before = 'mount --make-rprivate / && mount -t sysfs sysfs /sys && exec "$@"'
    with private_namespace() as namespace, ExitStack() as stack:
        for number, dev in enumerate(odd):
            assert not namespace.ip("link", "add", dev, "type", "veth", "peer", "name", f"peer{number}").returncode
        inside = (*namespace.enter, "unshare", "--mount", "sh", "-c", before, "sh")
        offered = asked(stack, tmp_path, share, before=inside)("hostrouting check --dev ")
    assert {*odd, "lo"} <= offered
    assert not (tmp_path / "x").exists()


def test_files_of_the_package(home: Path, share: Path) -> None:
    """The library of bash-completion finds the script where the package puts it."""
    require("bash-completion")
    with ExitStack() as stack:
        offers = asked(stack, home, share, script=f"source {LIBRARY}")
        assert offers("hostrouting ") == COMMAND_NAMES
        assert offers("hostrouting plan --config=a") == {"agent.json", "a node.json"}
        assert offers("hostrouting remove --d") == {"--dry-run"}


def test_printed() -> None:
    """The command prints the script."""
    said = say("completion")
    assert (said.code, said.out) == (0, completion_script())
    assert say("completion", "--json").json["script"] == said.out
    assert said.out.isascii()
