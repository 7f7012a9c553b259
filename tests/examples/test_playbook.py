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
# Two nodes of the second batch come at the same time; only one of them can make the folder.
ONE_OF_THE_SECOND_BATCH_FAILS = f"""\
if [ "$(grep -c apply calls)" -ge 2 ] && mkdir failed 2>/dev/null
then exit 1
else {APPLIED}
fi"""


def write_program(path: Path, text: str) -> None:
    """Write a program that can be run."""
    path.write_text(text)
    path.chmod(0o755)


def play(
    folder: Path,
    nodes: int,
    *options: str,
    apply: str = APPLIED,
    status: str = RIGHT,
    program: str = "program",
) -> CompletedProcess[str]:
    """Run the playbook for this many nodes, with a program whose commands do this in a shell.

    On the nodes the program has the name `program`; `fake` is there before anything is copied.
    """
    (folder / "agent.json").write_text("{}")
    fake = f"""\
#!/bin/sh
cd {shlex.quote(str(folder))}
echo "$*" >>calls
case $1 in
apply) {apply} ;;
status) {status} ;;
esac
"""
    write_program(folder / "fake", fake)
    variables = {"pyz": "fake", "config": "agent.json", "program": program, "copy": "copy.json"}
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
    names = "".join(f"node{number}," for number in range(nodes))
    words = [ansible, "-i", names, str(PLAYBOOK), "-e", json.dumps(settings)]
    words += options
    return completed(words, cwd=folder, env=environment)


def test_a_node_that_is_not_right(tmp_path: Path) -> None:
    """The configuration is copied and applied, and the result is verified. The next node is not
    touched.
    """
    done = play(tmp_path, 2, status=WRONG)
    assert done.returncode == 2, done.stdout + done.stderr
    assert (tmp_path / "copy.json").read_text() == "{}"
    apply = f"apply --config {tmp_path}/copy.json --json"
    assert (tmp_path / "calls").read_text().splitlines() == [apply, "status --json"]


def test_until_a_node_cannot_be_configured(tmp_path: Path) -> None:
    """After a batch in which one node of several cannot be configured, no other node is touched.

    The second batch of forty nodes has two. Each task takes Ansible a third of a second, so nothing
    is copied here.
    """
    first = "Apply the configuration"
    failing = ONE_OF_THE_SECOND_BATCH_FAILS
    done = play(tmp_path, 40, "--start-at-task", first, apply=failing, program="fake")
    assert done.returncode == 2, done.stdout + done.stderr
    apply = f"apply --config {tmp_path}/copy.json --json"
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls == [apply, "status --json", apply, apply]
