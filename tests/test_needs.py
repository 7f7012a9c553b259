"""tests.support.needs: what a test needs of the machine, and what the end of a run says about it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support import needs
from tests.support.needs import FILES, PACKAGES, absent, advice, packages_for, require
from tests.support.pages import ROOT

if TYPE_CHECKING:
    from pathlib import Path

ROOT_ONLY = "Skipped: it needs root"


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The one folder of PATH, without programs."""
    monkeypatch.setattr(needs, "PATH", str(tmp_path))
    return tmp_path


def user(monkeypatch: pytest.MonkeyPatch, number: int, *, may: bool = True) -> None:
    """Who runs the tests."""
    monkeypatch.setattr(os, "geteuid", lambda: number)
    monkeypatch.setattr(needs, "_may_make_namespaces", lambda: may)


def test_the_table() -> None:
    """The rows are sorted, and each file belongs to a row; kills: a row added anywhere, a file without a package."""
    assert list(PACKAGES) == sorted(PACKAGES)
    assert FILES.keys() <= PACKAGES.keys()


def test_absent_programs(bare: Path) -> None:
    """A program is there if a folder of PATH has one that may be run; kills: any file will do, the order is lost."""
    assert absent(["zsh", "nft", "ip"]) == ["zsh", "nft", "ip"]
    (bare / "nft").touch(mode=0o755)
    (bare / "ip").touch(mode=0o644)
    assert absent(["zsh", "nft", "ip"]) == ["zsh", "ip"]


def test_absent_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A library is there if its file has contents; kills: looking for it in PATH, taking an empty file for it."""
    path = tmp_path / "library"
    monkeypatch.setitem(FILES, "bash-completion", str(path))
    assert absent(["bash-completion"]) == ["bash-completion"]
    path.touch()
    assert absent(["bash-completion"]) == ["bash-completion"]
    path.write_text("text")
    assert absent(["bash-completion"]) == []


def test_absent_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Root is user 0, if it may make namespaces; kills: the opposite, either alone."""
    user(monkeypatch, 0)
    assert absent(["root"]) == []
    user(monkeypatch, 0, may=False)
    assert absent(["root"]) == ["root"]
    assert advice([ROOT_ONLY])[-1] == (
        "To run these tests too, as a root that may make namespaces (in a container: --privileged): make test"
    )
    user(monkeypatch, 1000)
    assert absent(["root"]) == ["root"]


def test_a_name_that_is_not_in_the_table() -> None:
    """Such a name is a mistake in the test, and not a reason to skip the test; kills: looking for any name in PATH."""
    with pytest.raises(AssertionError, match=r"does not know sh$"):
        absent(["sh"])


@pytest.mark.usefixtures("bare")
def test_require(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason of a skip names all that is missing, and nothing else; kills: skipping at the first, or always."""
    user(monkeypatch, 1000)
    with pytest.raises(pytest.skip.Exception, match=r"^it needs root, nft$"):
        require("root", "nft")
    user(monkeypatch, 0)
    require("root")


def test_the_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line for each reason, the most frequent first, and one command; kills: a line per test, two commands."""
    user(monkeypatch, 1000)
    reasons = [
        "Skipped: it needs root, promtool, nft",
        ROOT_ONLY,
        ROOT_ONLY,
        "Skipped: it needs prometheus",
        "Skipped: no",
    ]
    assert advice(reasons) == [
        "    2 skipped: it needs root",
        "    1 skipped: it needs root, promtool, nft",
        "    1 skipped: it needs prometheus",
        "    1 skipped: no",
        "To run these tests too, as root: apt-get install nftables prometheus && make test",
    ]


def test_who_runs_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """To install, one has to be root; to run the tests, if one of them needs it; kills: root for all, or for none."""
    for number, last in [
        (0, "To run these tests too: apt-get install nftables"),
        (1000, "To run these tests too: apt-get install nftables, as root"),
    ]:
        user(monkeypatch, number)
        assert advice(["Skipped: it needs nft"])[-1] == last
    assert advice([ROOT_ONLY])[-1] == "To run these tests too, as root: make test"
    assert advice([]) == []
    assert advice(["Skipped: no"]) == ["    1 skipped: no"]


@pytest.mark.linux
def test_the_script() -> None:
    """As a script it prints packages of the table that this machine lacks, with Python alone; kills: a new import."""
    command = [sys.executable, "-I", "-S", f"{ROOT}/tests/support/needs.py"]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert said.stdout.split() == packages_for(absent(PACKAGES))
    assert re.fullmatch(r"[a-z0-9 -]*\n", said.stdout)
