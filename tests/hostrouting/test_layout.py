"""hostrouting.layout: every path and name."""

import attrs
import pytest

from hostrouting.layout import HostLayout


def test_where_everything_is() -> None:
    """Every path is where people and other programs look for it."""
    layout = HostLayout()
    assert {name: getattr(layout, name) for name in dir(layout) if name.endswith("_path")} == {
        "routes_script_path": "/etc/aks-flex-node/static-routes.sh",
        "check_script_path": "/etc/aks-flex-node/check-route-overlap.sh",
        "routes_unit_path": "/etc/systemd/system/static-routes.service",
        "check_unit_path": "/etc/systemd/system/check-route-overlap.service",
        "routes_enabled_path": "/etc/systemd/system/multi-user.target.wants/static-routes.service",
        "routes_preset_path": "/etc/systemd/system-preset/50-hostrouting.preset",
        "routes_drop_in_path": "/etc/systemd/system/systemd-nspawn@.service.d/50-static-routes.conf",
        "check_drop_in_path": "/etc/systemd/system/systemd-nspawn@.service.d/60-check-route-overlap.conf",
        "protocol_name_path": "/etc/iproute2/rt_protos.d/hostrouting.conf",
        "detected_path": "/run/aks-flex-node/route-overlap.detected",
        "ok_path": "/run/aks-flex-node/route-overlap.ok",
        "report_path": "/run/aks-flex-node/route-overlap.json",
        "unfinished_path": "/run/aks-flex-node/route-overlap.new",
        "routes_pending_path": "/run/aks-flex-node/static-routes.pending",
        "check_pending_path": "/run/aks-flex-node/check-route-overlap.pending",
        "lock_path": "/run/aks-flex-node/host-routing.lock",
    }


@pytest.mark.parametrize("root", ["/mnt/image", "/mnt/image/", "/mnt/my image"])
def test_rooted_elsewhere(root: str) -> None:
    """Files of an image are below its root, and what they say to each other is as the image itself will see it."""
    host, image = HostLayout(), HostLayout(root=root)
    for name in (name for name in dir(host) if name.endswith("_path")):
        assert getattr(image, name) == root.rstrip("/") + getattr(host, name)
    assert image.routes_script == host.routes_script
    assert image.check_script == host.check_script


@pytest.mark.parametrize("name", [it.name for it in attrs.fields(HostLayout)])
@pytest.mark.parametrize(
    "value", ["", "etc", "/etc/", "/etc/a b", "/etc/a'b", "/etc/%n", "/etc/a\nb", "/etc/../b", "/"]
)
def test_names_that_would_mean_something(name: str, value: str) -> None:
    """A directory whose name means something to a unit or a shell is refused; a root only has to be absolute."""
    if name == "root" and value.startswith("/"):
        HostLayout(root=value)
        return
    with pytest.raises(ValueError, match=name):
        HostLayout(**{name: value})


def test_state_is_under_run() -> None:
    """The state directory is one that systemd makes and that no boot survives."""
    with pytest.raises(ValueError, match="is not under /run"):
        HostLayout(state_directory="/var/lib/x")
