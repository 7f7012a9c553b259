"""hostrouting.boot.program: the library itself as one file, which a node runs."""

import json
import shlex
import sys
import zipfile
import zipimport
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from hostrouting.boot import program
from hostrouting.boot.program import PACKAGES, Program, pack
from hostrouting.errors import HostError
from hostrouting.host.layout import HostLayout
from hostrouting.testing import FakeFiles, h200
from hostrouting.testing.interpreter import FakeInterpreter
from tests.support.compiled import compiled_program
from tests.support.programs import completed

PATH = HostLayout.program_path
WRITE = """\
import sys
sys.path.insert(0, sys.argv[1])
from hostrouting.boot.program import pack, sources_of_program
from hostrouting.host.host import Host
compiled = Host.local().interpreter.compile(sys.executable, sources_of_program())
with open(sys.argv[2], "wb") as file:
    file.write(pack(compiled))
"""


def files_with(program: bytes) -> FakeFiles:
    return FakeFiles(programs={PATH: program}, modes={PATH: 0o755})


@given(st.data())
def test_a_damage(data: st.DataObject) -> None:
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


SOURCES = program.sources_of_program()
ATTRS = [name for name in SOURCES if name.startswith("attr")]


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({}, False),
        ({"hostrouting/node/start.pyc": b"compiled by another Python"}, False),
        (dict.fromkeys(ATTRS, b"another release"), False),
        (dict.fromkeys(ATTRS), False),
        ({"hostrouting/node/start.py": b"lets everything start"}, True),
        ({"__main__.py": b"another program"}, True),
        ({"phases/tasks.py": None}, True),
        ({"json.py": b"in the place of Python's own"}, True),
    ],
)
def test_the_sources_decide(change: dict[str, bytes | None], *, differs: bool) -> None:
    """They have to be ours; who has compiled them, and the release of attrs, do not count."""
    changed = {**SOURCES, **change}
    files = {name: text for name, text in changed.items() if text is not None}
    found = Program().differs(files_with(pack(files)))
    assert found is differs  # pytest would take minutes to show the files


def test_another_head() -> None:
    """It differs, and so does a file that is no archive, or one with a head that Python obeys."""
    right = Program(interpreter=FakeInterpreter()).content()
    assert not Program().differs(files_with(right))
    for wrong in (b"", b"#", b"x" + right, right + b"x", right.replace(b"\n", b"\n0", 1)):
        assert Program().differs(files_with(wrong))


TEXT = b"aphases/b.py\nc"


@pytest.mark.parametrize(
    ("sources", "differs"),
    [
        ({"hostrouting/a.py": TEXT, "attrs/a.py": b"another release"}, False),
        ({"hostrouting/b.py": TEXT}, True),
        ({"hostrouting/a.py": b"cd"}, True),
        ({"hostrouting/a.py": b"a", "phases/b.py": b"c"}, True),
    ],
)
def test_the_digest(
    monkeypatch: pytest.MonkeyPatch, sources: dict[str, bytes], *, differs: bool
) -> None:
    """It is about the library's files, their names and where each ends."""
    digests: list[str] = []
    for each in ({"hostrouting/a.py": TEXT}, sources):
        monkeypatch.setattr(program, "sources_of_program", lambda each=each: each)
        digests.append(program.sources_digest.__wrapped__())
    assert (digests[0] != digests[1]) is differs


def test_no_sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A frozen program that does not have them says how it gets them, even if it has others."""
    (tmp_path / "__init__.py").touch()
    monkeypatch.setattr(program, "files_of_package", lambda _: tmp_path)
    with pytest.raises(HostError, match="freeze it again with the package hostrouting installed"):
        program.sources_of_program.__wrapped__()


@pytest.mark.linux
def test_the_program_itself(tmp_path: Path) -> None:
    """It works without other packages, can install itself, and says how it is typed."""
    program, copy = tmp_path / "a folder/hostrouting.pyz", tmp_path / "copy"
    program.parent.mkdir()
    program.write_bytes(compiled_program(sys.executable))
    python = [sys.executable, "-I", "-S"]
    assert completed([*python, "-c", WRITE, program, copy], cwd="/").stderr == ""
    is_equal = copy.read_bytes() == program.read_bytes()
    assert is_equal  # pytest would take minutes to show what differs

    with zipfile.ZipFile(program) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names} == {"__main__.py", "__main__.pyc", *PACKAGES}
    assert [name for name in names if "testing" in name or "pyinstaller" in name] == []
    sources = [name for name in names if name.endswith(".py")]
    assert sources == sorted(sources)
    assert {*names} == {*sources, *(f"{name}c" for name in sources)}

    inside = zipimport.zipimporter(f"{program}/hostrouting/cli")
    assert inside.get_filename("parser").endswith("/parser.pyc")
    command = [*python, str(program)]
    usage = completed([*command, "--help"], cwd="/")
    assert usage.stdout.startswith(f"usage: {shlex.join([sys.executable, str(program)])}\n")
    check = [*command, "check", "--snapshot", "-", "172.16.0.0/16", "--json"]
    verdict = completed(check, cwd="/", input=h200().snapshot().to_json())
    assert json.loads(verdict.stdout)["verdict"] == "overlap"
    assert verdict.returncode == 1
    assert usage.stderr + verdict.stderr == ""
