"""From arguments to an exit code: what may be typed, what is read, and what is written on which
stream.
"""

import errno
import io
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, strategies as st

from hostrouting.check.check import check_snapshot
from hostrouting.cli.output import Answer, write
from hostrouting.cli.parser import COMMANDS, make_parser
from hostrouting.command import LineToType
from hostrouting.config.settings import GateConfig, HostRoutingConfig
from hostrouting.errors import BackendError
from hostrouting.finding import NAMES
from hostrouting.install.host_check import HostCheck
from hostrouting.install.installed import read_installed
from hostrouting.kernel.rights import Rights
from hostrouting.model.route import Route
from hostrouting.model.snapshot import Link, Snapshot
from hostrouting.release import __version__
from hostrouting.testing import FakeHost, FakeKernel, h200, plain_vm
from tests.support.cli import say
from tests.support.incidents import (
    config as incident,
    escaping_node,
    node as incident_node,
    plan_installed,
)
from tests.support.nodes import block_of, nodes
from tests.support.programs import completed
from tests.support.sections import expect
from tests.support.tasks import CIDR, manager_of
from tests.support.topologies import cni_node

# What may be typed.

SLOW = {"attrs", "dataclasses", "inspect", "logging", "phases", "subprocess", "threading"}


@pytest.mark.parametrize("name", COMMANDS)
def test_help(name: str) -> None:
    """Each command says what it is for, and what its exit codes mean."""
    said = say(name, "--help")
    assert said.code == 0
    assert said.out.isascii()
    assert max(map(len, said.lines)) <= 80
    assert said.out == say(name, "-h").out

    first, rest = COMMANDS[name][0], COMMANDS[name][1:]
    assert f"{first.upper()}{rest}" in said.out.replace("\n", " ")
    usage, _, after_summary, *_ = said.out.split("\n\n")
    _, _, _, *words = re.findall(r"[\w-]+", usage)
    values = [word for word in words if not word.startswith("-")]
    assert {value for value in values if not value.isupper()} <= {"azure-vnet", "warning"}
    begins_a_section = after_summary.startswith(("options:", "positional"))
    assert after_summary[0].isupper() or begins_a_section

    _, _, example = said.out.partition(f"example:\n  hostrouting {name}")
    typed = shlex.split(f"{name}{example.splitlines()[0]}".partition(" > ")[0])
    make_parser(typed).parse_args(typed)

    assert "  1  a problem" in said.lines
    of_all_commands = say("--help")
    assert f"    {name} " in of_all_commands.out
    assert said.lines[-2:] == of_all_commands.lines[-2:], "the exit codes 2 and 3"


def test_the_help() -> None:
    """Whoever types --help in an incident reads what the words mean, and what to type next."""
    said = say("--help").out
    assert "\n  STRICT " in said
    assert "In trouble: hostrouting status" in said
    assert say("help").out == said
    assert say("help", "check").out == say("check", "--help").out
    assert say("--help", "check").out == said, "no command is meant"
    assert say("--version", "check").out == f"hostrouting {__version__}\n"
    # A paragraph of a command's help begins on a line of its own. The first one has the summary.
    assert "\n\nWith --confirm" in say("apply", "--help").out


@pytest.mark.linux
@pytest.mark.parametrize("words", ["--help", "chek", "check"])
def test_what_is_loaded(words: str) -> None:
    """Help and bad usage are answered before the configuration or a kernel is loaded; a check loads
    nothing slow.
    """
    code = f"from hostrouting.cli import main; main({words.split()})"
    unwanted = {"json", "ipaddress", "hostrouting.errors", *SLOW}
    if words == "check":
        needed = "hostrouting.cli.commands.check, hostrouting.host.host, hostrouting.kernel.netlink"
        code = f"import {needed}"
        unwanted = SLOW
    timed = completed([sys.executable, "-X", "importtime", "-c", code]).stderr
    loaded = {line.rpartition("|")[2].strip() for line in timed.splitlines()}
    assert "hostrouting.cli" in loaded
    assert unwanted & loaded == set()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("", "In trouble: hostrouting status"),
        ("explain", "required: ADDRESS"),
        ("apply", "required: --config"),
        (
            "explain 172.16.0.0/16",
            'ADDRESS: "172.16.0.0/16" is not an address; an example: 172.16.5.9',
        ),
        ("explain ::ffff:10.0.0.1", 'is IPv4, written as IPv6; write "10.0.0.1"'),
        ("explain 0.0.0.0", "is not the address of one host"),
        ("explain ff02::1", "is not the address of one host"),
        ("explain 255.255.255.255", "is not the address of one host"),
        ("status kubelet --metrics", "cannot be used with --json or UNIT"),
        ("check 172.16.5 x/8", "the command line has 2 faults:"),
        ("check --js", "usage: hostrouting check [-h]"),
        ("remove all", "hostrouting remove: error: unrecognized arguments: all"),
        ("clean cilium --config x", "invalid choice: 'cilium'"),
        ("check --ignore zzz", "invalid choice: 'zzz' (choose from 'overlap', 'refused', "),
        ("apply --config x --wait nan", "not between 0 and 86400"),
        ("apply --config x --wait 86401", "not between 0 and 86400"),
    ],
)
def test_bad_usage(words: str, problem: str) -> None:
    """Bad usage is exit code 2, and the problem is on standard error."""
    said = say(*words.split())
    assert said.code == 2
    assert said.out == ""
    assert problem in said.err


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("chek --jsn", "check --json"),
        ("repair --comands 10.0.0.0/8", "repair --commands 10.0.0.0/8"),
        ("check --ignore overlapp", "check --ignore overlap"),
        ("check --ignore=OVERLAPP --jsn", "check --ignore=overlap --json"),
        ("aply my/new.json --wait 9", "apply --config my/new.json --wait 9"),
        ("plan --gate=a.service new.json", "plan --gate=a.service --config new.json"),
        ("status kubelet --metric", "status kubelet --metrics"),
        ("hlep", "help"),
    ],
)
def test_typos(words: str, meant: str) -> None:
    """What was probably meant is the last line, as it is typed."""
    said = say(*words.split())
    assert said.code == 2
    assert said.out == ""
    assert said.err.splitlines()[-1] == f"did you mean: hostrouting {meant}"
    if meant != "help":
        typed = shlex.split(meant)
        make_parser(typed).parse_args(typed)


@pytest.mark.parametrize(
    "words",
    [
        "remove new.json",
        "explain",
        "explain --address 172.16.5.9",
    ],
)
def test_what_is_like_nothing(words: str) -> None:
    """Nothing is proposed."""
    assert "did you mean" not in say(*words.split()).err


# What is read.


@pytest.mark.parametrize(
    "words", ["plan --config", f"check {CIDR} --config", f"check {CIDR} --snapshot"]
)
@pytest.mark.parametrize("data", [None, b"{\xff}", b'{"a": 1}'])
def test_a_file_that_is_not_what_it_should_be(
    words: str, data: bytes | None, tmp_path: Path
) -> None:
    """Exit code 2; the error names the file, and has the same faults as a document."""
    path = tmp_path / "file.json"
    if data is not None:
        path.write_bytes(data)

    said = say(*words.split(), str(path))
    document = say(*words.split(), str(path), "--json").json

    assert said.code == 2
    assert said.out == ""
    assert str(path) in said.err
    [fault] = document["faults"]
    assert fault["rule"] in said.err


@pytest.mark.parametrize("words", ["plan --config", f"check {CIDR} --snapshot"])
def test_a_file_that_may_not_be_read(words: str) -> None:
    """Exit code 3, as for everything else that lacks a permission."""
    with mock.patch("builtins.open", side_effect=PermissionError(13, "Permission denied")):
        said = say(*words.split(), "file.json")
    assert said.err == "hostrouting: file.json cannot be read: Permission denied\n"
    assert said.code == 3


def test_a_device_that_is_typed() -> None:
    """`check --dev` expects it instead of the default route's, and so does the repair."""
    said = say("check", CIDR, "--dev", "ib0", kernel=h200())
    assert said.out.startswith("OK: every address of 172.16.0.0/16 leaves through ib0")
    said = say("check", CIDR, "--dev", "eth0", kernel=h200())
    assert f"  hostrouting repair {CIDR} --dev eth0 | hostrouting apply --config -" in said.lines
    refused = say("check", CIDR, "--dev", "a/b", kernel=h200())
    assert refused.code == 2
    assert "hostrouting: --dev:" in refused.err


def test_a_device_that_is_allowed() -> None:
    """`repair --allow` writes it beside those that the configuration allows, and a CIDR beside
    those that it expects.
    """
    known = json.dumps({"routeOverlap": {"expectedCidrs": [CIDR], "allowedDevs": ["tun0"]}})
    words = ("repair", "10.9.0.0/16", "--config", "-", "--allow", "ib*")
    said = say(*words, kernel=h200(), stdin=known.encode())
    assert said.code == 0
    assert said.json["routeOverlap"]["allowedDevs"] == ["tun0", "ib*"]
    assert said.json["routeOverlap"]["expectedCidrs"] == [CIDR, "10.9.0.0/16"]
    assert "staticRoutes" not in said.json
    refused = say(*words, "--allow", "", kernel=h200(), stdin=known.encode())
    assert refused.code == 2
    assert "hostrouting: --allow:" in refused.err


def test_an_empty_root(tmp_path: Path) -> None:
    """An empty --root, as of an unset variable, is not the current directory."""
    (tmp_path / "config.json").write_text("{}")
    said = say("render", "--config", str(tmp_path / "config.json"), "--root", "")
    assert said.err == "hostrouting: --root: '' is not a directory; mount the image there first\n"
    assert said.code == 2


def test_the_root_of_this_host_is_an_image_without_systemd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a chroot in which an image is made, / is the image. A page has the refusal elsewhere."""
    monkeypatch.setattr(os.path, "samefile", lambda *_: True)
    config = tmp_path / "config.json"
    config.write_text(json.dumps(incident()))
    image = tmp_path / "image"
    image.mkdir()
    host = FakeHost()
    manager_of(host).running = False
    said = say("render", "--config", str(config), "--root", str(image), host=host)
    assert said.code == 0
    assert [*image.iterdir()]


@pytest.mark.parametrize(
    ("words", "kernel", "proposal"),
    [
        ("check", h200, "repair --config ./-c.json | hostrouting apply --config -"),
        ("check", plain_vm, "apply --config ./-c.json --gate kubelet.service"),
    ],
)
def test_a_file_that_looks_like_an_option(
    words: str,
    kernel: Callable[[], FakeKernel],
    proposal: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The command that a page proposes can be typed."""
    monkeypatch.chdir(tmp_path)
    gate = {"units": ["systemd-nspawn@.service"]}
    (tmp_path / "-c.json").write_text(json.dumps(incident(gate=gate)))
    host = incident_node({"manageForeign": "keep"}, kernel)
    page = say(*words.split(), "--config=-c.json", host=host).out
    assert f" hostrouting {proposal}" in page
    assert " --config -c.json" not in page


def test_an_image_needs_root(tmp_path: Path) -> None:
    """Without root the files would belong to somebody who could then change what root runs: none is
    written.
    """
    config, image = tmp_path / "config.json", tmp_path / "image"
    config.write_text('{"routeOverlap": {"expectedCidrs": ["10.0.0.0/8"]}}')
    image.mkdir()
    words = ["render", "--config", str(config), "--root", str(image)]
    said = say(*words, host=FakeHost(rights=lambda: Rights(is_root=False)))
    assert said.code == 2
    assert said.out == ""
    assert [*image.iterdir()] == []
    assert "type the same as root" in said.err
    assert "another user" in said.err


# What is written on which stream, and the exit code.


@given(nodes(), st.frozensets(st.sampled_from(NAMES)))
def test_ignored_findings_do_not_count(node: tuple[int, Snapshot], ignored: frozenset[str]) -> None:
    """The exit code is the verdict's if nothing is ignored, never worse for what is, and 0 if all
    is.
    """
    family, snapshot = node
    config = HostRoutingConfig(route_overlap=expect(block_of(family)))
    check = HostCheck.of_snapshot(check_snapshot(snapshot, config), config)
    from_best_to_worst = [0, 3, 1]
    counted = {finding.name for finding in check.findings} - ignored

    verdicts_code = {"ok": 0, "overlap": 1}.get(check.report.verdict, 3)
    assert check.code() == verdicts_code
    assert from_best_to_worst.index(check.code(ignored)) <= from_best_to_worst.index(verdicts_code)
    assert check.code(NAMES) == 0
    if counted:
        all_others = {*NAMES} - counted
        assert check.code(ignored) == check.code(all_others)
    else:
        assert check.code(ignored) == 0


def test_warnings_as_errors(tmp_path: Path) -> None:
    """With --fail-on warning, a warning is exit code 1, unless it is ignored; plan and check alike.
    A name can also be typed as a page prints it, in capitals.
    """
    kernel = plain_vm()
    kernel.add_link(Link(name="eth1", index=0))
    kernel.add_address("eth1", "192.168.1.2/24")
    second_default = Route.to("0.0.0.0/0", dev="eth1", gateway="192.168.1.1", metric=200)
    kernel.ip_route("add", second_default)
    saved = tmp_path / "node.json"
    saved.write_text(kernel.snapshot().to_json())
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"routeOverlap": {"expectedCidrs": [CIDR]}}))
    for command in ("check", "plan"):
        words = (command, "--config", str(config), "--snapshot", str(saved))
        assert say(*words).code == 0
        assert say(*words, "--fail-on", "warning").code == 1
        assert say(*words, "--fail-on", "WARNING", "--ignore", "DEFAULT-ROUTES").code == 0


@pytest.mark.parametrize(("option", "place"), [("--snapshot", "node.json"), ("--snapshots", "")])
def test_what_is_installed_here_is_not_about_other_hosts(
    option: str, place: str, tmp_path: Path
) -> None:
    """What they expect has to be typed, or to be in a file; of this host it is known."""
    (tmp_path / "node.json").write_text(plain_vm().snapshot().to_json())
    host = escaping_node()
    assert say("check", host=host).code == 1
    elsewhere = say("check", option, str(tmp_path / place), host=host)
    assert elsewhere.code == 2
    assert "no expected CIDR is given" in elsewhere.err


def test_a_note_is_no_error() -> None:
    """With --fail-on warning, what is allowed is still fine."""
    words = ("check", "10.244.0.0/24", "--fail-on", "warning")
    assert say(*words, kernel=cni_node()).code == 0
    [note] = say(*words, "--json", kernel=cni_node()).json["findings"]
    assert note["severity"] == "note"


def test_a_plan_that_need_not_fail() -> None:
    """What apply would fail for is to be ignored, too."""
    host = escaping_node()
    failing = plan_installed(host).lines
    assert failing[0] == "WOULD FAIL: addresses escape, and the mode is STRICT"
    assert failing[-2:] == [
        "To repair that, as root:",
        "  hostrouting repair --config - | hostrouting apply --config -",
    ]
    planned = plan_installed(host, "--ignore", "overlap")
    assert planned.code == 0
    assert planned.lines[0].startswith("NOTHING TO DO")


@pytest.mark.parametrize("name", ["my config.json", "-"])
def test_a_proposed_file_can_be_typed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name is quoted for a shell; standard input has none."""
    monkeypatch.chdir(tmp_path)
    text = json.dumps({"routeOverlap": {"expectedCidrs": [CIDR]}})
    Path("my config.json").write_text(text)
    said = say("plan", "--config", name, stdin=text.encode(), kernel=plain_vm())
    rest = said.lines[0].removeprefix("TO DO: as root: ")
    if name == "-":
        assert rest == "the same command with apply instead of plan"
    else:
        assert shlex.split(rest) == ["hostrouting", "apply", "--config", name]


def test_a_plan_of_options_that_are_typed(tmp_path: Path) -> None:
    """The command has them, too: without the consent, `apply` would refuse. Units that are typed
    come behind those of the file, each once.
    """
    file = tmp_path / "config.json"
    overlap = {"expectedCidrs": [CIDR]}
    file.write_text(json.dumps({"routeOverlap": overlap, "gate": {"units": ["z.service"]}}))
    options = ["--gate", "a.service", "--gate", "z.service", "--allow-removal"]
    host = FakeHost(kernel=plain_vm())
    said = say("plan", "--config", str(file), *options, host=host)
    command = said.lines[0].removeprefix("TO DO: as root: ")
    assert command == shlex.join(["hostrouting", "apply", "--config", str(file), *options])
    assert say(*shlex.split(command)[1:], host=host).code == 0
    assert read_installed(host).gate == GateConfig(("z.service", "a.service"))


def host_that_raises(error: BaseException) -> FakeHost:
    """A host whose kernel cannot be asked."""
    return FakeHost(backend=mock.Mock(side_effect=error))


def test_a_bug_a_refusal_and_an_interrupt() -> None:
    """A bug shows where it is; a refusal is one line, and so is Ctrl-C, with the exit code of a
    shell.
    """
    bug = say("check", CIDR, host=host_that_raises(ZeroDivisionError("oops")))
    assert bug.code == 3
    assert bug.out == ""
    assert "ZeroDivisionError: oops" in bug.err

    missing_right = BackendError("this requires root", kind="not-permitted")
    refusal = say("check", CIDR, host=host_that_raises(missing_right))
    assert refusal == (3, "", "hostrouting: this requires root\n")

    interrupt = say("check", CIDR, host=host_that_raises(KeyboardInterrupt()))
    assert interrupt == (130, "", "hostrouting: interrupted\n")


def test_a_run_under_nohup() -> None:
    """It goes on when its terminal is closed."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        say("remove")
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


FULL = "hostrouting: the answer could not be written: No space left on device\n"


class Unwritable(io.StringIO):
    """A standard output that takes nothing."""

    def __init__(self, number: int) -> None:
        """The number of the error."""
        super().__init__()
        self._error = OSError(number, os.strerror(number))

    def flush(self) -> None:
        """Fail as Linux does: until then, what was written is in a buffer."""
        raise self._error


@pytest.mark.parametrize(
    ("number", "code", "written", "remark"),
    [
        (errno.ENOSPC, 0, 1, FULL),
        (errno.ENOSPC, 3, 3, FULL),
        (errno.EPIPE, 0, 0, ""),
    ],
)
def test_an_answer_that_cannot_be_written(
    *,
    number: int,
    code: int,
    written: int,
    remark: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A full disk is a failure, and does not hide what is wrong with the host; a reader who goes
    away is not one, and there is no complaint.
    """
    monkeypatch.setattr(sys, "stdout", Unwritable(number))
    assert write(Answer(code, {}, ["a line"]), as_json=False) == written
    assert capsys.readouterr().err == remark


def test_what_a_stream_cannot_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """What its encoding does not have is escaped, and so is what steers a terminal, in a command as
    in the words before it.
    """
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    line = LineToType("by \N{SNOWMAN}0: ", "ip link del a\x1b[2J")
    assert write(Answer(0, {}, [line]), as_json=False) == 0
    assert written.getvalue() == b"by \\u26030: ip link del a\\x1b[2J\n"


# The second one separates lines for Python.
@pytest.mark.parametrize("odd", ["\x1b[31m", "\u2028"])
def test_names_do_not_steer_the_terminal(odd: str) -> None:
    """Control characters in a device's name are shown as text."""
    escaped = ascii(odd)[1:-1]
    text = say("snapshot", kernel=h200()).out.replace('"ib0"', json.dumps(f"ib{odd}"))
    for words in (("check", CIDR), ("explain", "172.16.5.9"), ("check", CIDR, "--json")):
        assert odd not in say(*words, "--snapshot", "-", stdin=text.encode()).out
    kernel = plain_vm()
    kernel.add_link(Link(name=f"br{odd}", index=0, kind="bridge"))
    kernel.add_link(Link(name="eth9", index=0, master=f"br{odd}"))
    probes = b'{"probeRewrite": {"enabled": true, "interfaces": ["eth9"]}}'
    applied = say("apply", "--config", "-", kernel=kernel, stdin=probes)
    assert f"eth9 is a port of br{escaped}, where its packets arrive, so no rule" in applied.out

    raises = host_that_raises(BackendError(f"ib{odd} is down"))
    failed = say("apply", "--config", "-", host=raises, stdin=probes).out
    assert failed.startswith(f"FAILED: ib{escaped} is down")


PROGRAM = [sys.executable, "-m", "hostrouting"]
WITHOUT_RICH = """
import sys
sys.modules["rich.console"] = None
from hostrouting.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.linux
class TestAsAProgram:
    """The program in a process of its own, with a saved snapshot."""

    @pytest.fixture(autouse=True)
    def buffered(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Some containers set this variable. Python then has nothing left to write when it ends."""
        monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)

    @pytest.fixture
    def command(self, tmp_path: Path) -> list[str]:
        """The check of an H200 node."""
        saved = tmp_path / "node.json"
        saved.write_text(h200().snapshot().to_json())
        return [*PROGRAM, "check", CIDR, "--snapshot", str(saved)]

    @pytest.mark.parametrize(("no_colour", "rich"), [("", True), ("1", True), ("", False)])
    def test_a_terminal(self, command: list[str], no_colour: str, *, rich: bool) -> None:
        """A terminal has colours if rich is installed and NO_COLOR is not set; all else is the
        same.
        """
        plain = completed(command).stdout.replace(shlex.join(PROGRAM), "hostrouting")
        if not rich:
            words = command[len(PROGRAM) :]
            command = [sys.executable, "-c", WITHOUT_RICH, *words]
        terminal = {"TERM": "xterm-256color", "COLUMNS": "200", "LC_ALL": "C.UTF-8"}
        environment = {**os.environ, **terminal, "NO_COLOR": no_colour}
        ours, theirs = pty.openpty()

        with subprocess.Popen(command, stdout=theirs, env=environment) as program:
            assert program.wait(60) == 1
        os.close(theirs)
        shown = os.read(ours, 65536).decode().replace("\r\n", "\n")
        os.close(ours)

        is_coloured = "\x1b[1;31m" in shown
        assert is_coloured is (rich and not no_colour)
        without_colours = re.sub(r"\x1b\[[0-9;]*m", "", shown)
        assert without_colours.replace(shlex.join(PROGRAM), "hostrouting") == plain

    @pytest.mark.parametrize(
        ("where", "code", "remark"),
        [("| true", 0, ""), (">&-", 0, ""), ("2>&-", 0, ""), (">/dev/full", 1, FULL)],
    )
    def test_an_answer_that_goes_nowhere(
        self, command: list[str], where: str, code: int, remark: str
    ) -> None:
        """Nor does Python complain when it ends."""
        fine = shlex.join(command).replace(CIDR, "10.0.0.0/24")
        done = completed(["bash", "-c", f"{fine} {where}; exit ${{PIPESTATUS[0]}}"])
        assert (done.returncode, done.stderr) == (code, remark)


def test_a_service_at_boot_makes_its_part() -> None:
    """The command of the service hands its word and its exit code on."""
    with mock.patch("hostrouting.cli.commands.boot.run_service", return_value=1) as run_service:
        code, _, _ = say("boot", "probes")
    run_service.assert_called_once_with("probes")
    assert code == 1
