"""examples/fleet/playbook.yml, run by Ansible with a program that writes down its calls."""

import json
import os
import shlex
import sys
from pathlib import Path

import pytest

from tests.support.programs import EXAMPLES, completed

PROGRAM = """\
#!/bin/sh
cd {folder}
echo "$*" >>calls
case $1 in
apply) echo '{{"changed": true}}' ;;
status) echo '{{"installed": false}}' ;;
esac
"""


def write_program(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


@pytest.mark.linux
def test_a_node_that_is_not_right(tmp_path: Path) -> None:
    """It is copied and applied, and the result is verified. The next node is not touched."""
    (tmp_path / "agent.json").write_text("{}")
    # Ansible does not quote the path of the interpreter, and a folder above ours may have a space.
    python = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n'
    settings = {
        "hostrouting_pyz": write_program(
            tmp_path / "fake", PROGRAM.format(folder=shlex.quote(str(tmp_path)))
        ),
        "hostrouting_config": f"{tmp_path}/agent.json",
        "hostrouting_program": f"{tmp_path}/program",
        "hostrouting_copy": f"{tmp_path}/copy.json",
        "ansible_connection": "local",
        "ansible_become": "false",
        "ansible_python_interpreter": write_program(tmp_path / "python", python),
    }
    ansible = str(Path(sys.executable).with_name("ansible-playbook"))
    home = str(tmp_path / "home")  # whoever runs the tests may have none
    environment = {**os.environ, "ANSIBLE_HOME": home, "ANSIBLE_REMOTE_TEMP": home}
    playbook = str(EXAMPLES / "fleet/playbook.yml")
    words = [ansible, "-i", "node1,node2", playbook, "-e", json.dumps(settings)]
    done = completed(words, cwd=tmp_path, env=environment)
    assert done.returncode == 2, done.stdout + done.stderr
    assert (tmp_path / "copy.json").read_text() == "{}"
    apply = f"apply --config {tmp_path}/copy.json --json"
    assert (tmp_path / "calls").read_text().splitlines() == [apply, "status --json"]
