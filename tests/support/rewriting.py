"""RewriteProbeSource on a host with a private network namespace, its nft, and files in memory."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import attrs

import phases
from hostrouting.boot.probe import render_probe_table
from hostrouting.config.probe_rewrite import ProbeRewriteConfig
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.host.effects import Effects
from hostrouting.host.host import Host
from hostrouting.kernel.netlink import NetlinkBackend
from hostrouting.kernel.nftables import NftProgram
from hostrouting.tasks.guard.loop import Guard
from hostrouting.tasks.probe_rewrite.task import RewriteProbeSource
from hostrouting.tasks.results import Change, Standing
from hostrouting.testing import FakeFiles, FakeManager
from tests.support.guard_play import FakeService
from tests.support.namespace import Namespace
from tests.support.waiting import wait_for


def settings(**more: Any) -> ProbeRewriteConfig:
    """An enabled rewrite with eth0 as the uplink."""
    return ProbeRewriteConfig(**{"enabled": True, "interfaces": ["eth0"], **more})


def rules(**more: Any) -> str:
    """The text that nft loads."""
    return render_probe_table(settings(**more))


@attrs.define
class _Files(FakeFiles):
    """Files in memory, and /proc as seen in the namespace."""

    def read(self, path: str) -> str | None:
        if not path.startswith("/proc/"):
            return super().read(path)
        try:
            return Path(path).read_text(encoding="ascii")
        except FileNotFoundError:
            return None


class Rewriting:
    """The task on one host, and its methods."""

    def __init__(self, node: Namespace, *, wait: float | None = None, **more: Any) -> None:
        """Use this host, with these settings added to the usual ones; the task waits for this many seconds."""
        self._node = node
        self._waiting: dict[str, Any] = {} if wait is None else {"wait": wait}
        self._files = _Files()
        self._host = Host(backend=NetlinkBackend, files=self._files, manager=FakeManager(), nftables=NftProgram)
        self.changed(**more)

    def changed(self, **more: Any) -> None:
        """From now on, add these settings to the usual ones."""
        self._task = RewriteProbeSource(
            HostRoutingConfig(probe_rewrite=settings(**more)), host=self._host, **self._waiting
        )

    def apply(self) -> Effects:
        """Run the task; return its result."""
        with self._node.inside():
            done = phases.execute(self._task)
        assert not isinstance(done, phases.Skip)
        return done

    def remove(self) -> None:
        """Remove the table and the route."""
        with self._node.inside():
            self._task.undo(phases.Context())

    def plan(self) -> Change:
        """The plan of the task."""
        with self._node.inside():
            return self._task.plan(phases.Context())

    def standing(self) -> Standing:
        """What the task reports about the host."""
        with self._node.inside():
            found = self._task.standing()
        assert found is not None
        return found

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Run the guard on this host during the block."""
        service = FakeService()
        ctx = phases.Context(observers=[])

        def run() -> None:
            with self._node.inside(), suppress(phases.Cancelled):
                Guard(self._task.config, host=self._host, service=service).do(ctx)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            wait_for("the guard", lambda: "READY=1" in service.notified)
            yield
        finally:
            ctx.cancel("the test is over")
            thread.join()

    @property
    def script(self) -> str:
        """The installed boot script."""
        return self._files.texts[self._host.layout.probe_script_path]

    def boot(self, directory: Path, *words: str) -> str:
        """Run the boot script, which writes its record into this directory; what it says. The words are the gate's."""
        script = directory / "script"
        script.write_text(self.script)
        done = self._node.run("bash", str(script), *words, RUNTIME_DIRECTORY=str(directory))
        assert done.returncode == 0, done.stderr
        path = self._host.layout.probe_applied_path
        self._files.texts[path] = (directory / "probe-rewrite.applied").read_text()
        return done.stderr
