"""examples/fleet/npd: what the plugin says of each marker, and its configuration."""

import json
from pathlib import Path

import pytest

from tests.support.programs import EXAMPLES, completed

FOLDER = EXAMPLES / "fleet/npd"
UNKNOWN = "UNKNOWN: there is no verdict of a check since this host booted; on the host, run: hostrouting status"


@pytest.mark.linux
@pytest.mark.parametrize(
    ("marker", "text", "code", "line"),
    [
        ("ok", "ok\nNOTE: a route is not ours\n", 0, "OK: every expected CIDR leaves through an expected device"),
        ("ok", "undecided\n", 3, UNKNOWN),
        ("detected", "OVERLAP: 10.9.0.0–10.9.0.9 by ib0\nOVERLAP: more\n", 1, "OVERLAP: 10.9.0.0-10.9.0.9 by ib0"),  # noqa: RUF001  as the check writes it
        ("detected", "no-default-route\n", 1, "no-default-route"),
        ("other", "ok\n", 3, UNKNOWN),
    ],
)
def test_the_plugin(marker: str, text: str, code: int, line: str, tmp_path: Path) -> None:
    """It says what the marker says; without a marker, or undecided, that the state is unknown."""
    (tmp_path / f"route-overlap.{marker}").write_text(text, encoding="utf-8")
    done = completed(["sh", FOLDER / "hostrouting-npd.sh", tmp_path])
    assert (done.returncode, done.stdout, done.stderr) == (code, f"{line}\n", "")


def test_the_configuration() -> None:
    """Its rule is about the condition that it declares, and runs the plugin."""
    config = json.loads((FOLDER / "hostrouting.json").read_text(encoding="utf-8"))
    [condition], [rule] = config["conditions"], config["rules"]
    assert (rule["type"], rule["condition"]) == ("permanent", condition["type"])
    assert rule["path"].endswith("/hostrouting-npd.sh")
