"""In which order a run changes files and units, and what is true at each moment of it."""

from collections.abc import Iterator
from pathlib import Path

from hypothesis import given, settings

from hostrouting.boot.on_disk import proof_of_installation
from hostrouting.boot.units import UNITS
from hostrouting.config import GateConfig, HostRoutingConfig
from hostrouting.config.settings import gated_units
from hostrouting.host.host import Host
from hostrouting.host.layout import DROP_IN
from hostrouting.tasks.configure import Configure, Remove
from hostrouting.testing import FakeHost
from tests.hostrouting.install.test_install import apply, node, possible
from tests.support.examples import scaled
from tests.support.tasks import LAYOUT, WANTED, manager_of, run

KUBELET = "kubelet.service"
GATED = WANTED._replace(gate=GateConfig((KUBELET, "foo.service")))
NOTHING = HostRoutingConfig()
CHANGES = {"write", "link", "remove", "reload", "start", "stop", "route", "nft"}


def is_read(host: FakeHost, *units: str) -> bool:
    """Whether systemd has read the files of these units as they are."""
    shown = manager_of(host).show(("NeedDaemonReload",), *units)
    return all(properties["NeedDaemonReload"] == "no" for properties in shown)


class Moments:
    """What is wrong at any moment of a run, since whatever comes next may be the kill."""

    def __init__(self, host: FakeHost) -> None:
        """Look at this host; what is wrong is kept, because what `look` raised would be caught."""
        self.wrong: list[str] = []
        self._host = host
        self._judged: str | None = None
        """The configuration that the markers are about."""

    def look(self, event: str) -> None:
        """Called before each effect."""
        verb, _, thing = event.partition(" ")
        faults = [*self._faults_of_files(verb, thing), *self._faults_of_systemd(verb, thing)]
        if verb in CHANGES and LAYOUT.lock_path not in self._host.files.locked:
            faults.append("the host is not locked")
        self.wrong += [f"before {event}: {fault}" for fault in faults]

    def _faults_of_files(self, verb: str, thing: str) -> Iterator[str]:
        """A marker is about the installed configuration, which other files of ours never lack."""
        texts = self._host.files.texts
        installed = texts.get(LAYOUT.config_path)
        if verb == "write" and thing.startswith("/run/aks-flex-node/"):
            self._judged = installed
        if any(marker in texts for marker in LAYOUT.markers) and self._judged != installed:
            yield "the marker is about another configuration"
        if installed is None and proof_of_installation(self._host.files):
            yield "files of ours are there without config.json"

    def _faults_of_systemd(self, verb: str, thing: str) -> Iterator[str]:
        """Whatever systemd runs, now or at the next start, is there, and config.json knows it."""
        files = self._host.files
        manager = manager_of(self._host)
        unit = thing.rpartition("/")[2]
        is_active = manager.states.get(unit) == "active"
        if verb == "remove" and thing in map(LAYOUT.unit_path, UNITS) and is_active:
            yield "the unit runs whose file goes"
        if verb == "start" and not is_read(self._host, thing):
            yield "systemd has not read the unit that it starts"
        for path in (*files.texts, *manager.read):
            is_run = path.endswith(f"/{DROP_IN}") or path in map(LAYOUT.unit_path, UNITS)
            is_there = LAYOUT.program_path in files.programs and LAYOUT.python_path in files.links
            if is_run and not is_there:
                yield f"{path} runs the program, which is missing"
        loaded = {path for path in manager.read if path.endswith(f"/{DROP_IN}")}
        if thing == LAYOUT.config_path and not loaded <= {*files.texts}:
            yield "a drop-in that is gone is loaded"
        if LAYOUT.config_path in files.texts:
            config = HostRoutingConfig.from_json(files.texts[LAYOUT.config_path])
            if not loaded <= {*map(LAYOUT.drop_in_path, gated_units(config))}:
                yield "a unit asks the gate that is not gated"


@settings(max_examples=scaled(50))
@given(possible(), possible())
def test_each_moment(old: HostRoutingConfig, new: HostRoutingConfig) -> None:
    """Wherever a run is killed, no marker is wrong, and no unit runs a program that is missing."""
    host, mishaps = node()
    moments = Moments(host)
    mishaps.watch = moments.look
    # After a boot, all run; or they have failed, and only systemd has to do something.
    for wanted, state in ((old, "active"), (new, "failed"), (new, "active"), (NOTHING, "")):
        apply(host, wanted)
        for unit in UNITS:
            if LAYOUT.unit_path(unit) in host.files.texts:
                manager_of(host).states[unit] = state
    moments.look("the end")
    assert moments.wrong == []


def test_folders_of_an_image(tmp_path: Path) -> None:
    """Empty folders of ours go; those of systemd or others stay, and so do their files."""
    theirs = tmp_path / f"etc/systemd/system/{KUBELET}.d/10-kubeadm.conf"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("[Service]\n")
    image = Host.offline(tmp_path)
    run(Configure(GATED._replace(manage_foreign="keep"), host=image))
    run(Remove(host=image))
    assert [*tmp_path.rglob("*.d")] == [theirs.parent]
    assert not [*tmp_path.rglob("*hostrouting*")]
    assert theirs.exists()
    assert (tmp_path / "etc/systemd/system/multi-user.target.wants").is_dir()
