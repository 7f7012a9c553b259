"""examples/fleet/npd: what the plugin says of each marker, and its configuration."""

import json
from pathlib import Path

import pytest

from tests.support.programs import EXAMPLES, completed

FOLDER = EXAMPLES / "fleet/npd"
OK = "OK: every expected CIDR leaves through an expected device"
UNKNOWN = (
    "UNKNOWN: no check has run since this host booted, or the last one has failed; "
    "on the host, run: hostrouting status"
)
DOUBT = "UNDECIDED: it is unclear whether packets to 10.0.0.0/8 should leave through eth0 or eth1"
ESCAPE = "OVERLAP: 10.9.0.0-10.9.0.9 by ib0"


@pytest.mark.linux
@pytest.mark.parametrize(
    ("marker", "text", "code", "line"),
    [
        ("ok", "ok\nNOTE: a route is not ours\n", 0, OK),
        ("ok", "", 3, UNKNOWN),
        ("undecided", f"{DOUBT}\nUNDECIDED: more\n", 3, DOUBT),
        ("detected", f"{ESCAPE}\nOVERLAP: more\n", 1, ESCAPE),
        ("other", "ok\n", 3, UNKNOWN),
    ],
)
def test_the_plugin(marker: str, text: str, code: int, line: str, tmp_path: Path) -> None:
    """It says what the marker says; without a marker, that the state is unknown."""
    (tmp_path / f"route-overlap.{marker}").write_text(text, encoding="utf-8")
    done = completed(["sh", FOLDER / "hostrouting-npd.sh", tmp_path])
    assert (done.returncode, done.stdout, done.stderr) == (code, f"{line}\n", "")


def test_the_configuration() -> None:
    """Its rule is about the condition that it declares, and runs the plugin."""
    config = json.loads((FOLDER / "hostrouting.json").read_text(encoding="utf-8"))
    [condition], [rule] = config["conditions"], config["rules"]
    assert rule["type"] == "permanent"
    assert rule["condition"] == condition["type"]
    assert rule["path"].endswith("/hostrouting-npd.sh")
