"""Configurations and snapshots that cannot be read: each has its sentence, and exit code 2."""

import os
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hostrouting.testing import h200
from tests.support.cli import say
from tests.support.programs import completed

BAD_FILES: dict[str, tuple[Any, str, str]] = {
    "missing": (None, "cannot be read: No such file or directory", "cannot be read: No such file or directory"),
    "a directory": (..., "Is a directory", "Is a directory"),
    "not JSON": (b"{", "JSON", "is not JSON"),
    "deep": (b"[" * 100_000, "nested", "is not JSON"),
    "another document": (b"[]", "", "must be 'hostrouting/snapshot/1'"),
}


@pytest.mark.parametrize("name", BAD_FILES)
@pytest.mark.parametrize("kind", ["config", "snapshot"])
def test_bad_files(name: str, kind: str, tmp_path: Path) -> None:
    """An invalid configuration or snapshot gives exit code 2; the error names the file, the place and the fault."""
    data, of_config, of_snapshot = BAD_FILES[name]
    path = tmp_path / "file.json"
    if data is ...:
        path.mkdir()
    elif data is not None:
        path.write_bytes(data)
    words = ("plan", "--config", str(path)) if kind == "config" else ("check", "--snapshot", str(path), "10.0.0.0/8")
    said = say(*words)
    assert said.code == 2
    assert not said.out
    assert (of_config if kind == "config" else of_snapshot) in said.err
    assert [fault["rule"] in said.err for fault in say(*words, "--json").json["faults"]] == [True]
    assert say(*words, "--json").json["schema"] == "hostrouting/error/2"


@pytest.mark.parametrize(
    "words", [("plan", "--config"), ("check", "10.0.0.0/8", "--snapshot"), ("check", "10.0.0.0/8", "--snapshots")]
)
def test_a_huge_file(words: tuple[str, ...], tmp_path: Path) -> None:
    """A file far too large to be a configuration or a snapshot is not read beyond the limit.

    Kills: a limit of 1 GiB for a snapshot, which takes three times as much memory.
    """
    path = tmp_path / "file.json"
    with path.open("wb") as stream:
        stream.truncate(1 << 40)
    said = say(*words, str(path))
    assert said.code == 2
    assert "is larger than 64 MiB" in said.err + said.out


def test_a_snapshot_with_a_fault_is_named(tmp_path: Path) -> None:
    """The error about a snapshot names the file and the place; for another kind of file it has the remedy."""
    path = tmp_path / "node.json"
    path.write_text(say("snapshot", kernel=h200()).out.replace('"ib0"', "7", 1))
    assert f"{path}: links[" in say("check", "--snapshot", str(path), "10.0.0.0/8").err
    path.write_text("{}")
    assert "save one with: hostrouting snapshot > FILE" in say("check", "--snapshot", str(path), "10.0.0.0/8").err
    assert "standard input: is empty" in say("check", "--snapshot", "-", "10.0.0.0/8").err


def test_a_device_is_no_snapshot() -> None:
    """A source without an end is not read."""
    said = say("check", "--snapshot", "/dev/zero", "10.0.0.0/8")
    assert said.code == 2
    assert "/dev/zero: is larger than 64 MiB" in said.err


@pytest.mark.linux
@pytest.mark.parametrize(
    "shell", ["{check} <({slow})", "{slow} | {check} /dev/stdin", "{slow} >{pipe} & {check} {pipe}"]
)
def test_a_pipe_whose_writer_is_slow(shell: str, tmp_path: Path) -> None:
    """A writer that has the pipe open may be slow, as ssh is when it asks for a password."""
    node, pipe = tmp_path / "node.json", tmp_path / "pipe"
    node.write_text(say("snapshot", kernel=h200()).out)
    os.mkfifo(pipe)
    slow = f"(sleep 0.7; head -c 1000 {node}; sleep 0.3; tail -c +1001 {node})"
    check = shlex.join([sys.executable, "-m", "hostrouting", "check", "172.16.0.0/16", "--snapshot"])
    done = completed(["bash", "-c", shell.format(check=check, slow=slow, pipe=pipe)])
    assert (done.returncode, done.stdout.partition(":")[0]) == (1, "OVERLAP")


@pytest.mark.parametrize("command", ["check", "repair", "plan", "apply", "explain", "render"])
def test_a_configuration_from_standard_input(command: str, repaired: str, tmp_path: Path) -> None:
    """Each command that takes a configuration takes it from standard input, too, and answers as it does of a file."""
    words = {"explain": ["172.16.5.9"], "render": ["--root", str(tmp_path / "image")]}.get(command, [])
    text = Path(repaired).read_bytes()
    answers = []
    for config, stdin in ((repaired, b""), ("-", text)):
        (tmp_path / "image").mkdir()
        said = say(command, *words, "--config", config, kernel=h200(), stdin=stdin)
        answers.append((said.code, said.out.replace(repaired, "FILE")))
        shutil.rmtree(tmp_path / "image")
    assert answers[0] == answers[1]
    assert answers[0][0] in {0, 1}


@pytest.mark.linux
def test_a_configuration_from_a_pipe(repaired: str, tmp_path: Path) -> None:
    """A named pipe, such as bash makes of <(…), is read as a configuration; its name is not told to be typed again."""
    os.mkfifo(tmp_path / "pipe")
    if (child := os.fork()) == 0:
        (tmp_path / "pipe").write_bytes(Path(repaired).read_bytes())
        os._exit(0)
    said = say("plan", "--config", str(tmp_path / "pipe"), kernel=h200())
    os.waitpid(child, 0)
    assert (said.code, said.lines[-1]) == (1, "To apply it, as root: hostrouting apply --config FILE")


def test_what_is_wrong_on_standard_input(written: Callable[..., str]) -> None:
    """A configuration from standard input that cannot be used is bad input, and is called standard input."""
    snapshot = ("--snapshot", "-")
    for stdin, more, told in (
        (b"", (), "standard input: is empty; write {} for an empty configuration"),
        (b"{", (), "standard input: is not JSON: "),
        (b'{"mode": 1}', (), "standard input: has none of the keys "),
        (b"{\xff}", (), "standard input: is not UTF-8 at byte 1; save it as UTF-8"),
        (b"{}", snapshot, "--config: '-' is standard input, and so is --snapshot; name a file for one of the two"),
    ):
        said = say("plan", "--config", "-", *more, stdin=stdin)
        assert (said.code, said.out) == (2, "")
        assert said.err.startswith(f"hostrouting: {told}")
    assert say("check", "--config", "-", stdin=b"{}").err.startswith("hostrouting: standard input: no expected CIDR")
    text = h200().snapshot().to_json().encode()
    assert say("check", "--config", written(), *snapshot, stdin=text).code == 1


def test_hundreds_of_faults(tmp_path: Path) -> None:
    """Of hundreds of faults twenty are said, and the rest is counted; the document has all. Twenty are all said."""
    path = tmp_path / "file.json"
    routes = ", ".join('{"destination": "x"}' for _ in range(500))
    path.write_text(f'{{"staticRoutes": {{"enabled": true, "routes": [{routes}]}}}}')
    said = say("plan", "--config", str(path))
    assert said.code == 2
    first, *others = said.err.splitlines()
    assert first == f"hostrouting: {path} has 500 faults:"
    assert others[19].startswith("  staticRoutes.routes[19].destination:")
    assert others[20:] == ["  … and 480 more; --json shows all"]
    assert len(say("plan", "--config", str(path), "--json").json["faults"]) == 500
    path.write_text(path.read_text().replace('{"destination": "x"}, ' * 480, ""))
    lines = say("plan", "--config", str(path)).err.splitlines()
    assert (len(lines), lines[-1][:31]) == (21, "  staticRoutes.routes[19].desti")


@pytest.mark.parametrize("typed", ["", " ", "nonsense", "10.0.0.0/33", "::1"])
def test_what_was_typed_is_quoted(typed: str) -> None:
    """Each invalid CIDR is quoted as it was typed, with the rule and what to write."""
    said = say("check", typed, "172.16.0.0/16", "x")
    assert said.code == 2
    assert f'  CIDR: "{typed}" ' in said.err
    assert '  CIDR: "x" ' in said.err
    assert "has 2 faults:" in said.err
    assert [fault["value"] for fault in say("check", "--json", typed).json["faults"]] == [f'"{typed}"']


def test_names_do_not_steer_the_terminal() -> None:
    """Device names from a foreign snapshot are shown, and cannot control the terminal."""
    text = say("snapshot", kernel=h200()).out.replace('"ib0"', '"ib\\u001b[31m"')
    for words in (("check", "172.16.0.0/16"), ("explain", "172.16.5.9"), ("repair", "172.16.0.0/16")):
        said = say(*words, "--snapshot", "-", stdin=text.encode())
        assert "\x1b" not in said.out + said.err
        assert "ib\\u001b[31m" in said.out
