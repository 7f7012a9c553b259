"""A node in namespaces, with folders as /etc and /run, where the texts of units run."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from hostrouting.host.files import LocalFiles
from hostrouting.host.layout import HostLayout
from tests.support.compiled import compiled_program

_NAMESPACES = ("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
_ON_EACH = """\
while read -r home; do
  mount --bind "$home/etc" /etc
  mount --bind "$home/run" /run
  "$@" >"$home/stdout" 2>"$home/stderr" </dev/null
  echo $? >"$home/status"
  umount --lazy /run /etc # a program that was killed may still use them
done
"""


def command_of(text: str, setting: str, unit: str) -> list[str]:
    """The words of this command in the text of a unit, as systemd makes them."""
    [line] = re.findall(rf"(?m)^{setting}=(.*)$", text)
    # Within single quotes, systemd makes one backslash of two, and shlex leaves both.
    assert "\\" not in line.replace("\\\\", ""), "shlex would not read it as systemd does"
    words = [word.replace("\\\\", "\\") for word in shlex.split(line.removeprefix("+"))]
    expanded: list[str] = []
    for word in words:
        parts = re.split(r"(\$\$|%%|%n|\$\{INVOCATION_ID\})", word)
        parts[1::2] = [_EXPANDED.get(part, unit) for part in parts[1::2]]
        assert not re.search("[$%]", "".join(parts[::2])), "systemd would expand it"
        expanded.append("".join(parts))
    return expanded


_EXPANDED = {"$$": "$", "%%": "%", "${INVOCATION_ID}": "1f"}


class SandboxedNode:
    """A node below this folder: its `etc`, its `run`, and what runs there."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.files = LocalFiles(home)
        """For the paths as the node has them."""
        for folder in ("etc/hostrouting", "run/hostrouting"):
            self.place(f"/{folder}").mkdir(parents=True)
            self.place(f"/{folder}").chmod(0o755)

    def place(self, path: str) -> Path:
        return self.home / path.removeprefix("/")

    def install(self, config: str) -> None:
        """Put the real program there, with the Python that runs the tests."""
        self.files.write(HostLayout.program_path, compiled_program(sys.executable))
        self.files.write(HostLayout.config_path, config)
        self.files.link(HostLayout.python_path, os.path.realpath(sys.executable))

    def run(self, *command: str) -> "Done":
        """Run a command there; process 1 has its network."""
        [done] = run_on_each([self], *command)
        return done


class Done(NamedTuple):
    status: int
    stdout: str
    stderr: str


def run_on_each(nodes: Sequence[SandboxedNode], *command: str) -> list[Done]:
    homes = [node.home for node in nodes]
    subprocess.run(
        [*_NAMESPACES, "sh", "-c", _ON_EACH, "sh", *command],
        input="".join(f"{home}\n" for home in homes),
        check=True,
        text=True,
        timeout=100,
    )
    return [
        Done(
            int((home / "status").read_text()),
            (home / "stdout").read_text(errors="replace"),
            (home / "stderr").read_text(errors="replace"),
        )
        for home in homes
    ]
