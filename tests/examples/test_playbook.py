"""examples/fleet/playbook.yml, run by Ansible on nodes that are this computer, with a program that
only writes down its calls.
"""

import json
import os
import shlex
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.support.programs import EXAMPLES, completed

pytestmark = pytest.mark.linux

PLAYBOOK = EXAMPLES / "fleet/playbook.yml"
APPLIED, STATUS = '{"changed": true}', '{"installed": true}'


def play(
    folder: Path, nodes: str = "ab", applied: str = APPLIED, status: str = STATUS
) -> CompletedProcess[str]:
    """Run the playbook for these nodes, with a program whose commands print these documents."""
    (folder / "agent.json").write_text("{}")
    (folder / "fake").write_text(
        f"#!/bin/sh\necho \"$*\" >>'{folder}/calls'\ncase $1 in apply) echo '{applied}' ;; *) echo '{status}' ;; esac\n"
    )
    variables = {"pyz": "fake", "config": "agent.json", "program": "program", "copy": "copy.json"}
    settings = {f"hostrouting_{name}": str(folder / file) for name, file in variables.items()}
    settings |= {"ansible_connection": "local", "ansible_become": "false"}
    # Ansible does not quote the path of the interpreter, so this one may stand where a folder has a
    # space in its name.
    interpreter = folder / "python"
    interpreter.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    interpreter.chmod(0o755)
    settings["ansible_python_interpreter"] = str(interpreter)
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    home = str(folder / "home")  # whoever runs the tests may have none
    environment = {
        **os.environ,
        "ANSIBLE_HOME": home,
        "ANSIBLE_REMOTE_TEMP": home,
        "LC_ALL": "C.UTF-8",
    }
    words = [program, "-i", f"{','.join(nodes)},", str(PLAYBOOK), "-e", json.dumps(settings)]
    return completed(words, cwd=folder, env=environment)


def test_a_node_is_configured_and_verified(tmp_path: Path) -> None:
    """The program and the configuration are copied; then the configuration is applied, and the node
    is verified.
    """
    done = play(tmp_path, nodes="a")
    assert done.returncode == 0, done.stdout + done.stderr
    calls = [f"apply --config {tmp_path}/copy.json --json", "status --json"]
    assert (tmp_path / "calls").read_text().splitlines() == calls
    assert (tmp_path / "copy.json").read_text() == "{}"


# In the third batch of ten nodes, which is the first with two of them, one node fails.
ONE = f"{APPLIED}'; cd ${{0%/*}}; [ $(wc -l <calls) -lt 5 ] || ! mkdir failed 2>&- || exit 1; : '"


@pytest.mark.parametrize(
    ("documents", "calls"),
    [
        ({"applied": "{}'; exit 1; '"}, ["apply"]),
        ({"status": '{"installed": false}'}, ["apply", "status"]),
        ({"nodes": "abcdefghij", "applied": ONE}, [*["apply", "status"] * 2, "apply", "apply"]),
    ],
)
def test_it_stops_after_a_batch_with_a_failure(
    tmp_path: Path, documents: dict[str, str], calls: list[str]
) -> None:
    """If a node cannot be configured, or is not right afterwards, the nodes of later batches are
    not touched.
    """
    done = play(tmp_path, **documents)
    assert done.returncode == 2, done.stdout + done.stderr
    assert [call.split()[0] for call in (tmp_path / "calls").read_text().splitlines()] == calls
