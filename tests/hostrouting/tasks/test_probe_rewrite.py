"""RewriteProbeSource: the table, the route for the replies, and obstacles."""

from typing import Any

import pytest

import phases
from hostrouting.boot.files import render_config
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import HostError
from hostrouting.host.effects import Effects, effects_of
from hostrouting.install.installed import read_installed
from hostrouting.probe.table import TABLE, render_probe_table
from hostrouting.tasks.configure import Configure, Remove
from hostrouting.tasks.probe_rewrite import RewriteProbeSource
from hostrouting.testing import FakeHost, FakeKernel
from tests.support.tasks import LAYOUT, failure_of, ours, run

KEEPING = HostRoutingConfig(manage_foreign="keep")
KNOWN = "2603:1062:0:1:fe80:1234:5678:9abc"
RIGHT = phases.Skip("everything is as it should be")
REPLY = f"{KNOWN}/128 dev eth0 proto hostrouting metric 1024"


def rewrite(**settings: Any) -> HostRoutingConfig:
    return HostRoutingConfig.from_mapping(
        {"probeRewrite": {"enabled": True, "interfaces": ["eth0"], **settings}}
    )


def apply(host: FakeHost, **settings: Any) -> Effects:
    result = run(RewriteProbeSource(rewrite(**settings), host=host))
    assert isinstance(result, Effects)
    return result


def test_table_and_route() -> None:
    host = FakeHost()
    plan = RewriteProbeSource(rewrite(), host=host).plan()
    effects = apply(host)
    assert plan.findings == ()
    [created] = effects.operations
    assert str(created) == f"create nftables table ip6 {TABLE}    # it was missing"
    assert plan.operations == (created,)
    assert [str(change) for change in effects.changes] == [f"add {REPLY}"]
    assert host.nftables.tables[TABLE] in render_probe_table(rewrite().probe_rewrite)
    assert ours(host) == [REPLY]
    assert run(RewriteProbeSource(rewrite(), host=host)) == phases.Skip(
        "everything is as it should be"
    )


def test_warnings(caplog: pytest.LogCaptureFixture) -> None:
    kernel = FakeKernel(ipv6_forwarding=False)
    kernel.add_link("eth0")
    host = FakeHost(kernel=kernel)
    findings = RewriteProbeSource(rewrite(interfaces=["eth9"]), host=host).plan().findings
    assert [(it.name, it.severity, it.target) for it in findings] == [
        ("probe-rewrite", "warning", "net.ipv6.conf.all.forwarding"),
        ("route-waits", "warning", f"{KNOWN}/128"),
    ]
    apply(host)
    assert "forwarding is 0, so no probe is forwarded" in caplog.text
    assert TABLE in host.nftables.tables


def test_an_image() -> None:
    """It gets no table: that of this machine is another host's."""
    host = FakeHost.image()
    assert apply(host).files
    assert host.nftables.tables == {}


class TestNft:
    """nft is asked only where somebody may have loaded the table."""

    def test_was_wanted(self) -> None:
        """A failing nft is an error then, before anything else is taken away."""
        host = FakeHost()
        apply(host)
        before = dict(host.files.texts)
        host.nftables.fault = HostError("nft failed", what="nft", kind="not-permitted")
        failure_of(run, Remove(host=host), of=HostError, match="nft failed")
        assert host.files.texts == before
        new = FakeHost()
        new.nftables.fault = host.nftables.fault
        failure_of(apply, new, of=HostError, match="nft failed")
        assert new.files.texts == {}

    @pytest.mark.parametrize("make", [Configure, RewriteProbeSource])
    def test_another_program_deletes_the_table(self, make: type[Configure]) -> None:
        """The error says that it was created, twice."""
        host = FakeHost()
        for nth in (5, 7):
            host.nftables.meanwhile(host.nftables.tables.clear, nth=nth)
        error = failure_of(run, make(rewrite(), host=host), match="changes nftables")
        assert [operation.verb for operation in effects_of(error).operations] == ["create"] * 2

    def test_nobody_asked_for_it(self) -> None:
        """If this process may not ask, or Linux has no nftables, that does not matter."""
        host = FakeHost()
        host.nftables.fault = HostError("nft failed", what="nft", kind="not-permitted")
        for text in ("{", "", render_config(KEEPING)):
            host.files.texts[LAYOUT.config_path] = text
            task = Configure(KEEPING, host=host, allow_removal=True)
            assert task.plan().findings == ()
            run(task)
            assert read_installed(host) == KEEPING
