"""CheckRouteOverlap, on hosts that exist in memory."""

import json
from contextlib import nullcontext, suppress

import attrs
import pytest

import phases
from hostrouting.check.examine import Examination
from hostrouting.check.report import repair_document
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import BackendError, RouteOverlapError
from hostrouting.host.systemd import UnitState
from hostrouting.tasks.configure import Configure, Remove
from hostrouting.tasks.overlap_check import CheckRouteOverlap
from hostrouting.testing import FakeFiles, FakeHost, FakeManager, MemoryBackend, h200
from tests.support.mishaps import mishap_host
from tests.support.tasks import CIDR, LAYOUT, REPAIR, config, configured, failure_of, run


class TestCheckRouteOverlap:
    """Check that expected CIDRs leave as expected."""

    def test_a_configuration_with_the_routes(self) -> None:
        """If the configuration already has the routes of the repair, the message does not ask to add them."""
        wanted = config("172.16.0.0/17", "172.16.128.0/17", cidrs=("172.16.0.0/16",))
        error = failure_of(run, CheckRouteOverlap(wanted, host=FakeHost(kernel=h200())))
        told = (
            "ACTION: the configuration has the routes that repair it, but this host does not; apply the configuration"
        )
        assert f"; {told}; REPAIR-COST: " in str(error)

    @pytest.mark.parametrize(
        ("old", "new", "told"),
        [
            (
                "STRICT",
                "WARN",
                "routeOverlap.mode: the mode changes from STRICT to WARN: gated units then start even while addresses escape",
            ),
            (
                "WARN",
                "STRICT",
                "the mode changes from WARN to STRICT: then no gated unit starts while an address escapes",
            ),
            ("WARN", "WARN", ""),
        ],
    )
    def test_another_mode(self, old: str, new: str, told: str, caplog: pytest.LogCaptureFixture) -> None:
        """The plan says that the mode changes, and what that means; so does the run."""
        host = FakeHost(kernel=h200())
        before, after = (config(*REPAIR, cidrs=(CIDR,), mode=mode) for mode in (old, new))
        run(Configure(before, host=host))
        look = Configure(after, host=host).preview()
        assert [finding.sentence for finding in look.findings] == [told] * bool(told)
        caplog.clear()
        run(Configure(after, host=host))
        assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [told] * bool(
            told
        )
        assert Configure(after, host=host).preview().findings == ()

    @pytest.mark.parametrize("mode", ["STRICT", "WARN"])
    @pytest.mark.parametrize(
        ("old", "new", "gone"),
        [
            (("10.50.0.0/17",), ("10.50.0.0/16",), ""),
            (("10.50.0.0/16",), ("10.50.0.0/17", "10.50.128.0/17"), ""),
            (("10.50.0.0/16", "fd00::/64"), ("10.50.0.0/17", "fd00::/48"), "10.50.128.0/17"),
            (("10.50.0.0/16", "10.51.0.0/16"), ("172.16.0.0/16", "fd00::/48"), "10.50.0.0/16 and 10.51.0.0/16"),
            (("10.50.0.0/22",), ("10.50.1.0/24",), "10.50.0.0/24 and 10.50.2.0/23"),
        ],
    )
    def test_other_cidrs(self, mode: str, old: tuple[str, ...], new: tuple[str, ...], gone: str) -> None:
        """Addresses that no new CIDR covers are no longer checked; in STRICT, this removes protection."""
        host = FakeHost(kernel=h200())
        run(CheckRouteOverlap(config(cidrs=old, mode=mode), host=attrs.evolve(host, backend=None)))
        removals = CheckRouteOverlap(config(cidrs=new, mode=mode), host=host).removals()
        told = f"routeOverlap.expectedCidrs: no longer checked: {gone}"
        assert [(found.sentence, found.severity == "error", found.remedy != "") for found in removals] == [
            (told, mode == "STRICT", mode == "STRICT")
        ] * bool(gone)

    def test_strict(self, caplog: pytest.LogCaptureFixture) -> None:
        """In STRICT an overlap raises, with range, route, repair and cost, which no log repeats; gate and markers are there."""
        host = FakeHost(kernel=h200())
        error = failure_of(run, CheckRouteOverlap(config(cidrs=("172.16.0.0/16",)), host=host), of=RouteOverlapError)
        assert str(error).startswith(
            "OVERLAP: expected CIDR 172.16.0.0/16 (172.16.0.0–172.16.255.255) routes via ib0 "  # noqa: RUF001
            "[172.16.0.0/16 proto kernel], expected eth0; ACTION: add to staticRoutes.routes: [{"
        )
        assert set(host.files.texts) == {
            LAYOUT.check_script_path,
            LAYOUT.check_unit_path,
            LAYOUT.gate_drop_in(),
            LAYOUT.gate_unit_path,
            LAYOUT.gate_script_path,
            LAYOUT.gate_steps_path,
            LAYOUT.detected_path,
            LAYOUT.report_path,
        }
        document = json.loads(host.files.texts[LAYOUT.report_path])
        assert (document["schema"], document["verdict"], document["mode"]) == (
            "hostrouting/check/3",
            "overlap",
            "STRICT",
        )
        assert host.files.texts[LAYOUT.detected_path].startswith("OVERLAP: ")
        assert "neighbours there" in str(error)
        assert ("OVERLAP" in caplog.text, "neighbours there" in caplog.text) == (False, False)

    def test_the_repair_as_routes(self) -> None:
        """The error has the routes that repair it as values; a configuration with them passes."""
        host = FakeHost(kernel=h200())
        error = failure_of(run, CheckRouteOverlap(config(cidrs=(CIDR,)), host=host), of=RouteOverlapError)
        assert isinstance(error.report, Examination)
        assert list(error.repair) == repair_document(error.report.routes)
        assert [it["destination"] for it in error.repair] == list(REPAIR)
        routes = {"enabled": True, "routes": list(error.repair)}
        run(Configure(HostRoutingConfig(routes, {"expectedCidrs": [CIDR], "mode": "STRICT"}), host=host))
        assert RouteOverlapError("it escapes").repair == ()

    @pytest.mark.parametrize("mode", ["WARN", "STRICT"])
    def test_the_marker_is_that_of_the_boot_script(self, mode: str) -> None:
        """Of an overlap the marker has the lines that say what is wrong; of none, the verdict."""
        host = FakeHost(kernel=h200())
        with suppress(phases.TaskFailed):
            run(CheckRouteOverlap(config(cidrs=(CIDR, "10.0.0.0/8"), mode=mode), host=host))
        lines = host.files.texts[LAYOUT.detected_path].splitlines()
        assert [line.split(" (")[0] for line in lines] == [f"OVERLAP: expected CIDR {CIDR}"]
        assert LAYOUT.ok_path not in host.files.texts
        run(CheckRouteOverlap(config(cidrs=("10.0.0.0/8",), mode=mode), host=host))
        assert host.files.texts[LAYOUT.ok_path] == "ok\n"
        assert LAYOUT.detected_path not in host.files.texts

    def test_own_devices(self) -> None:
        """Expected devices that are named do not wait for a default route."""
        kernel = MemoryBackend()
        kernel.add_link("eth0")
        kernel.add_address("eth0", "10.0.0.4/24")
        host = FakeHost(kernel=kernel)
        wanted = HostRoutingConfig(None, {"expectedCidrs": ["10.0.0.0/24"], "expectedDevs": ["eth0"], "mode": "STRICT"})
        run(CheckRouteOverlap(wanted, host=host))
        assert LAYOUT.ok_path in host.files.texts

    @pytest.mark.parametrize("mode", ["WARN", "STRICT"])
    def test_no_default_route(self, mode: str) -> None:
        """Without a default route by the deadline the verdict says so: STRICT fails, WARN passes."""
        host = FakeHost(kernel=MemoryBackend())
        task = CheckRouteOverlap(config(cidrs=("172.16.0.0/16",), mode=mode), host=host)
        if mode == "STRICT":
            failure_of(
                run, task, match=r"NO-DEFAULT-ROUTE: .*and none appeared within 30 s; last seen: no default route"
            )
        else:
            run(task)
        assert host.files.texts[LAYOUT.detected_path] == "no-default-route\n"

    def test_a_kernel_that_disagrees(self) -> None:
        """If the kernel's answer differs from its tables, the verdict follows the kernel, and a finding says so."""
        host = FakeHost()

        real = host.kernel.lookup
        host.kernel.lookup = lambda destinations, *_: tuple(  # type: ignore[method-assign]  # the double
            answer._replace(kind="prohibit", route=None) for answer in real(destinations)
        )
        result = run(CheckRouteOverlap(config(cidrs=("172.16.0.0/16",), mode="WARN"), host=host))
        found = result.examination  # type: ignore[attr-defined]  # a CheckResult
        assert (found.verdict, found.routes) == ("overlap", ())
        assert [it.reason for it in found.unsafe] == ["surprise"]
        (line,) = host.files.texts[LAYOUT.detected_path].splitlines()
        assert line.endswith("is refused [the kernel's own answer]; expected via eth0")
        findings = json.loads(host.files.texts[LAYOUT.report_path])["findings"]
        assert [finding["name"] for finding in findings] == ["prohibit", "unsafe", "kernel-differs"]

    def test_a_host_that_never_rests(self) -> None:
        """If the tables keep changing, the last reading is judged: an escape is reported; otherwise it is undecided."""
        kernel = h200()
        snapshot = kernel.snapshot(family=4)
        for nth in (1, 2, 3, 4, 5, 6):
            kernel.faults.fail("snapshot", BackendError("changing", last=snapshot, kind="unsettled"), nth=nth)
        host = FakeHost(kernel=kernel)
        failure_of(run, CheckRouteOverlap(config(cidrs=("172.16.0.0/16",)), host=host), match="OVERLAP")
        assert "the route tables kept changing" in host.files.texts[LAYOUT.report_path]
        run(CheckRouteOverlap(config(cidrs=("192.168.0.0/16",)), host=host))
        assert json.loads(host.files.texts[LAYOUT.report_path])["verdict"] == "undecided"

    def test_both_families_of_a_host_that_never_rests(self) -> None:
        """That the tables kept changing is noted once, not once for each family."""
        kernel = h200(dual_stack=True)
        snapshot = kernel.snapshot()
        for nth in (1, 2, 3):
            kernel.faults.fail("snapshot", BackendError("changing", last=snapshot, kind="unsettled"), nth=nth)
        host = FakeHost(kernel=kernel)
        run(CheckRouteOverlap(config(cidrs=("192.168.0.0/16", "2001:db8:99::/48")), host=host))
        findings = json.loads(host.files.texts[LAYOUT.report_path])["findings"]
        assert [finding["name"] for finding in findings].count("kernel-differs") == 1

    def test_how_long_it_holds(self, caplog: pytest.LogCaptureFixture) -> None:
        """An advertised route that expires is in the report, and not a warning in the log: it is normal."""
        kernel = h200(dual_stack=True)
        [default] = [route for route in kernel.snapshot(family=6).routes if not route.prefix.length]
        kernel.ip_route("replace", attrs.evolve(default, expires=1800))
        host = FakeHost(kernel=kernel)
        with caplog.at_level("INFO"):
            run(CheckRouteOverlap(config(cidrs=("2001:db8:99::/48",)), host=host))
        [record] = [it for it in caplog.records if "the verdict holds for" in it.message]
        assert record.levelname == "INFO"
        assert "expiry" in {finding["name"] for finding in json.loads(host.files.texts[LAYOUT.report_path])["findings"]}

    def test_what_a_check_at_boot_left(self) -> None:
        """The files of a killed check are removed as well; a running check continues."""
        host = FakeHost()
        task = CheckRouteOverlap(config(cidrs=("172.16.0.0/16",)), host=host)
        host.files.texts[LAYOUT.unfinished_path] = "half"
        run(task)
        assert LAYOUT.unfinished_path in host.files.texts, "it may be of a check that goes on"
        run(CheckRouteOverlap(config(), host=host))
        assert host.files.texts == {}
        host.files.texts[LAYOUT.unfinished_path] = "half"
        assert run(Remove(config(), host=host)) == (LAYOUT.unfinished_path,)

    def test_markers_go_after_the_gate(self) -> None:
        """A running check is stopped before its markers are removed, because it would write them again."""
        files = FakeFiles()

        class CheckUnderWay(FakeManager):
            def stop(self, unit: str) -> None:
                files.texts[LAYOUT.ok_path] = "left by a check that ends"
                super().stop(unit)

        host = FakeHost(files=files, manager=CheckUnderWay())
        run(CheckRouteOverlap(config(cidrs=("172.16.0.0/16",)), host=host))
        run(CheckRouteOverlap(config(), host=host))
        assert host.files.texts == {}

    def test_what_another_installer_left_active(self) -> None:
        """A check with RemainAfterExit of another installer is stopped, because it would pass at every start."""
        manager = FakeManager(states={LAYOUT.check_unit: UnitState("loaded", "active")})
        host = FakeHost(manager=manager)
        task = CheckRouteOverlap(config(cidrs=(CIDR,)), host=host)
        run(task)
        calls = ["stop host-routing-gate.service", "reload", "stop check-route-overlap.service"]
        assert manager.calls == calls
        run(task)
        assert manager.calls == calls, "nothing changed, so nobody is told"

    @pytest.mark.parametrize("path", [LAYOUT.report_path, LAYOUT.detected_path])
    @pytest.mark.parametrize("mode", ["WARN", "STRICT"])
    def test_a_marker_that_cannot_be_left(self, mode: str, path: str, caplog: pytest.LogCaptureFixture) -> None:
        """The result is still reported, and decides: in STRICT an overlap is the error; in WARN, and if ok, nothing fails."""
        host = FakeHost(kernel=h200())
        host.files.broken[path] = "No space left on device"
        task = CheckRouteOverlap(config(cidrs=(CIDR,), mode=mode), host=host)
        if mode == "STRICT":
            failure_of(run, task, of=RouteOverlapError)
        else:
            run(task)
            assert f"OVERLAP: expected CIDR {CIDR}" in caplog.text
        assert f"cannot write {path}: No space left on device" in caplog.text
        path = LAYOUT.ok_path if path == LAYOUT.detected_path else path
        host.files.broken[path] = "No space left on device"
        caplog.clear()
        result = run(CheckRouteOverlap(config(cidrs=("10.0.0.0/8",), mode=mode), host=host))
        assert result.log_fields()["verdict"] == "ok"  # type: ignore[attr-defined]  # a CheckResult
        assert f"cannot write {path}: No space left on device" in caplog.text

    @pytest.mark.parametrize("mode", ["WARN", "STRICT"])
    @pytest.mark.parametrize("cidr", [CIDR, "10.0.0.0/8"])
    def test_a_marker_that_cannot_be_removed(self, mode: str, cidr: str, caplog: pytest.LogCaptureFixture) -> None:
        """If an old marker cannot be removed, the log says once that it is from an earlier check; the routes decide."""
        host = FakeHost(kernel=h200())
        run(CheckRouteOverlap(config(cidrs=("10.0.0.0/8",), mode=mode), host=host))
        for path in (LAYOUT.ok_path, LAYOUT.report_path):
            host.files.broken[path] = "Read-only file system"
        caplog.clear()
        host.files.texts[LAYOUT.ok_path] = "left earlier\n"
        fails = (mode, cidr) == ("STRICT", CIDR)
        with pytest.raises(phases.TaskFailed, match="OVERLAP: ") if fails else nullcontext():
            run(CheckRouteOverlap(config(cidrs=(cidr,), mode=mode), host=host))
        said = f"cannot remove {LAYOUT.ok_path}: Read-only file system; this file holds the result of an earlier check"
        assert caplog.text.count(said) == 1
        assert f"cannot write {LAYOUT.report_path}: Read-only file system" in caplog.text

    @pytest.mark.parametrize("kind", ["a fifo", "a socket"])
    def test_what_is_in_the_place_of_a_marker(self, kind: str) -> None:
        """Something that is not a file is removed from the place of a marker, like an old marker."""
        host = FakeHost(kernel=h200())
        host.files.strange |= dict.fromkeys((LAYOUT.ok_path, LAYOUT.detected_path, LAYOUT.report_path), kind)
        run(CheckRouteOverlap(config(cidrs=("10.0.0.0/8",)), host=host))
        assert (host.files.strange, host.files.texts[LAYOUT.ok_path]) == ({}, "ok\n")

    def test_what_was_found_earlier(self) -> None:
        """If the examination fails, the marker of an earlier check is removed: it would be about another state."""
        host = FakeHost(kernel=h200())
        task = CheckRouteOverlap(config(cidrs=("10.0.0.0/8",)), host=host)
        run(task)
        assert LAYOUT.ok_path in host.files.texts
        host.kernel.faults.fail("snapshot", 5)
        failure_of(run, task)
        assert not {LAYOUT.ok_path, LAYOUT.report_path} & set(host.files.texts)

    @pytest.mark.parametrize(
        ("cidr", "mode", "stays"),
        [
            (CIDR, "STRICT", True),
            ("172.16.0.0/15", "STRICT", False),
            (CIDR, "WARN", True),
            ("172.16.0.0/17", "WARN", True),
        ],
    )
    def test_what_was_found_before_the_routes_failed(self, cidr: str, mode: str, *, stays: bool) -> None:
        """After a conflict no route has changed, so the last verdict stays, unless another check is installed.

        A check that protects less is not installed then. Kills: a run that checks nothing forgets the verdict; the marker of
        one check stands for another; the verdict is forgotten for a check that is not installed.
        """
        host = configured(config(*REPAIR, cidrs=(CIDR,)))
        found = {LAYOUT.ok_path, LAYOUT.report_path}
        assert found <= set(host.files.texts)
        failure_of(run, Configure(config(CIDR, cidrs=(cidr,), mode=mode), host=host))
        assert found & set(host.files.texts) == (found if stays else set())

    def test_what_a_machine_found_meanwhile(self) -> None:
        """What the start of a machine leaves between gate and check does not outlive a check that fails."""
        host, mishaps = mishap_host()
        found = {LAYOUT.ok_path: "ok\n", LAYOUT.report_path: "{}"}
        mishaps.watch = lambda event: host.files.texts.update(found) if event == "reload" else None
        host.kernel.faults.fail("snapshot", 5)
        failure_of(run, CheckRouteOverlap(config(cidrs=(CIDR,)), host=host))
        assert "reload" in mishaps.events
        assert not {LAYOUT.ok_path, LAYOUT.report_path} & set(host.files.texts)
