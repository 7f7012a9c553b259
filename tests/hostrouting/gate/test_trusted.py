"""What root neither runs nor believes, because others could have written it."""

import subprocess
from contextlib import nullcontext
from pathlib import Path

import pytest

from hostrouting.gate.trusted import find_untrusted
from hostrouting.host.files import LocalFiles
from hostrouting.host.layout import HostLayout

FOLDER, CONFIG, PROGRAM = (
    HostLayout.config_directory,
    HostLayout.config_path,
    HostLayout.program_path,
)
RUN = HostLayout.run_directory
NODE = f"""\
mkdir -p .{FOLDER} .{RUN} usr/bin opt/py
echo {{}} >.{CONFIG}
echo >usr/bin/python3.11
ln -s python3.11 usr/bin/python3
ln -s /usr/bin/python3 .{HostLayout.python_path}
chmod -R u=rwX,go=rX .
"""
"""Makes a node in the present folder. There is a folder for another Python."""
ELSEWHERE = "ln -sf /opt/py/python3 usr/bin/python3; ln -s /usr/bin/python3.11 opt/py/python3"


@pytest.mark.linux
@pytest.mark.needs("root")
@pytest.mark.parametrize(
    ("change", "untrusted"),
    [
        ("", []),
        (f"chmod 600 .{CONFIG}", []),
        (f"chmod 664 .{CONFIG}", [CONFIG]),
        (f"chmod 646 .{CONFIG}", [CONFIG]),
        (f"chown 64321 .{CONFIG}", [CONFIG]),
        (f"chown 64321 .{FOLDER}", [FOLDER]),
        ("chmod 1777 etc", ["/etc"]),
        ("chmod 775 .", ["/"]),  # even of the group root: an access list would look the same
        (f"rm .{CONFIG}", []),  # its absence is another finding
        (f"echo >.{PROGRAM}; chmod 666 .{PROGRAM}", [PROGRAM]),
        (f"echo >.{PROGRAM}; chown 64321 .{PROGRAM}", [PROGRAM]),
        (f"chmod 777 .{RUN}", [RUN]),
        ("chmod 1777 run", []),
        (f"chown 64321 .{RUN}", [RUN]),
        (f"mv .{RUN} opt; chown 64321 opt; ln -s /opt .{RUN}", ["/opt"]),
        ("ln -sf /nowhere/python3 usr/bin/python3", []),
        ("ln -sf //usr/bin/python3.11 usr/bin/python3", []),
        ("chown 64321 usr/bin/python3.11", ["/usr/bin/python3.11"]),
        (ELSEWHERE, []),
        (f"{ELSEWHERE}; chown 64321 opt/py", ["/opt/py"]),
        (f"{ELSEWHERE}; chown 64321 opt", ["/opt"]),
        # Where another user's link leads is his choice, and nothing for root to type.
        ("chown -h 64321 usr/bin/python3; chown 64321 usr/bin/python3.11", ["/usr/bin/python3"]),
        ("mkdir srv; chown 64321 srv", ["/srv"]),  # of a Python that is yet to be used
        ("mv usr/bin opt/py; ln -s ../opt/py/bin usr/bin", []),
        ("mv usr/bin opt/py; ln -s ../opt/py/bin usr/bin; chmod 777 opt/py", ["/usr/../opt/py"]),
    ],
)
def test_what_is_not_trusted(tmp_path: Path, change: str, untrusted: list[str]) -> None:
    """What is printed mends it, though others have the file open; nothing does if they own it."""
    for script in (NODE, change):
        subprocess.run(["sh", "-c", script], cwd=tmp_path, check=True)
    files = LocalFiles(tmp_path)
    findings = [*find_untrusted(files, "/srv/python3")]
    assert [finding.target for finding in findings] == untrusted
    for finding in findings:
        sentence = (
            f"users other than root can change {finding.target}, so the gate lets no unit pass"
        )
        assert finding.sentence == sentence
        assert finding.remedy is not None
        assert "(chown root, chmod go-w; " in finding.remedy.words
        command = finding.remedy.command
        if finding.target == PROGRAM:
            assert command == f"hostrouting apply --config {CONFIG}"
            continue  # tests/hostrouting/install/test_install.py carries it out
        command = command.replace(" /", f" {tmp_path}/")
        place = tmp_path / finding.target[1:]
        was_open = place.open("a") if place.is_file() else nullcontext()
        with was_open as others:
            subprocess.run(["sh", "-c", command], check=True)
            if others and command:
                others.write("written later, by whoever has the file open")
        if command and place.is_file():
            assert "written later" not in place.read_text()
        is_mended = [each.target for each in find_untrusted(files, "/srv/python3")] != untrusted
        assert is_mended is bool(command) is ("chown" not in change)
