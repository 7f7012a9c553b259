"""hostrouting.boot.on_disk: what is ours of the files of a host."""

import json

import pytest
from hypothesis import given

from hostrouting.boot.files import WRITER, files_of, files_on, writer_of
from hostrouting.boot.on_disk import owned_paths, proof_of_installation
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.host.layout import DROP_IN, HostLayout
from hostrouting.testing import FakeFiles, FakeHost
from tests.hostrouting.boot.test_files import FULL, PYTHON
from tests.support.configs import configs

LAYOUT = HostLayout()


def put(config: HostRoutingConfig) -> FakeFiles:
    """A host with the files of this configuration."""
    files = FakeFiles()
    for file in files_of(config, python=PYTHON):
        file.write(files)
    return files


@given(configs())
def test_owned(config: HostRoutingConfig) -> None:
    """What a host has of ours is found again, all of it and nothing else: drop-ins first, the
    program when nothing runs it any more, and config.json last.
    """
    host = put(config)
    ours = {*host.texts, *host.programs, *host.links}
    for path in (
        "/etc/systemd/system/a.service",
        f"/etc/systemd/system/b.service.d/{DROP_IN}",
        "/etc/hostrouting/notes",
        "/etc/hostrouting/gate.d/50-site.sh",
    ):
        host.texts[path] = "of somebody else\n"

    owned = owned_paths(host)

    assert set(owned) == ours
    drop_ins = [path for path in owned if path.endswith(DROP_IN)]
    assert list(owned[: len(drop_ins)]) == drop_ins
    last = [
        path
        for path in (LAYOUT.program_path, LAYOUT.python_path, LAYOUT.config_path)
        if path in ours
    ]
    assert list(owned[len(owned) - len(last) :]) == last


@pytest.mark.parametrize(
    ("writer", "is_kept"), [(WRITER, True), ("hostrouting 0.1", False), (5, False), (None, False)]
)
def test_a_config_json_in_another_layout(writer: object, *, is_kept: bool) -> None:
    """It stays as it is if this release has written it. What does not say its writer was written by
    somebody else.
    """
    host = FakeHost()
    text = json.dumps({"writtenBy": writer, "hostRouting": FULL.to_mapping()})
    host.files.texts[LAYOUT.config_path] = text
    assert writer_of(host.files) == (writer if isinstance(writer, str) else "")
    written = {file.path: file for file in files_on(host, FULL)}[LAYOUT.config_path]
    assert written.differs(host.files) is not is_kept


def test_the_opening_alone() -> None:
    """It is the administrator's."""
    assert owned_paths(FakeFiles({LAYOUT.opening_path: "ticket 4711\n"})) == ()


def test_an_earlier_release() -> None:
    """Its scripts are ours, and go after the units that ran them."""
    files = put(FULL)
    scripts = ["/etc/hostrouting/gate.sh", "/etc/hostrouting/gate.d/10-static-routes.sh"]
    for path in scripts:
        files.texts[path] = "#!/bin/bash\n"
    owned = owned_paths(files)
    units = [owned.index(path) for path in owned if "/systemd/system/" in path]
    for path in scripts:
        assert max(units) < owned.index(path) < owned.index(LAYOUT.config_path)


@pytest.mark.parametrize(
    "path",
    [
        LAYOUT.program_path,
        LAYOUT.config_path,
        LAYOUT.unit_path(LAYOUT.check_unit),
        LAYOUT.enabled_path(LAYOUT.routes_unit),
        LAYOUT.drop_in_path("kubelet.service"),
    ],
)
def test_what_a_killed_writer_has_left(path: str) -> None:
    """It wrote a temporary file, and did not rename it: that is removed, and is no sign that a
    configuration was installed.
    """
    files = FakeFiles(texts={f"{path}.new": "half"})
    assert owned_paths(files) == (f"{path}.new",)
    assert proof_of_installation(files) == []


@pytest.mark.parametrize("unit", ["a mask", "an empty file", "another program's", "elsewhere"])
def test_the_link_that_starts_a_unit(unit: str) -> None:
    """The link is ours where the unit is masked, and the mask is not. Where the unit is another
    program's, neither is. One that leads elsewhere is not ours, even beside our unit.
    """
    files = put(FULL)
    path = LAYOUT.unit_path(LAYOUT.routes_unit)
    files.texts[path] = "[Unit]\n" if unit == "another program's" else ""
    if unit == "a mask":
        del files.texts[path]
        files.links[path] = "/dev/null"
    if unit == "elsewhere":
        files.links[LAYOUT.enabled_path(LAYOUT.routes_unit)] = "/etc/another.service"
    owned = owned_paths(files)
    is_ours = unit in {"a mask", "an empty file"}
    assert (LAYOUT.enabled_path(LAYOUT.routes_unit) in owned) is is_ours
    assert path not in owned
