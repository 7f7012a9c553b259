"""The roll-out by hand that docs/fleet.md shows, with its own commands, on two nodes whose `ssh` enters a namespace."""

import json
import os
import re
import sys
from pathlib import Path

import pytest

from tests.support.machine import H200, ROOT, private_machine
from tests.support.pages import page
from tests.support.programs import completed

pytestmark = [pytest.mark.nightly, pytest.mark.linux, pytest.mark.needs("root")]

BLOCKS = re.findall(r"^<!-- roll-out -->\n```sh\n(.*?)^```", page("fleet"), re.MULTILINE | re.DOTALL)
SNAPSHOTS = "\n".join(
    line.removeprefix("$ ").replace("mkdir", "mkdir -p")
    for line in page("fleet").partition("## Check all")[2].partition("```\n")[0].splitlines()
    if line.startswith("$ ") and "--snapshots" not in line
)
# xargs starts twenty at a time: if it stopped at a node that cannot be reached, the two others would not be asked.
DEAD = [f"dead-{number}" for number in range(20)]
CONFIG = {
    "staticRoutes": {"enabled": True, "routes": [{"destination": "172.16.0.0/17"}, {"destination": "172.16.128.0/17"}]},
    "routeOverlap": {"expectedCidrs": ["172.16.0.0/16"], "mode": "STRICT"},
}


def test_a_roll_out_by_hand(tmp_path: Path) -> None:
    """Each step names the nodes that fail; the proof, a node whose routes a reboot would lose, and a kubelet that is not gated."""
    with private_machine() as one, private_machine() as other:
        nodes = {"gpu-1": one, "gpu-2": other}
        (tmp_path / "programs").mkdir()
        enter = 'root@open) echo "INSTALLED: all"; echo "NOT-GATED: kubelet.service"; exit ;; '
        enter += "".join(f'*{name}) shift; exec {" ".join(it.enter)} sh -c "$*" ;; ' for name, it in nodes.items())
        for name, body in (
            ("hostrouting", f'exec {sys.executable} -m hostrouting "$@"'),
            (
                "ssh",
                f'while [ "$1" = -o ]; do shift 2; done; case $1 in {enter} esac; echo "no route to $1" >&2; exit 255',
            ),
            ("scp", 'case $* in *root@dead-*) exit 255 ;; esac; echo "$*" >>copied'),
        ):
            (tmp_path / "programs" / name).write_text(f"#!/bin/sh\n{body}\n")
            (tmp_path / "programs" / name).chmod(0o755)

        def shell(script: str) -> str:
            path = f"{tmp_path}/programs:{os.environ['PATH']}"
            done = completed(
                ["bash", "-c", script],
                env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"},
                cwd=tmp_path,
            )
            return done.stdout

        for node in nodes.values():
            node.batch(H200)
        (tmp_path / "agent.json").write_text(json.dumps(CONFIG))
        (tmp_path / "names.txt").write_text("gpu-1\ngpu-2\n")
        (tmp_path / "all.txt").write_text("\n".join([*DEAD, "gpu-1", "gpu-2\n"]))
        check, (copy, plan, first, rest, proof) = "hostrouting check --snapshots nodes --config agent.json", BLOCKS
        assert shell(copy) == ""
        copied = (tmp_path / "copied").read_text().split()
        assert sorted(word for word in copied if ":" in word) == [
            f"root@{name}:/usr/local/bin/hostrouting" for name in nodes
        ]
        assert "agent.json has its routes" in shell(f"{SNAPSHOTS}\n{check}")
        planned = shell(plan)
        assert planned.startswith("2 nodes: TO DO: add 2 routes")
        assert "  afterwards: OK" in planned
        said = shell(first)
        assert said.startswith("DONE: 2 routes added")
        assert "INSTALLED: 2 routes" in said
        assert shell(proof) == "gpu-2\n"
        assert shell(rest) == ""
        assert shell(f"rm -r status; {proof}") == ""
        (tmp_path / "open.txt").write_text("open\n")
        assert shell(proof.replace("names.txt", "open.txt")) == "status/open:NOT-GATED: kubelet.service\n"

        # Nodes that cannot be reached are named in each step, and the others are asked all the same.
        for step in (copy, SNAPSHOTS, rest, proof):
            named = shell(f"rm -fr nodes applied status; {step.replace('names.txt', 'all.txt')}").split()
            assert sorted(named) == sorted(DEAD)
        shell(f"rm -r nodes; {SNAPSHOTS}")
        # With a configuration that is not the one installed, what is installed proves nothing.
        other_one = {**CONFIG, "routeOverlap": {"expectedCidrs": ["172.16.0.0/16"], "mode": "WARN"}}
        (tmp_path / "agent.json").write_text(json.dumps(other_one))
        assert sorted(shell(f"rm -r status; {proof}").split()) == ["gpu-1", "gpu-2"]
        (tmp_path / "agent.json").write_text(json.dumps(CONFIG))

        # The right routes, by hand: for the check all is well, and the plan would fail where something is in the way.
        shell("ssh gpu-2 hostrouting remove")
        other.batch(
            f"route add {half} via 10.0.0.1 dev eth0 proto 213" for half in ("172.16.0.0/17", "172.16.128.0/17")
        )
        told = shell(f"{SNAPSHOTS}\n{check}")
        assert told.startswith("2 nodes: 2 ok\n")
        assert told.endswith(
            "\nTo see what is installed on each node, and whether it survives a reboot: hostrouting status\n"
        )
        assert shell(f"rm -r status; {proof}") == "gpu-2\n"
        one.batch(["route del 172.16.0.0/17", "route add 172.16.0.0/17 dev ib0 proto static"])
        assert "1 node: CONFLICT: 1 route cannot be added" in shell(f"{SNAPSHOTS}\n{plan}")
        assert shell(f"rm -r applied; {rest}") == "gpu-1\n"
        # A part of what pods send escapes: the verdict on these pods is ok, and that on the node is not.
        one.batch(
            [
                "route del 172.16.0.0/17 dev ib0",
                "rule add from 10.244.0.128/25 lookup 100",
                "route add default dev ib0 table 100",
            ]
        )
        overlap = {"expectedCidrs": ["172.16.0.0/16"], "podCidrs": ["10.244.0.0/24"], "mode": "STRICT"}
        (tmp_path / "agent.json").write_text(json.dumps({**CONFIG, "routeOverlap": overlap}))
        assert "  afterwards: OVERLAP" in shell(f"{SNAPSHOTS}\n{plan}")
