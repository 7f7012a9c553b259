"""hostrouting.boot.on_disk: what is ours of the files of a host."""

import json

import attrs
import pytest
from hypothesis import given

from hostrouting.boot.files import wanted_files
from hostrouting.boot.on_disk import gated_on_disk, owned_paths, proof_of_installation
from hostrouting.boot.program import Program
from hostrouting.config.settings import MACHINES, HostRoutingConfig
from hostrouting.host.layout import DROP_IN, HostLayout
from hostrouting.testing import FakeFiles, FakeHost
from hostrouting.testing.interpreter import FakeInterpreter
from tests.hostrouting.boot.test_files import FULL, IMAGE
from tests.support.configs import configs

LAYOUT = HostLayout()


def put(config: HostRoutingConfig) -> FakeFiles:
    files = FakeFiles()
    for file in wanted_files(IMAGE, config):
        file.write(files)
    return files


@given(configs())
def test_owned(config: HostRoutingConfig) -> None:
    """All files of ours are found: drop-ins first, then the program, config.json last."""
    host = put(config)
    ours = {*host.texts, *host.programs, *host.links}
    for path in (
        f"/etc/systemd/system/{MACHINES}",
        f"/etc/systemd/system/b.service.d/{DROP_IN}",
        "/etc/hostrouting/notes",
        "/etc/hostrouting/gate.d/50-site.sh",
    ):
        host.texts[path] = "of somebody else\n"

    owned = owned_paths(host)

    assert sorted(owned) == sorted(ours)
    drop_ins = [path for path in owned if path.endswith(DROP_IN)]
    assert list(owned[: len(drop_ins)]) == drop_ins
    written_first = (LAYOUT.program_path, LAYOUT.python_path, LAYOUT.config_path)
    last = [path for path in written_first if path in ours]
    assert list(owned[len(owned) - len(last) :]) == last
    assert proof_of_installation(host) == [*owned[: len(owned) - len(last)]]


@pytest.mark.parametrize(
    ("document", "is_kept"),
    [({"hostRouting": FULL.to_mapping()}, True), ({"hostRouting": 5}, False)],
)
def test_a_config_json_in_another_layout(document: object, *, is_kept: bool) -> None:
    """It stays as it is if it says the same."""
    host = FakeHost()
    host.files.texts[LAYOUT.config_path] = json.dumps(document)
    written = {file.path: file for file in wanted_files(host, FULL)}[LAYOUT.config_path]
    assert written.differs(host.files) is not is_kept


def test_the_opening_alone() -> None:
    """It is the administrator's. Beside what a removal that was ended has left, it goes."""
    files = FakeFiles({LAYOUT.opening_path: "ticket 4711\n"})
    assert owned_paths(files) == ()
    files.texts[LAYOUT.config_path] = ""
    assert owned_paths(files) == (LAYOUT.opening_path, LAYOUT.config_path)
    del files.texts[LAYOUT.config_path]
    files.texts[f"{LAYOUT.config_path}.new"] = ""
    assert owned_paths(files) == (f"{LAYOUT.config_path}.new", LAYOUT.opening_path)


def test_which_units_are_gated() -> None:
    """Those with a drop-in of ours. What cannot be read is left out: a page says what is known."""
    files = put(FULL)
    files.texts[LAYOUT.drop_in_path("a.service")] = "of somebody else\n"
    files.links[LAYOUT.drop_in_path("b.service")] = "/etc"
    files.texts[LAYOUT.drop_in_path("c.d.service")] = files.texts[LAYOUT.drop_in_path(MACHINES)]
    assert gated_on_disk(files) == ("c.d.service", MACHINES)


@pytest.mark.parametrize(
    ("path", "link"), [("/usr/bin/python3.12", "/usr/bin/python3.12"), ("", "/usr/bin/python3")]
)
def test_the_interpreter(path: str, link: str) -> None:
    """A host's compiles the program; an image gets only sources."""
    interpreter = FakeInterpreter(path=path)
    host = FakeHost(interpreter=interpreter)
    image = attrs.evolve(FakeHost.image(), interpreter=interpreter)
    for each, compiles in ((host, interpreter), (image, None)):
        program, python, *_ = wanted_files(each, FULL)
        assert isinstance(program, Program)
        assert program.interpreter is compiles
        assert python.target == link


@pytest.mark.parametrize("path", [LAYOUT.program_path, LAYOUT.drop_in_path("kubelet.service")])
def test_what_a_killed_writer_has_left(path: str) -> None:
    """Its temporary file is removed, and is no sign that a configuration was installed."""
    files = FakeFiles(texts={f"{path}.new": "half"})
    assert owned_paths(files) == (f"{path}.new",)
    assert proof_of_installation(files) == []


@pytest.mark.parametrize(
    ("text", "target", "is_ours"),
    [
        (None, LAYOUT.unit_path(LAYOUT.routes_unit), True),
        ("[Unit]\n", LAYOUT.unit_path(LAYOUT.routes_unit), False),
        (None, "/etc/another.service", False),
    ],
)
def test_the_link_that_starts_a_unit(text: str | None, target: str, *, is_ours: bool) -> None:
    """The link is ours where the unit is ours or missing; one that leads elsewhere is not."""
    link = LAYOUT.enabled_path(LAYOUT.routes_unit)
    files = FakeFiles(links={link: target})
    if text is not None:
        files.texts[LAYOUT.unit_path(LAYOUT.routes_unit)] = text
    assert owned_paths(files) == ((link,) if is_ours else ())
