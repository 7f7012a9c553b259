"""hostrouting.install.networkd: systemd-networkd deletes routes of other programs when it restarts,
unless it is told to keep them.
"""

import pytest

from hostrouting.config.settings import HostRoutingConfig
from hostrouting.install.networkd import find_networkd
from hostrouting.testing import FakeFiles

NETIF = "/run/systemd/netif"
FOLDER = "systemd/networkd.conf.d"
UNMANAGED = {
    f"{NETIF}/links/.keep": "",
    f"{NETIF}/state": "OPER_STATE=routable\n",
    f"{NETIF}/links/1": "# Private.\nADMIN_STATE=unmanaged\nOPER_STATE=carrier\n",
    f"{NETIF}/links/2": "# Private.\nADMIN_STATE=unmanaged\nOPER_STATE=routable\n",
}
MANAGED = {f"{NETIF}/links/2": "ADMIN_STATE=configured\n"}


def is_noted(files: dict[str, str], **settings: str) -> bool:
    """Whether there is a note about networkd."""
    config = HostRoutingConfig.from_mapping(settings)
    notes = [*find_networkd(config, FakeFiles(dict(files)))]
    assert all(note.target == "systemd-networkd.service" for note in notes)
    return bool(notes)


@pytest.mark.parametrize(
    ("state", "expected"),
    [("pending", False), ("configuring", True), ("configured", True), ("failed", True)],
)
def test_a_device_that_networkd_manages(state: str, *, expected: bool) -> None:
    """It is named as soon as it configures a device, unless we tell it to keep routes."""
    files = {**UNMANAGED, f"{NETIF}/links/3": f"ADMIN_STATE={state}\n"}
    assert is_noted(files) is expected
    assert not is_noted(files, manageForeign="keep")


@pytest.mark.parametrize(
    ("path", "text", "keeps"),
    [
        (f"/etc/{FOLDER}/10-own.conf", "ManageForeignRoutes=no\n", True),
        (f"/run/{FOLDER}/10-own.conf", " ManageForeignRoutes = off \n", True),
        (f"/usr/local/lib/{FOLDER}/10-own.conf", "ManageForeignRoutes=no\n", True),
        ("/usr/lib/systemd/networkd.conf", "ManageForeignRoutes=False\n", True),
        ("/etc/systemd/networkd.conf", "#ManageForeignRoutes=no\n", False),
        ("/etc/systemd/networkd.conf", "ManageForeignRoutes=yes\n", False),
    ],
)
def test_a_networkd_that_somebody_else_tells_to_keep_routes(
    path: str, text: str, *, keeps: bool
) -> None:
    """There is no note, if the setting is there as systemd reads it."""
    assert is_noted({**MANAGED, path: f"[Network]\n{text}"}) is not keeps
