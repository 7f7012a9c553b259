"""examples/fleet/playbook.yml, run by Ansible with a program that writes down its calls."""

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
PROGRAM = """\
#!/bin/sh
cd {folder}
echo "$*" >>calls
case $1 in
apply) echo '{{"changed": true}}' ;;
status) echo '{{"installed": false}}' ;;
esac
"""


def write_program(path: Path, text: str) -> None:
    """Write a program that can be run."""
    path.write_text(text)
    path.chmod(0o755)


def play(folder: Path) -> CompletedProcess[str]:
    """Run the playbook for two nodes."""
    (folder / "agent.json").write_text("{}")
    write_program(folder / "fake", PROGRAM.format(folder=shlex.quote(str(folder))))
    variables = {"pyz": "fake", "config": "agent.json", "program": "program", "copy": "copy.json"}
    settings = {f"hostrouting_{name}": str(folder / file) for name, file in variables.items()}
    settings |= {"ansible_connection": "local", "ansible_become": "false"}
    # Ansible does not quote the path of the interpreter, so this one may stand where a folder has a
    # space in its name.
    interpreter = folder / "python"
    write_program(interpreter, f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    settings["ansible_python_interpreter"] = str(interpreter)
    ansible = str(Path(sys.executable).with_name("ansible-playbook"))
    home = str(folder / "home")  # whoever runs the tests may have none
    places = {"ANSIBLE_HOME": home, "ANSIBLE_REMOTE_TEMP": home}
    environment = {**os.environ, **places, "LC_ALL": "C.UTF-8"}
    words = [ansible, "-i", "node1,node2", str(PLAYBOOK), "-e", json.dumps(settings)]
    return completed(words, cwd=folder, env=environment)


def test_a_node_that_is_not_right(tmp_path: Path) -> None:
    """It is copied and applied, and the result is verified. The next node is not touched."""
    done = play(tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert (tmp_path / "copy.json").read_text() == "{}"
    apply = f"apply --config {tmp_path}/copy.json --json"
    assert (tmp_path / "calls").read_text().splitlines() == [apply, "status --json"]
