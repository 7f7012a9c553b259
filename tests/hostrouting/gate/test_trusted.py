"""What root neither runs nor believes, because others could have written it."""

import subprocess
from pathlib import Path

import pytest

from hostrouting.finding import Remedy
from hostrouting.gate.trusted import find_untrusted
from hostrouting.host.files import LocalFiles
from hostrouting.host.layout import HostLayout
from hostrouting.testing import FakeFiles

FOLDER, CONFIG = HostLayout.config_directory, HostLayout.config_path


@pytest.mark.linux
@pytest.mark.needs("root")
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("chmod 600", ""),
        ("chmod 664", "users other than root can write to {}"),
        ("chmod 646", "users other than root can write to {}"),
        ("chown 64321", "{} belongs to the user 64321, and not to root"),
        ("ln -sf /etc/hostname", "{} is a link, and not a file"),
        ("rm config.json; mkdir", "{} is a directory, and not a file"),
        ("rm", ""),  # its absence is another finding
    ],
)
def test_why_a_file_is_not_trusted(tmp_path: Path, change: str, reason: str) -> None:
    """Only a file that root alone can change is."""
    folder = tmp_path / FOLDER.lstrip("/")
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("exit 0\n")
    subprocess.run(["sh", "-c", f"{change} config.json"], cwd=folder, check=True)
    findings = [finding.sentence for finding in find_untrusted(LocalFiles(str(tmp_path)))]
    sentence = f"{reason.format(CONFIG)}, so the gate lets no unit pass"
    assert findings == ([sentence] if reason else [])


@pytest.mark.parametrize("path", [FOLDER, CONFIG, HostLayout.program_path])
def test_all_that_root_runs_or_believes(path: str) -> None:
    """The repair leaves what is in them."""
    files = FakeFiles(dict.fromkeys((CONFIG, HostLayout.program_path), ""))
    files.owners[path] = 1
    [finding] = find_untrusted(files)
    look = "look first at what others may have written there, then"
    assert finding.remedy == Remedy(look, f"chown root {path} && chmod go-w {path}")
