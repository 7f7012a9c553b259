"""hostrouting.boot.program: the library itself as one file, which a node runs."""

import compileall
import json
import sys
import zipfile
import zipimport
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from hostrouting.boot import program
from hostrouting.boot.program import PACKAGES, Program, pack
from hostrouting.host.layout import HostLayout
from hostrouting.testing import FakeFiles, h200
from tests.support.compiled import compiled_program
from tests.support.library import copy_library
from tests.support.programs import completed

PATH = HostLayout.program_path
WRITE = """\
import sys
from hostrouting.boot.program import Program, pack, sources_of_program
from hostrouting.host.host import Host
program = Program().content()
if sys.argv[2] == "compiled":
    program = pack(Host.local().interpreter.compile(sys.executable, sources_of_program()))
with open(sys.argv[1], "wb") as file:
    file.write(program)
"""
"""Writes the program of the library that it finds."""


def files_with(program: bytes) -> FakeFiles:
    """A host with this program."""
    return FakeFiles(programs={PATH: program}, modes={PATH: 0o755})


def program_written_by(library: Path, target: Path, kind: str = "sources") -> bytes:
    """The program that a process makes which has this library, and only that."""
    code = f"import sys; sys.path.insert(0, {str(library)!r})\n{WRITE}"
    done = completed([sys.executable, "-I", "-S", "-c", code, target, kind], cwd="/")
    assert done.stderr == ""
    return target.read_bytes()


class TestDiffers:
    """When the program on a node is written anew."""

    @given(st.data())
    def test_a_damage(self, data: st.DataObject) -> None:
        """One byte that is another, anywhere, or an end that is missing, is seen."""
        program = Program().content()
        last = len(program) - 1
        place = data.draw(st.integers(0, last) | st.integers(last - 300, last))
        if data.draw(st.booleans()):
            damaged = program[:place]
        else:
            byte = program[place] ^ data.draw(st.integers(1, 255))
            damaged = program[:place] + bytes([byte]) + program[place + 1 :]
        assert not Program().differs(files_with(program))
        assert Program().differs(files_with(damaged))

    def test_the_digest_decides(self) -> None:
        """Who has compiled it only makes it slower."""
        assert not Program().differs(files_with(pack({})))
        assert Program().differs(files_with(pack({}).replace(b"\n", b"\n0", 1)))

    @pytest.mark.parametrize(
        ("sources", "differs"),
        [
            ({"hostrouting/a.py": b"ab", "attrs/a.py": b"another release"}, False),
            ({"hostrouting/b.py": b"ab"}, True),
            ({"hostrouting/a.py": b"cd"}, True),
            ({"hostrouting/a.py": b"a", "phases/a.py": b"b"}, True),
        ],
    )
    def test_the_digest(
        self, monkeypatch: pytest.MonkeyPatch, sources: dict[str, bytes], *, differs: bool
    ) -> None:
        """It is about the library's files, their names and where each ends."""
        digests: list[str] = []
        for each in ({"hostrouting/a.py": b"ab"}, sources):
            monkeypatch.setattr(program, "sources_of_program", lambda each=each: each)
            digests.append(program.sources_digest.__wrapped__())
        assert (digests[0] != digests[1]) is differs


@pytest.mark.linux
class TestSources:
    """Where the sources of a program come from."""

    def test_the_same_bytes(self, tmp_path: Path) -> None:
        """The same library in another folder, compiled by another process of this interpreter."""
        copy_library(tmp_path / "copy")
        program = program_written_by(tmp_path / "copy", tmp_path / "program", "compiled")
        assert program == compiled_program(sys.executable)

    def test_the_program_itself(self, tmp_path: Path) -> None:
        """An operator on the node applies with the program of the node: it stays as it is."""
        (tmp_path / "hostrouting.pyz").write_bytes(compiled_program(sys.executable))
        program = program_written_by(tmp_path / "hostrouting.pyz", tmp_path / "program")
        assert program == Program().content()

    def test_no_sources(self, tmp_path: Path) -> None:
        """A frozen program that does not have them says how it gets them."""
        copy_library(tmp_path)
        compileall.compile_dir(tmp_path, quiet=1, legacy=True)
        for source in tmp_path.rglob("*.py"):
            source.unlink()
        code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{WRITE}"
        done = completed([sys.executable, "-I", "-S", "-c", code, tmp_path / "program", ""])
        last = done.stderr.splitlines()[-1]
        assert last.startswith("hostrouting.errors.HostError: the sources of hostrouting are not ")
        assert "freeze it again with the package hostrouting installed by pip" in last


@pytest.mark.linux
class TestContent:
    """What is in a program."""

    @pytest.fixture
    def program(self, tmp_path: Path) -> Path:
        """The program, as this interpreter compiles it, as a file."""
        path = tmp_path / "hostrouting.pyz"
        path.write_bytes(compiled_program(sys.executable))
        return path

    def test_only_what_commands_load(self, program: Path) -> None:
        """Only hostrouting without its test kits, phases and attrs, each source with its .pyc."""
        with zipfile.ZipFile(program) as archive:
            names = archive.namelist()
        assert {name.split("/")[0] for name in names} == {"__main__.py", "__main__.pyc", *PACKAGES}
        assert [name for name in names if "testing" in name] == []
        sources = [name for name in names if name.endswith(".py")]
        assert sources == sorted(sources)
        assert {*names} == {*sources, *(f"{name}c" for name in sources)}

    def test_the_command(self, program: Path) -> None:
        """It works with the standard library alone, and no source is read."""
        inside = zipimport.zipimporter(f"{program}/hostrouting/cli")
        assert inside.get_filename("parser").endswith("/parser.pyc")

        command: list[str | Path] = [sys.executable, "-I", "-S", program]
        usage = completed([*command, "--help"], cwd="/")
        assert usage.stdout.startswith(f"usage: {sys.executable} {program}\n")
        status = completed([*command, "status", "--json"], cwd="/")
        assert isinstance(json.loads(status.stdout), dict)
        check = [*command, "check", "--snapshot", "-", "172.16.0.0/16", "--json"]
        verdict = completed(check, cwd="/", input=h200().snapshot().to_json())
        assert json.loads(verdict.stdout)["verdict"] == "overlap"
        assert verdict.returncode == 1
        assert usage.stderr + status.stderr + verdict.stderr == ""
