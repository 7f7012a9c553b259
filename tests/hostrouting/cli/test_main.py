"""From arguments to an exit code, and what is written on which stream."""

import io
import json
import os
import pty
import re
import shlex
import signal
import sys
from contextlib import suppress
from pathlib import Path
from unittest import mock

import pytest

from hostrouting.boot.program import sources_digest
from hostrouting.cli.output import Page, write
from hostrouting.errors import BackendError
from hostrouting.host.layout import HostLayout
from hostrouting.model.route import Route
from hostrouting.model.snapshot import Link
from hostrouting.release import __version__
from hostrouting.testing import FakeHost, h200, plain_vm
from tests.support.cli import say
from tests.support.incidents import (
    escaping_node,
)
from tests.support.node import REPAIRED
from tests.support.programs import completed, modules_loaded_by
from tests.support.tasks import CIDR
from tests.support.topologies import with_docker

PROGRAM = [sys.executable, "-m", "hostrouting"]

# What may be typed.


def test_the_help() -> None:
    """Whoever types --help in an incident reads what the words mean, and what to type next."""
    said = say("--help").out
    assert "\n  STRICT " in said
    assert "In trouble:\n  hostrouting status\n" in said
    assert say("--version").out == f"hostrouting {__version__} (sources {sources_digest()[:12]})\n"
    assert "\n\nWith --confirm" in say("apply", "--help").out


@pytest.mark.linux
def test_what_the_help_loads() -> None:
    """Help and bad usage are answered before the configuration or a kernel is loaded."""
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
        ("remove all", "unrecognized arguments: all"),
        ("clean cilium --config x", "invalid choice: 'cilium'"),
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


# What is read.


@pytest.mark.parametrize(
    "words", ["plan --config", f"check {CIDR} --config", f"check {CIDR} --snapshot"]
)
@pytest.mark.parametrize("data", [None, b"{\xff}", b'{"guard": {}, "a": 1}'])
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
    """`check` says how, and `repair --allow` writes it beside what is configured."""
    kernel = with_docker()
    shown = say("check", "172.17.0.0/16", kernel=kernel)
    assert shown.lines[-2:] == [
        "If packets may leave through docker0, too, as root:",
        "  hostrouting repair 172.17.0.0/16 --allow docker0 | hostrouting apply --config -",
    ]
    known = json.dumps({"routeOverlap": {"expectedCidrs": [CIDR], "allowedDevs": ["tun0"]}})
    words = ("repair", "172.17.0.0/16", "--config", "-", "--allow", "docker0")
    said = say(*words, kernel=kernel, stdin=known.encode())
    assert said.code == 0
    assert said.json["routeOverlap"]["allowedDevs"] == ["tun0", "docker0"]
    assert said.json["routeOverlap"]["expectedCidrs"] == [CIDR, "172.17.0.0/16"]
    assert "staticRoutes" not in said.json
    refused = say(*words, "--allow", "", kernel=kernel, stdin=known.encode())
    assert refused.code == 2
    assert "hostrouting: --allow:" in refused.err


def test_the_second_card_of_a_cni_may_be_allowed() -> None:
    """The CNI knows its pods there, and the default gateway need not: that comes before routes."""
    kernel = plain_vm()
    for link in (Link("eth1", index=0), Link("cali1", index=0, kind="veth")):
        kernel.add_link(link)
    kernel.add_address("eth1", "192.168.21.5/24")
    by_eth1 = Route.to("10.41.7.0/26", dev="eth1", gateway="192.168.21.6", protocol=12)
    kernel.ip_route("add", by_eth1)
    lines = say("check", "10.41.0.0/16", kernel=kernel).lines
    [allowing] = [line for line in lines if "--allow eth1 | hostrouting apply" in line]
    assert "if Calico reaches them through eth1" in allowing
    assert lines.index(allowing) < lines.index("Permanently, as root on the node:")


@pytest.mark.parametrize(("root", "shown"), [("", ""), ("/", ": /"), ("/nowhere", ": /nowhere")])
def test_a_root_that_is_not_an_images(root: str, shown: str, tmp_path: Path) -> None:
    """An empty --root is not the current directory, and this machine is not an image."""
    (tmp_path / "config.json").write_text("{}")
    said = say("render", "--config", str(tmp_path / "config.json"), "--root", root)
    rule = "is not the folder of an image"
    assert said.err == f"hostrouting: --root{shown} {rule}; mount the image there first\n"
    assert said.code == 2


def test_render_takes_no_protection_away(tmp_path: Path) -> None:
    """An agent that failed to read its own leaves an image gated, unless that is allowed."""
    image = tmp_path / "image"
    image.mkdir()
    full = tmp_path / "full.json"
    full.write_text(json.dumps(REPAIRED.to_mapping()))
    empty = tmp_path / "empty.json"
    empty.write_text("{}")
    assert say("render", "--config", str(full), "--root", str(image)).code == 0
    drop_in = image / HostLayout.drop_in_path("kubelet.service").lstrip("/")
    said = say("render", "--config", str(empty), "--root", str(image))
    assert said.code == 2
    assert said.out.startswith("FAILED: this would remove protection")
    assert drop_in.exists()
    said = say("render", "--config", str(empty), "--root", str(image), "--allow-removal")
    assert said.code == 0
    assert not drop_in.exists()


# What is written on which stream, and the exit code.


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


def host_that_raises(error: BaseException) -> FakeHost:
    """A host whose kernel cannot be asked."""
    return FakeHost(backend=mock.Mock(side_effect=error))


def test_a_bug_a_refusal_and_an_interrupt() -> None:
    """A bug shows where it is; a refusal is one line, and so is Ctrl-C."""
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


def test_what_a_stream_cannot_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """What its encoding lacks is escaped, and so is what steers a terminal."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    line = "by \N{SNOWMAN}0: ip link del a\x1b[2J"
    assert write(Page(0, {}, [line]), as_json=False) == 0
    assert written.getvalue() == b"by \\u26030: ip link del a\\x1b[2J\n"


@pytest.mark.linux
@pytest.mark.parametrize(("environment", "is_coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_the_first_words_on_a_terminal(environment: dict[str, str], *, is_coloured: bool) -> None:
    """They are in colour, unless nobody wants that; elsewhere, nothing is."""
    code = (
        "from hostrouting.cli.output import Page, write\n"
        "lines = ['OK: fine', 'TO DO:', '  fe80::1: no', 'a: b']\n"
        "write(Page(0, {}, lines), as_json=False)"
    )
    plain = "OK: fine\nTO DO:\n  fe80::1: no\na: b\n"
    words = [sys.executable, "-c", code]
    assert completed(words).stdout == plain
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update({"TERM": "xterm", **environment})
        os.execv(sys.executable, words)  # noqa: S606  as in a terminal
    written = b""
    with suppress(OSError):  # how Linux says that the other end is closed
        while True:
            written += os.read(terminal, 4096)
    os.close(terminal)
    os.waitpid(child, 0)
    shown = written.decode().replace("\r\n", "\n")
    assert ("\x1b[1;32mOK\x1b[0m: fine\n" in shown) is is_coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", shown) == plain


# The second one separates lines for Python.
@pytest.mark.parametrize("odd", ["\x1b[31m", "\u2028"])
def test_names_do_not_steer_the_terminal(odd: str) -> None:
    """Control characters in a device's name are shown as text."""
    escaped = ascii(odd)[1:-1]
    text = say("snapshot", kernel=h200()).out.replace('"ib0"', json.dumps(f"ib{odd}"))
    for words in (("check", CIDR), ("check", CIDR, "--json")):
        assert odd not in say(*words, "--snapshot", "-", stdin=text.encode()).out
    probes = b'{"probeRewrite": {"enabled": true, "interfaces": ["eth9"]}}'
    raises = host_that_raises(BackendError(f"ib{odd} is down"))
    failed = say("apply", "--config", "-", host=raises, stdin=probes).out
    assert failed.startswith(f"FAILED: ib{escaped} is down")


COMPLETE = """
eval "$(register-python-argcomplete hostrouting)"
COMP_POINT=${#COMP_LINE} COMP_TYPE=9 COMPREPLY=()
_python_argcomplete hostrouting
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.linux
@pytest.mark.parametrize(
    ("line", "completed_by"),
    [
        ("hostrouting ch", ["check "]),
        ("hostrouting apply --con", ["--config", "--confirm"]),
        ("hostrouting plan --config new", ["new.json "]),
    ],
)
def test_tab(line: str, completed_by: list[str], tmp_path: Path) -> None:
    """A shell completes commands, options and files."""
    (tmp_path / "new.json").touch()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COMP_LINE": line}
    done = completed(["bash", "-c", COMPLETE], cwd=tmp_path, env=environment)
    assert done.stdout.splitlines() == completed_by, done.stderr


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
