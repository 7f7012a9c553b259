"""probe-rewrite.sh, run in private namespaces: what nft has after it, and what it says where it
fails.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostrouting.boot.probe_table import TABLE, probe_comments, render_probe_table
from hostrouting.boot.scripts import render_probe_script
from hostrouting.config.settings import HostRoutingConfig, ProbeRewriteConfig
from tests.support.namespace import Namespace, private_namespace

pytestmark = [pytest.mark.linux, pytest.mark.needs("root", "nft")]

REWRITE = ProbeRewriteConfig(enabled=True, interfaces=("eth0",))
SCRIPT = render_probe_script(HostRoutingConfig(probe_rewrite=REWRITE))
OTHER = 'table ip6 other {\n chain c {\n  type filter hook input priority 0\n  counter comment "theirs"\n }\n}\n'


@pytest.fixture(scope="module")
def node() -> Iterator[Namespace]:
    """A namespace."""
    with private_namespace() as private:
        yield private


def run(
    node: Namespace, folder: Path, text: str = SCRIPT, nft: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run the script; `nft` is a program in the place of the usual one, which it finds as REAL."""
    if nft:
        tool = folder / "tools" / "nft"
        tool.parent.mkdir(exist_ok=True)
        count = "[[ $1 != -f ]] || echo >>$0.loads"
        tool.write_text(f"#!/bin/bash\nREAL=/usr/sbin/nft\n{count}\n{nft}\n")
        tool.chmod(0o755)
        text = text.replace(" PATH=/", f" PATH={tool.parent}:/", 1)
    script = folder / "probe-rewrite.sh"
    script.write_text(text)
    return node.run("/bin/bash", str(script), "unit.service", "0")


def listed(node: Namespace, table: str = TABLE) -> str:
    """The table with the handles of its parts; empty if there is none."""
    return node.run("nft", "--handle", "list", "table", "ip6", table).stdout


def put(node: Namespace, text: str) -> None:
    """Load this after a flush."""
    assert node.run("nft", f"flush ruleset; {text}").returncode == 0


@pytest.mark.parametrize(
    "before",
    [
        "",
        OTHER,
        f"table ip6 {TABLE} {{ }}",
        render_probe_table(ProbeRewriteConfig(enabled=True, interfaces=("eth1",))),
        re.sub(".*neighbour discovery.*", "", render_probe_table(REWRITE)),
        f"{render_probe_table(REWRITE)}; add table ip6 {TABLE} {{ flags dormant; }}",
    ],
    ids=[
        "nothing",
        "the table of others",
        "an empty one",
        "that of another configuration",
        "one that has lost a rule",
        "a dormant one",
    ],
)
def test_loaded(node: Namespace, tmp_path: Path, before: str) -> None:
    """Whatever was there, the table is in force afterwards; a second run loads nothing, and tables
    of others stay.
    """
    put(node, before)
    theirs, now = listed(node, "other"), ""
    for _ in range(2):
        done = run(node, tmp_path)
        assert done.stderr == ""
        assert done.returncode == 0
        assert [word for word in probe_comments(REWRITE) if word not in listed(node)] == []
        assert "flags dormant" not in listed(node)
        before, now = (listed(node), before)
    assert now == listed(node)
    assert listed(node, "other") == theirs


@pytest.mark.parametrize(
    ("nft", "loads", "status", "sentence"),
    [
        (
            '[[ $1 != -f ]] || { $REAL -f - && $REAL flush ruleset; exit; }; $REAL "$@"',
            2,
            1,
            "flushes nftables; stop it",
        ),
        (
            '[[ $1 != -f ]] || echo "Error: no" >&2; exit 1',
            1,
            1,
            f"nft refuses table ip6 {TABLE}: Error: no",
        ),
        (
            f'$REAL "$@"; [[ -e $0.1 || $1 != -f ]] || {{ >$0.1; $REAL delete table ip6 {TABLE}; }}',
            2,
            0,
            "",
        ),
    ],
    ids=["flushed each time", "refused", "flushed once"],
)
def test_mishaps(
    node: Namespace, tmp_path: Path, nft: str, *, loads: int, status: int, sentence: str
) -> None:
    """What nft refuses, and what does not stay, is an error with the reason; a flush at the same
    moment is not.
    """
    put(node, "")
    done = run(node, tmp_path, nft=nft)
    assert done.returncode == status, done.stderr
    assert sentence in done.stderr
    assert done.stderr.startswith("<3>probe-rewrite: " * status)
    assert (tmp_path / "tools/nft.loads").read_text() == "\n" * loads


def test_no_nft(node: Namespace, tmp_path: Path) -> None:
    """Without nft, the error names the package."""
    done = run(
        node, tmp_path, SCRIPT.replace(" PATH=/usr/sbin:/usr/bin:/sbin:/bin", f" PATH={tmp_path}")
    )
    assert done.returncode == 1
    assert "install the package nftables" in done.stderr
