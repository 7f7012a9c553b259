"""RewriteProbeSource on a host with a private network namespace, its nft, and files in memory."""

from pathlib import Path
from typing import Any

import phases
from hostrouting.boot.probe_table import render_probe_table
from hostrouting.config.settings import HostRoutingConfig, ProbeRewriteConfig
from hostrouting.host.effects import Effects
from hostrouting.host.host import Host
from hostrouting.host.layout import HostLayout
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.tasks.probe_rewrite import RewriteProbeSource
from hostrouting.tasks.results import Plan
from hostrouting.testing import FakeFiles, FakeManager
from tests.support.namespace import Namespace


def settings(**more: Any) -> ProbeRewriteConfig:
    """An enabled rewrite with eth0 as the uplink."""
    return ProbeRewriteConfig(**{"enabled": True, "interfaces": ["eth0"], **more})


def rules(**more: Any) -> str:
    """The text that nft loads."""
    return render_probe_table(settings(**more))


class Rewriting:
    """The task on one host, and its methods."""

    def __init__(self, node: Namespace, **more: Any) -> None:
        """Use this host, with these settings added to the usual ones."""
        self._node, self._files = node, FakeFiles()
        self._host = Host(backend=NetlinkBackend, files=self._files, manager=FakeManager())
        self.changed(**more)

    def changed(self, **more: Any) -> None:
        """From now on, add these settings to the usual ones."""
        self._task = RewriteProbeSource(HostRoutingConfig(probe_rewrite=settings(**more)), host=self._host)

    def apply(self) -> Effects:
        """Run the task; return its result."""
        with self._node.inside():
            result = phases.execute(self._task)
        assert isinstance(result, Effects)
        return result

    def remove(self) -> None:
        """Remove the table and the route."""
        with self._node.inside():
            self._task.undo(phases.Context(observers=[]))

    def plan(self) -> Plan:
        """The plan of the task."""
        with self._node.inside():
            return self._task.plan()

    def boot(self, directory: Path) -> str:
        """Run the installed script, which has to succeed; returns what it says."""
        script = directory / "script.sh"
        script.write_text(self._files.texts[HostLayout.step_path(HostLayout.probe_step)])
        done = self._node.run("bash", str(script))
        assert done.returncode == 0, done.stderr
        return done.stderr
