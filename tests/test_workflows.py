"""The workflows of the forge: what they run can be run, and what they use is pinned."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # it has no types

from tests.support.programs import completed

ROOT = Path(__file__).resolve().parents[1]
WORKFLOWS = [
    yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in (ROOT / ".github/workflows").iterdir()
]


def steps(kind: str) -> list[Any]:
    """What each step of a workflow has that has this key."""
    values: list[Any] = []
    for workflow in WORKFLOWS:
        for job in workflow["jobs"].values():
            values += [step[kind] for step in job["steps"] if kind in step]
    return values


@pytest.mark.linux
@pytest.mark.needs("shellcheck")
def test_scripts(tmp_path: Path) -> None:
    """A shell has no objection, and each target of make is there."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for number, script in enumerate(steps("run")):
        (tmp_path / f"{number}").write_text(f"set -e\n{script}")
        for target in re.findall(r"^\s*make ([a-z]+)", script, re.MULTILINE):
            assert f"\n{target}:" in makefile
    done = completed(["shellcheck", "--shell=bash", *tmp_path.iterdir()])
    assert done.returncode == 0, done.stdout


def test_actions_and_rights() -> None:
    """Actions are pinned. Only the job that publishes may write, and it runs none of our code."""
    for action in steps("uses"):
        assert re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", action)
    for workflow in WORKFLOWS:
        for settings in (workflow, *workflow["jobs"].values()):
            if "write" in settings.get("permissions", {}).values():
                assert not any("checkout" in step.get("uses", "") for step in settings["steps"])


@pytest.mark.linux
def test_the_part_of_the_change_log(tmp_path: Path) -> None:
    """It becomes the notes; another version's tag, or a part without a date, ends the run."""
    [script] = [script for script in steps("run") if "CHANGELOG.md" in script]
    (tmp_path / "dist").mkdir()
    program = tmp_path / "dist/hostrouting.pyz"
    program.write_text("#!/bin/sh\necho 'hostrouting 1.2.3 (sources 0123456789ab)'\n")
    program.chmod(0o755)
    part = "## 1.2.3 - 2026-01-01\n\n- The [second](docs/second.md).\n\n### More\n\n"
    notes = f"# Changelog\n\n## 1.2.30 - 2026-02-01\n\n{part}## 1.2.2 - 2025-12-01\n"
    change_log = tmp_path / "CHANGELOG.md"
    change_log.write_text(notes)

    def code(tag: str) -> int:
        forge = {"GITHUB_SERVER_URL": "https://forge", "GITHUB_REPOSITORY": "we/hostrouting"}
        env = {"GITHUB_REF_NAME": tag, "PATH": "/usr/bin:/bin", **forge}
        bash = [shutil.which("bash") or "", "-e", "-o", "pipefail", "-c", script]
        return completed(bash, cwd=tmp_path, env=env).returncode

    assert code("v1.2.3") == 0
    right = part.replace("docs/", "https://forge/we/hostrouting/blob/v1.2.3/docs/")
    assert (tmp_path / "notes.md").read_text() == right
    assert code("v1.2.30") != 0
    change_log.write_text(notes.replace("2026-01-01", "unreleased"))
    assert code("v1.2.3") != 0
