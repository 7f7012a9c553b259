"""hostrouting.host.layout: every path and name."""

import attrs
import pytest

from hostrouting.host.layout import HostLayout


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
