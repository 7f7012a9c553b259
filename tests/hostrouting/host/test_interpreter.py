"""hostrouting.host.interpreter: the Python of a node, which runs its program."""

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from hostrouting.boot.program import sources_of_program
from hostrouting.errors import RequirementError
from hostrouting.host import interpreter
from hostrouting.host.host import Host
from hostrouting.host.interpreter import NodeInterpreter
from hostrouting.host.layout import HostLayout
from hostrouting.release import PASSED
from hostrouting.testing import FakeFiles
from tests.support.compiled import compiled_program


def host_with(*names: str, **links: str) -> FakeFiles:
    return FakeFiles(
        texts={f"/usr/bin/{name}": "" for name in names},
        links={f"/usr/bin/{name}": target for name, target in links.items()},
    )


OLD_ALTERNATIVES = host_with("python3.6", "python3.11", python3="/etc/alternatives/python3")
OLD_ALTERNATIVES.links["/etc/alternatives/python3"] = "../../usr/bin/python3.6"
LOOP = host_with("python3.11", python3="python")
LOOP.links["/usr/bin/python"] = "python3"

HOSTS: dict[str, tuple[FakeFiles, str]] = {
    "Ubuntu 22.04": (host_with("python3.10", "python3.11", python3="python3.10"), "python3"),
    "RHEL 9": (host_with("python3.9", "python3.11", python3="python3.9"), "python3.11"),
    "RHEL 9 and a name that lies": (host_with("python3.9", **{"python3.11": "python3.9"}), ""),
    "RHEL 8": (OLD_ALTERNATIVES, "python3.11"),
    "numbers, not letters": (host_with("python3.9", "python3.10"), "python3.10"),
    "other programs": (host_with("python3-config", "python3.12-config", "python3.13t"), ""),
    "links that say nothing": (LOOP, "python3"),
}


@pytest.mark.parametrize(("files", "name"), HOSTS.values(), ids=HOSTS)
def test_which_is_found(files: FakeFiles, name: str) -> None:
    """The usual one, unless its name says that it is too old: then the newest."""
    assert NodeInterpreter(files, is_image=True).find() == (f"/usr/bin/{name}" if name else "")


NODE = NodeInterpreter(FakeFiles(), is_image=False)
BEGIN = """\
import sys
first, *words = sys.argv[1:]
exec(first)
code = words[words.index("-c") + 1]
sys.argv = ["-c", *words[words.index("-c") + 2 :]]
exec(code)
"""
"""Runs its first argument, and then what `-c` says, as the interpreter would."""


def script(folder: Path, *lines: str, name: str = "python3") -> str:
    """A program in the place of an interpreter; its path."""
    path = folder / name
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return str(path)


STARTS = f'exec {sys.executable} "$@"'
TRIED: dict[str, tuple[dict[str, str], str]] = {
    "an upgrade broke the usual one": ({"python3": "exit 1", "python3.11": STARTS}, "python3.11"),
    "the newest that starts": (
        {"python3": "", "python3.10": STARTS, "python3.11": STARTS, "python3.12": "exit 1"},
        "python3.11",
    ),
    "none starts": ({"python3": "exit 1", "python3.11": "exit 0"}, ""),
}


@pytest.mark.linux
@pytest.mark.parametrize("name", TRIED)
def test_which_starts(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is tried; but none of an image, nor one that others can change, which a run refuses."""
    scripts, wanted = TRIED[name]
    paths = [script(tmp_path, line, name=each) for each, line in scripts.items()]
    monkeypatch.setattr(interpreter, "_FOLDER", str(tmp_path))
    monkeypatch.setattr(interpreter, "USUAL_PATH", paths[0])
    files = FakeFiles(texts=dict.fromkeys(paths, ""))
    found = NodeInterpreter(files, is_image=False).find()
    assert found == (str(tmp_path / wanted) if wanted else "")
    assert Host(files=FakeFiles()).interpreter.find() == found  # that of this machine
    assert NodeInterpreter(files, is_image=True).find() == paths[0]
    files.modes[paths[0]] = 0o777
    files.links["/usual"] = paths[0]
    monkeypatch.setattr(interpreter, "USUAL_PATH", "/usual")
    assert NodeInterpreter(files, is_image=False).find() == "/usual"
    files.modes.clear()
    files.owners["/usual"] = 1  # who can have the link lead elsewhere
    assert NodeInterpreter(files, is_image=False).find() == "/usual"


@pytest.mark.linux
class TestCompile:
    @staticmethod
    def reason(path: str) -> str:
        """Why this interpreter cannot compile the program; the error has one finding."""
        with pytest.raises(RequirementError) as caught:
            NODE.compile(path, sources_of_program())
        [finding] = caught.value.findings
        assert finding.target == path
        assert "install Python 3.10 or newer, as the package python3" in str(finding.remedy)
        before, _, reason = finding.sentence.partition(" cannot run hostrouting on this node: ")
        assert (before, reason.count("\n")) == (path, 0)
        return reason

    @pytest.mark.parametrize(
        ("code", "reason"),
        [
            ('sys.version_info = (3, 9, 18, "final", 0)', "it is Python 3.9"),
            ('sys.modules["json"] = None', "ModuleNotFoundError: import of json halted"),
            ("sys.exit(0)", "exit code 0"),
            ("import os; os.abort()", "it was ended by signal 6"),
        ],
        ids=["too old", "without json", "it does nothing", "it dies"],
    )
    def test_one_that_cannot(self, tmp_path: Path, code: str, reason: str) -> None:
        """The reason is its last line, or how it ended."""
        first = f"import sys; print('a warning', file=sys.stderr)\n{code}"
        command = shlex.join([sys.executable, "-c", BEGIN, first])
        assert self.reason(script(tmp_path, f'exec {command} "$@"')).startswith(reason)

    def test_the_present_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """No module is loaded from it: in /tmp, anybody could have put it there."""
        for name in ("compileall", "filecmp"):
            (tmp_path / f"{name}.py").write_text("raise SystemExit('from the present folder')")
        monkeypatch.chdir(tmp_path)
        trial = f"def run_trial(): raise SystemExit({PASSED})".encode()
        sources = {"hostrouting/__init__.py": b"", "hostrouting/node.py": trial}
        files = NODE.compile(sys.executable, sources)
        assert files.keys() > sources.keys()
        assert b"hostrouting-" not in b"".join(files.values()), "the same bytes each time"

    @pytest.mark.needs("root")
    def test_the_folder_for_temporary_files(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is none that another user owns, who could put code there for root to run."""
        os.chown(tmp_path, 65534, 65534)
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        monkeypatch.setattr(tempfile, "tempdir", None)
        kept = tmp_path / "words"
        self.reason(script(tmp_path, f'echo "$@" >>{kept}', "exit 3"))
        *_, sources = kept.read_text().split()
        folder = Path(sources).parent.stat()
        assert (folder.st_uid, folder.st_mode & 0o1022) in {(0, 0), (0, 0o1022)}

    def test_one_that_hangs(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(interpreter, "_TIMEOUT", 0.2)
        path = script(tmp_path, "exec sleep 60")
        assert self.reason(path) == NODE.why_not_run(path) != ""

    def test_the_environment_of_the_agent(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It says nothing about the node's: a frozen agent has libraries of its own."""
        monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/agent")
        monkeypatch.setenv("PYTHONHOME", "/opt/agent")
        kept = tmp_path / "environment"
        path = script(tmp_path, f"env >>{kept}", "exit 3")
        assert self.reason(path) == NODE.why_not_run(path) == "exit code 3"
        names = {line.partition("=")[0] for line in kept.read_text().splitlines()}
        assert names - {"PWD", "OLDPWD", "SHLVL", "_"} == {"PATH", "PYTHONHASHSEED"}
        assert "PYTHONHASHSEED=0\n" in kept.read_text()


@pytest.mark.linux
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (":", ""),
        ("rm hostrouting.pyz", "the file is missing"),
        ("ln -sf /nowhere python", "No such file or directory"),
        ("rm python; : >python; chmod 755 python", "Exec format error"),
        ("ln -sf /bin/true python", "exit code 0"),
    ],
)
def test_the_installed_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, reason: str
) -> None:
    """Whether the gate could run it; the reason is one line."""
    (tmp_path / "hostrouting.pyz").write_bytes(compiled_program(sys.executable))
    os.symlink(sys.executable, tmp_path / "python")
    monkeypatch.setattr(HostLayout, "program_path", str(tmp_path / "hostrouting.pyz"))
    subprocess.run(change, shell=True, cwd=tmp_path, check=True)  # noqa: S602  of this test
    assert NODE.why_not_run(str(tmp_path / "python")) == reason
