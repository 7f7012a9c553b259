"""examples/fleet/npd: what the plugin says of each marker, and its configuration."""

import json
from pathlib import Path

import pytest

from hostrouting.host.layout import HostLayout
from hostrouting.tasks.overlap_check import CheckRouteOverlap
from hostrouting.testing import FakeHost, plain_vm
from tests.support.programs import EXAMPLES, completed
from tests.support.tasks import config, run

FOLDER = EXAMPLES / "fleet/npd"
UNKNOWN = (
    "UNKNOWN: no check has run since this host booted, or the last one has failed; "
    "on the host, run: hostrouting status"
)
DOUBT = "UNDECIDED: it is unclear whether packets to 10.0.0.0/8 should leave through eth0 or eth1"


@pytest.mark.linux
@pytest.mark.parametrize(
    ("marker", "text", "code", "line"),
    [
        (
            "ok",
            "ok\nNOTE: a route is not ours\n",
            0,
            "OK: every expected CIDR leaves through an expected device",
        ),
        ("ok", "", 3, UNKNOWN),
        ("undecided", f"{DOUBT}\nUNDECIDED: more\n", 3, DOUBT),
        (
            "detected",
            "OVERLAP: 10.9.0.0-10.9.0.9 by ib0\nOVERLAP: more\n",
            1,
            "OVERLAP: 10.9.0.0-10.9.0.9 by ib0",
        ),
        ("other", "ok\n", 3, UNKNOWN),
    ],
)
def test_the_plugin(marker: str, text: str, code: int, line: str, tmp_path: Path) -> None:
    """It says what the marker says; without a marker, that the state is unknown."""
    (tmp_path / f"route-overlap.{marker}").write_text(text, encoding="utf-8")
    done = completed(["sh", FOLDER / "hostrouting-npd.sh", tmp_path])
    assert done.returncode == code
    assert done.stdout == f"{line}\n"
    assert done.stderr == ""


@pytest.mark.linux
def test_an_undecided_check(tmp_path: Path) -> None:
    """After a check of the library that is undecided, the plugin says UNDECIDED and what the doubt
    is.
    """
    host = FakeHost(kernel=plain_vm())
    host.faults.is_restless = True  # the tables keep changing while they are read
    run(CheckRouteOverlap(config(cidrs=("10.0.0.0/8",)), host=host))
    for path in HostLayout.markers:
        if path in host.files.texts:
            (tmp_path / Path(path).name).write_text(host.files.texts[path])
    done = completed(["sh", FOLDER / "hostrouting-npd.sh", tmp_path])
    assert done.returncode == 3
    assert done.stdout.startswith("UNDECIDED: the route tables kept changing")


def test_the_configuration() -> None:
    """Its rule is about the condition that it declares, and runs the plugin."""
    config = json.loads((FOLDER / "hostrouting.json").read_text(encoding="utf-8"))
    [condition], [rule] = config["conditions"], config["rules"]
    assert rule["type"] == "permanent"
    assert rule["condition"] == condition["type"]
    assert rule["path"].endswith("/hostrouting-npd.sh")
