"""hostrouting.host.layout: every path and name."""

import attrs
import pytest

from hostrouting.host.layout import HostLayout


def test_where_everything_is() -> None:
    """Every path is the one that people and other programs expect."""
    layout = HostLayout()
    assert {name: getattr(layout, name) for name in dir(layout) if name.endswith("_path")} == {
        "routes_script_path": "/etc/hostrouting/static-routes.sh",
        "check_script_path": "/etc/hostrouting/check-route-overlap.sh",
        "routes_alias_path": "/etc/aks-flex-node/static-routes.sh",
        "check_alias_path": "/etc/aks-flex-node/check-route-overlap.sh",
        "probe_script_path": "/etc/hostrouting/probe-rewrite.sh",
        "routes_unit_path": "/etc/systemd/system/static-routes.service",
        "check_unit_path": "/etc/systemd/system/check-route-overlap.service",
        "probe_unit_path": "/etc/systemd/system/probe-rewrite.service",
        "routes_enabled_path": "/etc/systemd/system/multi-user.target.wants/static-routes.service",
        "routes_preset_path": "/etc/systemd/system-preset/50-hostrouting-static-routes.preset",
        "probe_enabled_path": "/etc/systemd/system/multi-user.target.wants/probe-rewrite.service",
        "probe_preset_path": "/etc/systemd/system-preset/50-hostrouting-probe-rewrite.preset",
        "gate_unit_path": "/etc/systemd/system/host-routing-gate.service",
        "gate_script_path": "/etc/hostrouting/host-routing-gate.sh",
        "gate_steps_path": "/etc/hostrouting/host-routing-gate.conf",
        "opening_path": "/etc/hostrouting/gate.open",
        "protocol_name_path": "/etc/iproute2/rt_protos.d/hostrouting.conf",
        "detected_path": "/run/aks-flex-node/route-overlap.detected",
        "ok_path": "/run/aks-flex-node/route-overlap.ok",
        "guard_path": "/run/hostrouting/guard.json",
        "guard_lock_path": "/run/hostrouting/guard.lock",
        "guard_unit_path": "/etc/systemd/system/hostrouting-guard.service",
        "guard_enabled_path": "/etc/systemd/system/multi-user.target.wants/hostrouting-guard.service",
        "guard_preset_path": "/etc/systemd/system-preset/50-hostrouting-guard.preset",
        "figures_path": "/run/hostrouting/hostrouting.prom",
        "npd_path": "/run/aks-flex-node/route-overlap.npd",
        "report_path": "/run/aks-flex-node/route-overlap.json",
        "unfinished_path": "/run/aks-flex-node/route-overlap.new",
        "probe_applied_path": "/run/hostrouting/probe-rewrite.applied",
        "probe_unfinished_path": "/run/hostrouting/probe-rewrite.new",
        "rules_script_path": "/etc/hostrouting/kernel-rules.sh",
        "rules_unit_path": "/etc/systemd/system/kernel-rules.service",
        "rules_enabled_path": "/etc/systemd/system/multi-user.target.wants/kernel-rules.service",
        "rules_preset_path": "/etc/systemd/system-preset/50-hostrouting-kernel-rules.preset",
        "cleanup_path": "/etc/hostrouting/azure-vnet-cleanup.json",
        "networkd_path": "/etc/systemd/networkd.conf.d/50-hostrouting.conf",
        "lock_path": "/run/hostrouting/host-routing.lock",
    }


def test_where_a_clean_up_is_written_down() -> None:
    """Each undo file has a different path, in a directory that survives a reboot, also below another root."""
    assert HostLayout().undo_file("azure-vnet", 3) == "/var/lib/hostrouting/azure-vnet-3.undo"
    assert HostLayout(root="/mnt").undo_file("azure-vnet", 1) == "/mnt/var/lib/hostrouting/azure-vnet-1.undo"


@pytest.mark.parametrize("root", ["/mnt/image", "/mnt/image/", "/mnt/my image"])
def test_rooted_elsewhere(root: str) -> None:
    """Files of an image are below its root, and the paths inside them are those that the image itself will see."""
    host, image = HostLayout(), HostLayout(root=root)
    for name in (name for name in dir(host) if name.endswith("_path")):
        assert getattr(image, name) == root.rstrip("/") + getattr(host, name)
    for name in (name for name in dir(host) if name.startswith("former_")):
        assert getattr(image, name) == tuple(root.rstrip("/") + path for path in getattr(host, name))
    for name in ("routes_script", "check_script", "probe_script", "gate_script", "gate_steps", "lock"):
        assert getattr(image, name) == getattr(host, name)


@pytest.mark.parametrize("name", [field.name for field in attrs.fields(HostLayout)])
@pytest.mark.parametrize(
    "value", ["", "etc", "/etc/", "/etc/a b", "/etc/a'b", "/etc/%n", "/etc/a\nb", "/etc/../b", "/"]
)
def test_names_that_would_mean_something(name: str, value: str) -> None:
    """A directory with characters special to units or shells is refused; a root only has to be absolute."""
    if name == "root" and value.startswith("/"):
        HostLayout(root=value)
        return
    with pytest.raises(ValueError, match=name):
        HostLayout(**{name: value})


def test_scripts_are_not_in_the_agents_folder() -> None:
    """The agent removes its folder, and the links there would be links to themselves."""
    with pytest.raises(ValueError, match="config_directory: '/etc/x' is the agent's folder"):
        HostLayout(config_directory="/etc/x", agent_directory="/etc/x")


def test_state_is_under_run() -> None:
    """The state directory is under /run, where systemd creates it and a reboot deletes it."""
    for name in ("state_directory", "runtime_directory"):
        with pytest.raises(ValueError, match=f"{name}: .* is not under /run"):
            HostLayout(**{name: "/var/lib/x"})
