"""RewriteProbeSource: when nft is asked. What the table does is in test_probe_packets.py."""

import pytest

from hostrouting.boot.files import render_config
from hostrouting.config.settings import HostRoutingConfig, ProbeRewriteConfig
from hostrouting.errors import HostError
from hostrouting.host.effects import effects_of
from hostrouting.install.installed import read_installed
from hostrouting.tasks.configure import Configure, Remove
from hostrouting.tasks.probe_rewrite import RewriteProbeSource
from hostrouting.testing import FakeHost
from tests.support.tasks import LAYOUT, failure_of, run

KEEPING = HostRoutingConfig(manage_foreign="keep")
REWRITING = HostRoutingConfig(probe_rewrite=ProbeRewriteConfig(enabled=True, interfaces=("eth0",)))


def test_was_wanted() -> None:
    """A failing nft is an error then, before anything else is taken away."""
    host = FakeHost()
    run(RewriteProbeSource(REWRITING, host=host))
    before = dict(host.files.texts)
    host.nftables.fault = HostError("nft failed", what="nft", kind="not-permitted")
    failure_of(run, Remove(host=host), of=HostError, match="nft failed")
    assert host.files.texts == before
    new = FakeHost()
    new.nftables.fault = host.nftables.fault
    task = RewriteProbeSource(REWRITING, host=new)
    failure_of(run, task, of=HostError, match="nft failed")
    assert new.files.texts == {}


@pytest.mark.parametrize("make", [Configure, RewriteProbeSource])
def test_another_program_deletes_the_table(make: type[Configure]) -> None:
    """The error says that it was created, twice."""
    host = FakeHost()
    for nth in (5, 7):
        host.nftables.meanwhile(host.nftables.tables.clear, nth=nth)
    error = failure_of(run, make(REWRITING, host=host), match="changes nftables")
    assert [operation.verb for operation in effects_of(error).operations] == ["create"] * 2


def test_nobody_asked_for_it() -> None:
    """If this process may not ask, or Linux has no nftables, that does not matter."""
    host = FakeHost()
    host.nftables.fault = HostError("nft failed", what="nft", kind="not-permitted")
    for text in ("{", "", render_config(KEEPING)):
        host.files.texts[LAYOUT.config_path] = text
        task = Configure(KEEPING, host=host, allow_removal=True)
        assert task.plan().findings == ()
        run(task)
        assert read_installed(host) == KEEPING
