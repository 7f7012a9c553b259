"""From arguments to an exit code, and what is written on which stream."""

import io
import json
import logging
import os
import shlex
import signal
import sys
import tempfile
from pathlib import Path
from unittest import mock

import pytest

from hostrouting import cli
from hostrouting.boot.program import sources_digest
from hostrouting.cli.output import Page, write
from hostrouting.cli.parser import COMMANDS
from hostrouting.errors import BackendError
from hostrouting.host.layout import HostLayout
from hostrouting.release import __version__
from hostrouting.testing import FakeHost, h200, plain_vm
from tests.support.cli import say
from tests.support.incidents import escaping_node
from tests.support.node import REPAIRED
from tests.support.programs import completed, modules_loaded_by
from tests.support.statuses import right
from tests.support.tasks import CIDR
from tests.support.topologies import vm_of, with_docker

PROGRAM = [sys.executable, "-m", "hostrouting"]

# What may be typed.


def test_the_help() -> None:
    """Whoever types --help in an incident reads what the words mean, and what to type next."""
    said = say("--help").out
    assert "\n  STRICT " in said
    assert "In trouble:\n  hostrouting status\n" in said
    assert say("--version").out == f"hostrouting {__version__} (sources {sources_digest()[:12]})\n"
    for command in COMMANDS:
        assert max(map(len, say(command, "--help").lines)) < 80


@pytest.mark.linux
def test_what_the_help_loads() -> None:
    for words in ("--help", "check --js"):
        loaded = modules_loaded_by([*PROGRAM, *words.split()])
        assert "hostrouting.cli.parser" in loaded
        assert loaded & {"json", "ipaddress", "hostrouting.errors", "hostrouting.host"} == set()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("", "required: COMMAND"),
        ("apply", "required: --config"),
        ("check 172.16.5 x/8", "the command line has 2 faults:"),
        ("check --js", "unrecognized arguments: --js"),
        (
            "check 10.0.0.0/8 --snapshot a --snapshots b",
            "argument --snapshots: not allowed with argument --snapshot",
        ),
        ("status --metrics --json", "argument --json: not allowed with argument --metrics"),
        ("check 10.0.0.0/8 --dev a/b", "hostrouting: the command line: --dev:"),
        ("repair 10.0.0.0/8 --allow a/b", "hostrouting: the command line: --allow:"),
        ("clean cilium --config x", "invalid choice: 'cilium'"),
        (
            "render --config - --root ''",
            "hostrouting: --root is not the folder of an image; mount ",
        ),
        ("render --config - --root /..", "--root: /.. is not the folder of an image"),
        ("render --config - --root /bin/sh", "--root: /bin/sh is not the folder of an image"),
        ("status ''", "hostrouting: UNIT is empty; name a unit\n"),
        ("apply --config x --wait nan", "not between 0 and 86400"),
        ("apply --config x --wait 86400 --confirm 86401", "argument --confirm: 86401 is not "),
    ],
)
def test_bad_usage(words: str, problem: str) -> None:
    said = say(*shlex.split(words), stdin=b"{}")
    assert (said.code, said.out) == (2, "")
    assert problem in said.err


# What is read.


@pytest.mark.parametrize(
    "words", ["plan --config", f"check {CIDR} --config", f"check {CIDR} --snapshot"]
)
@pytest.mark.parametrize("data", [None, b"{\xff}", b'{"guard": {}, "a": 1}'])
def test_a_file_that_is_not_what_it_should_be(
    words: str, data: bytes | None, tmp_path: Path
) -> None:
    """The error names the file, and has the same faults as a document."""
    path = tmp_path / "file.json"
    if data is not None:
        path.write_bytes(data)
    said = say(*words.split(), str(path))
    assert (said.code, said.out) == (2, "")
    assert str(path) in said.err
    assert say(*words.split(), "").err.startswith("hostrouting: '' cannot be read: ")
    [fault] = say(*words.split(), str(path), "--json").json["faults"]
    assert fault["rule"] in said.err


def test_a_file_that_may_not_be_read() -> None:
    """As for everything else that lacks a permission, there is no answer."""
    with mock.patch("builtins.open", side_effect=PermissionError(13, "Permission denied")):
        said = say("plan", "--config", "file.json")
    assert said == (3, "", "hostrouting: file.json cannot be read: Permission denied\n")


def test_a_device_that_is_typed() -> None:
    """`check --dev` expects it instead of the default route's, and so does the repair."""
    said = say("check", CIDR, "--dev", "ib0", kernel=h200())
    assert said.out.startswith("OK: every address of 172.16.0.0/16 leaves through ib0")
    said = say("check", CIDR, "--dev", "eth0", kernel=h200())
    assert f"  hostrouting repair {CIDR} --dev eth0 | hostrouting apply --config -" in said.lines
    two_defaults = vm_of("default via 10.1.0.1 dev eth1 metric 100").to_json().encode()
    said = say("repair", CIDR, "--snapshot", "-", stdin=two_defaults)
    assert said.err.count("it is unclear whether") == 1
    of_a_cni = vm_of("link cali1 veth; 172.16.7.0/26 via 10.1.0.9 dev eth1 proto 12")
    said = say("check", CIDR, "--snapshot", "-", stdin=of_a_cni.to_json().encode())
    assert said.out.count("--allow eth1") == 1, "with what Calico may know"


@pytest.mark.parametrize("given", ["-", "/dev/fd/{}", "/proc/self/fd/{}", "{1}"])
def test_a_configuration_that_is_piped(given: str) -> None:
    """It cannot be read again, so the proposed command needs it in a file, such as in /dev/shm."""
    piped = b'{"routeOverlap": {"serviceCidrs": ["172.16.0.0/12"], "mode": "STRICT"}}'
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        file.write(piped)
        file.seek(0)
        path = given.format(file.fileno(), file.name)
        name = path if path == file.name else "FILE"
        said = say("check", "--config", path, kernel=with_docker(), stdin=piped)
    line = f"hostrouting repair --config {name} | hostrouting apply --config -"
    assert f"  {line}" in said.lines
    assert "--allow" not in said.out, "not in mode STRICT"


def test_a_device_that_is_allowed() -> None:
    """`repair --allow` writes it beside what is configured; a device of --dev replaces others."""
    section = {"expectedCidrs": [CIDR], "expectedDevs": ["eth7"], "allowedDevs": ["tun0"]}
    stdin = json.dumps({"routeOverlap": section}).encode()
    words = "repair 172.17.0.0/16 --config - --dev eth0 --allow docker0 --allow tun0"
    said = say(*words.split(), kernel=with_docker(), stdin=stdin)
    assert said.code == 0
    section = {"expectedCidrs": [CIDR, "172.17.0.0/16"], "expectedDevs": ["eth0"]}
    assert said.json == {"routeOverlap": section | {"allowedDevs": ["tun0", "docker0"]}}
    assert said.err.startswith("hostrouting: with this configuration, nothing escapes now")


def test_two_failures_with_one_remedy() -> None:
    """The page shows it once, below the last of them."""
    said = say("plan", "--config", "-", host=right(), stdin=b'{"manageForeign": "keep"}')
    first, second, *_ = said.lines
    assert first.startswith("WOULD FAIL: ")
    assert second.startswith("REMOVAL: ")
    assert said.out.count("keep this in the configuration") == 1


def test_render_takes_no_protection_away(tmp_path: Path) -> None:
    """An agent that failed to read its own leaves an image gated, unless that is allowed."""
    drop_in = tmp_path / HostLayout.drop_in_path("kubelet.service").lstrip("/")
    words = ("render", "--config", "-", "--root", str(tmp_path))
    say(*words, stdin=json.dumps(REPAIRED.to_mapping()).encode())
    said = say(*words, stdin=b"{}")
    assert said.code == 2
    assert said.out.startswith("FAILED: this would remove protection")
    assert said.out.count("would no longer be checked") == 1
    assert drop_in.exists()
    assert say(*words, "--allow-removal", stdin=b"{}").code == 0
    assert not drop_in.exists()


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


# What is written on which stream, and the exit code.


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (BackendError("this requires root", kind="not-permitted"), 3, "this requires root\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (ZeroDivisionError("oops"), 3, "if a module is missing, "),
    ],
)
def test_what_ends_a_command(error: BaseException, code: int, message: str) -> None:
    """Without an answer; a bug shows where it is."""
    said = say("check", CIDR, host=FakeHost(backend=mock.Mock(side_effect=error)))
    assert (said.code, said.out) == (code, "")
    assert said.err.startswith(f"hostrouting: {message}")
    assert ("ZeroDivisionError: oops" in said.err) is isinstance(error, ZeroDivisionError)


def test_a_terminal_that_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends a run as SIGTERM does, unless nohup has the signal ignored."""
    monkeypatch.setattr(cli, "main", lambda: 0)
    monkeypatch.setattr("gc.set_threshold", lambda _: None)
    before = signal.getsignal(signal.SIGHUP)
    terminate = mock.Mock()
    of_sigterm = signal.signal(signal.SIGTERM, terminate)
    try:
        for action, times in ((signal.SIG_IGN, 0), (signal.SIG_DFL, 1)):
            signal.signal(signal.SIGHUP, action)
            cli.run()
            signal.raise_signal(signal.SIGHUP)
            assert terminate.call_count == times
    finally:
        signal.signal(signal.SIGHUP, before)
        signal.signal(signal.SIGTERM, of_sigterm)


def test_what_a_stream_cannot_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """What its encoding lacks is escaped, and so is what steers a terminal or separates lines."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    lines = ["by \N{SNOWMAN}0: ip link del a\x1b[2J\u2028", "a\nb"]
    assert write(Page(0, {}, lines), as_json=False) == 0
    assert written.getvalue() == b"by \\u26030: ip link del a\\x1b[2J\\u2028\na\nb\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "is_coloured"),
    [({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False), ({}, False)],
)
def test_the_first_words_on_a_terminal(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, *, is_coloured: bool
) -> None:
    plain = "OK: fine\nTO DO:\n  fe80::1: no\na: b\nDONE\n"
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    with mock.patch.dict(os.environ, {"TERM": "dumb", **environment}):
        write(Page(0, {}, plain.splitlines()), as_json=False)
    coloured = plain.replace("OK", "\x1b[1;32mOK\x1b[0m").replace("TO DO", "\x1b[1;33mTO DO\x1b[0m")
    assert terminal.getvalue() == (coloured if is_coloured else plain)


def test_what_is_logged_does_not_steer_the_terminal() -> None:
    host = FakeHost(kernel=h200())
    log = logging.getLogger("phases")
    host.faults.meanwhile("snapshot", lambda: log.warning("ib\x1b[31m\nis down"))
    assert say("remove", host=host).err == "ib\\x1b[31m\nis down\n"


COMPLETE = """
eval "$(register-python-argcomplete hostrouting)"
for COMP_LINE in 'ch' 'apply --con' 'plan --config new'; do
  COMP_LINE="hostrouting $COMP_LINE" COMP_TYPE=9 COMPREPLY=()
  COMP_POINT=${#COMP_LINE}
  _python_argcomplete hostrouting
  echo "${COMPREPLY[@]}"
done
"""


@pytest.mark.linux
def test_tab(tmp_path: Path) -> None:
    (tmp_path / "new.json").touch()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = completed(["bash", "-c", COMPLETE], cwd=tmp_path, env={**os.environ, "PATH": path})
    assert done.stdout == "check \n--config --confirm\nnew.json \n", done.stderr


@pytest.mark.linux
@pytest.mark.parametrize("where", ["| true", ">&-", "2>&-"])
def test_an_answer_that_goes_nowhere(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does Python complain when it ends, if it still has something to write then."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    saved = tmp_path / "node.json"
    saved.write_text(h200().snapshot().to_json())
    fine = shlex.join([*PROGRAM, "check", "10.0.0.0/24", "--snapshot", str(saved)])
    done = completed(["bash", "-c", f"{fine} {where}; exit ${{PIPESTATUS[0]}}"])
    assert (done.returncode, done.stderr) == (0, "")


WAITS = """
import sys
from hostrouting.cli import main
from hostrouting.testing import FakeHost, FakeKernel
sys.exit(main(["apply", "--config", "-", "--wait", "0.2"], host=FakeHost(kernel=FakeKernel())))
"""
NEEDS_A_DEFAULT_ROUTE = (
    '{"staticRoutes": {"enabled": true, "routes": [{"destination": "9.0.0.0/8"}]}}'
)


@pytest.mark.linux
@pytest.mark.parametrize(
    ("words", "where", "code"),
    [
        (["check", "172.16.0.0/16", "--snapshot", "-"], ">/dev/full", 3),
        (["check", "172.16.0.0/16", "--snapshot", "-", "--json"], ">/dev/full", 3),
        (["--version"], ">/dev/full", 3),
        (["check", "foo"], "2>/dev/full", 2),
        (["check", "foo"], "2>&1 >/dev/null | true", 2),
        (["repair", "10.0.0.0/24", "--snapshot", "-"], "2>/dev/full", 0),
        ([], "2>/dev/full", 3),
    ],
)
def test_an_answer_that_cannot_be_written(
    words: list[str], where: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its exit code is no verdict's; what cannot be remarked or logged changes no exit code."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    program = shlex.join([*PROGRAM, *words] if words else [sys.executable, "-c", WAITS])
    given = h200().snapshot().to_json() if words else NEEDS_A_DEFAULT_ROUTE
    done = completed(["bash", "-c", f"{program} {where}; exit ${{PIPESTATUS[0]}}"], input=given)
    why = "hostrouting: the answer cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (code, why if where == ">/dev/full" else "")
