"""A clean-up after another CNI: one class that says what is stale, and nothing else; only public names are used."""

from typing import ClassVar

import attrs

import phases
from hostrouting import Cleanup, CleanupEntry, CleanupFacts, CleanupPlan, CleanupResult, Route
from hostrouting.testing import FakeFiles, FakeHost, plain_vm


@attrs.frozen
class CleanToy(Cleanup):
    """Delete the routes that the toy CNI left: those of its protocol to addresses that its list does not have."""

    name: ClassVar[str] = "clean-toy"
    cni: ClassVar[str] = "toy"
    is_dry_run = False

    def judge(self, facts: CleanupFacts) -> CleanupPlan:
        """Each route of protocol 99."""
        pods = (facts.read("/run/toy/pods") or "").split()
        entries = []
        for route in facts.snapshot.routes:
            if route.protocol == 99:
                is_known = str(route.prefix.ip) in pods
                told = "is in the list" if is_known else "is not in the list"
                entries.append(CleanupEntry("route", str(route), "keep" if is_known else "delete", told, route))
        return CleanupPlan(entries=tuple(entries))


def test_there_and_back() -> None:
    """The plan shows what is stale, the task deletes it after it has recorded it."""
    kernel = plain_vm()
    kernel.add_link("toy0")
    for ip in ("10.5.0.1", "10.5.0.2"):
        kernel.ip_route("add", Route.to(f"{ip}/32", dev="toy0", protocol=99))
    host = FakeHost(kernel=kernel, files=FakeFiles({"/run/toy/pods": "10.5.0.2"}))
    assert "delete route 10.5.0.1/32 dev toy0" in str(phases.plan(CleanToy(host=host)))
    result = phases.execute(CleanToy(host=host))
    assert isinstance(result, CleanupResult)
    assert result.undo_file == "/var/lib/hostrouting/toy-1.undo"
    assert "10.5.0.1" not in str(kernel)
    assert "10.5.0.2" in str(kernel)
