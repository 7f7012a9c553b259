"""The note of `check` about systemd-networkd, which deletes routes of other programs when it
restarts, unless it is told to keep them.
"""

import json

import pytest

from hostrouting.testing import FakeHost, h200
from tests.support.cli import say
from tests.support.tasks import CIDR

NETIF = "/run/systemd/netif"

AT_BOOT = {f"{NETIF}/leases/.keep": "", f"{NETIF}/links/.keep": ""}
"""The folders that systemd-tmpfiles makes, without a file of networkd's."""

UNMANAGED = {
    f"{NETIF}/state": "OPER_STATE=routable\n",
    f"{NETIF}/links/1": "# Private.\nADMIN_STATE=unmanaged\nOPER_STATE=carrier\n",
    f"{NETIF}/links/2": "# Private.\nADMIN_STATE=unmanaged\nOPER_STATE=routable\n",
}


def networkd_notes(host: FakeHost, keep: str = "leave") -> int:
    """How many notes about systemd-networkd a check of this host has."""
    settings = {"routeOverlap": {"expectedCidrs": [CIDR]}, "manageForeign": keep}
    said = say("check", "--config", "-", "--json", host=host, stdin=json.dumps(settings).encode())
    findings = said.json["findings"]
    notes = [finding["target"] for finding in findings if finding["severity"] == "note"]
    return notes.count("systemd-networkd.service")


@pytest.mark.parametrize("files", [AT_BOOT, UNMANAGED], ids=["at boot", "unmanaged"])
def test_a_networkd_that_manages_nothing(files: dict[str, str]) -> None:
    """A check does not name it: its folders are there at every boot."""
    host = FakeHost(kernel=h200())
    host.files.texts.update(files)
    assert networkd_notes(host) == 0


@pytest.mark.parametrize(
    ("state", "notes"), [("pending", 0), ("configuring", 1), ("configured", 1), ("failed", 1)]
)
def test_a_device_that_networkd_manages(state: str, notes: int) -> None:
    """A check names networkd as soon as it configures a device."""
    host = FakeHost(kernel=h200())
    host.files.texts.update(UNMANAGED)
    host.files.texts[f"{NETIF}/links/3"] = f"ADMIN_STATE={state}\n"
    assert networkd_notes(host) == notes


FOLDER = "systemd/networkd.conf.d"


def host_with_networkd() -> FakeHost:
    """A host whose eth0 systemd-networkd has configured."""
    host = FakeHost(kernel=h200())
    host.files.texts[f"{NETIF}/links/2"] = "ADMIN_STATE=configured\n"
    return host


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (f"/etc/{FOLDER}/10-own.conf", "ManageForeignRoutes=no\n"),
        (f"/run/{FOLDER}/10-own.conf", " ManageForeignRoutes = off \n"),
        (f"/usr/local/lib/{FOLDER}/10-own.conf", "ManageForeignRoutes=no\n"),
        ("/usr/lib/systemd/networkd.conf", "ManageForeignRoutes=False\n"),
        ("/etc/systemd/networkd.conf", "ManageForeignRoutes=OFF\n"),
    ],
)
def test_a_networkd_that_keeps_static_routes(path: str, text: str) -> None:
    """There is no note where somebody else tells networkd to keep the routes of other programs."""
    host = host_with_networkd()
    host.files.texts[path] = f"[Network]\n{text}"
    assert networkd_notes(host) == 0


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("manageforeignroutes=no\n", id="another name"),
        pytest.param("#ManageForeignRoutes=no\n", id="a comment"),
        pytest.param("ManageForeignRoutes=\nno\n", id="no value"),
        pytest.param("ManageForeignRoutes=yes\n", id="the contrary"),
    ],
)
def test_a_networkd_that_is_told_nothing(text: str) -> None:
    """There is a note where its configuration does not have the setting as systemd reads it."""
    host = host_with_networkd()
    host.files.texts["/etc/systemd/networkd.conf"] = f"[Network]\n{text}"
    assert networkd_notes(host) == 1


@pytest.mark.parametrize(("keep", "notes"), [("leave", 1), ("keep", 0)])
def test_a_networkd_that_we_tell_to_keep_static_routes(keep: str, notes: int) -> None:
    """There is no note if the configuration that is checked has `manageForeign`."""
    assert networkd_notes(host_with_networkd(), keep) == notes
