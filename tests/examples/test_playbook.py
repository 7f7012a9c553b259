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
APPLIED = """echo '{"changed": true}'"""
RIGHT = """echo '{"installed": true}'"""
WRONG = """echo '{"installed": false}'"""
# Two nodes of the third batch ask at the same time; only one of them can make the folder.
ONE_OF_THE_THIRD_BATCH_IS_WRONG = f"""\
if [ "$(grep -c status calls)" -ge 3 ] && mkdir wrong 2>/dev/null
then {WRONG}
else {RIGHT}
fi"""


def play(folder: Path, nodes: str, apply: str, status: str = RIGHT) -> CompletedProcess[str]:
    """Run the playbook for these nodes, with a program whose commands do this in a shell."""
    (folder / "agent.json").write_text("{}")
    (folder / "fake").write_text(
        f"""\
#!/bin/sh
cd {shlex.quote(str(folder))}
echo "$*" >>calls
case $1 in
apply) {apply} ;;
status) {status} ;;
esac
"""
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


def test_until_a_node_is_not_right(tmp_path: Path) -> None:
    """On each node, the configuration is copied and applied, and the result is verified. After a
    batch in which one node of several is not right, the nodes of later batches are not touched.

    A run takes Ansible some seconds, so this is one.
    """
    done = play(tmp_path, "abcdefghij", APPLIED, ONE_OF_THE_THIRD_BATCH_IS_WRONG)
    assert done.returncode == 2, done.stdout + done.stderr
    assert (tmp_path / "copy.json").read_text() == "{}"
    apply = f"apply --config {tmp_path}/copy.json --json"
    batch_of_one = [apply, "status --json"]
    batch_of_two = [apply, apply, "status --json", "status --json"]
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls == [*batch_of_one, *batch_of_one, *batch_of_two]


def test_a_node_that_cannot_be_configured(tmp_path: Path) -> None:
    """It is not verified, and the next node is not touched."""
    done = play(tmp_path, "ab", apply="exit 1")
    assert done.returncode == 2, done.stdout + done.stderr
    [call] = (tmp_path / "calls").read_text().splitlines()
    assert call.startswith("apply ")
