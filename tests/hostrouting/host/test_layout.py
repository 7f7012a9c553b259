"""hostrouting.host.layout: every path and name."""

import pytest

from hostrouting.host.layout import HostLayout


def test_where_a_clean_up_is_written_down() -> None:
    """Each undo file has a different path, in a directory that survives a reboot, also below another root."""
    assert HostLayout().undo_file("azure-vnet", 3) == "/var/lib/hostrouting/azure-vnet-3.undo"
    assert HostLayout(root="/mnt").undo_file("azure-vnet", 1) == "/mnt/var/lib/hostrouting/azure-vnet-1.undo"


@pytest.mark.parametrize("root", ["/mnt/image", "/mnt/image/", "/mnt/my image"])
def test_rooted_elsewhere(root: str) -> None:
    """Files of an image are below its root, and the folders that scripts and units name are those that the image will see."""
    host, image = HostLayout(), HostLayout(root=root)
    paths = {
        name: path for name in dir(host) if name.endswith("_path") and isinstance(path := getattr(host, name), str)
    }
    assert len(paths) > 5
    assert {name: getattr(image, name) for name in paths} == {name: image.at(path) for name, path in paths.items()}
    assert (image.gate_directory, image.unit_directory) == (host.gate_directory, host.unit_directory)
    assert image.drop_in_path("kubelet.service") == image.at(host.drop_in_path("kubelet.service"))


@pytest.mark.parametrize("root", ["", "etc", "/etc/\0"])
def test_a_root_is_absolute(root: str) -> None:
    """A relative root would depend on the directory in which a program runs."""
    with pytest.raises(ValueError, match="is not an absolute path"):
        HostLayout(root=root)
