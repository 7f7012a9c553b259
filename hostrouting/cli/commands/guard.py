"""`guard`: keep the routing right until you stop it, as a service or in the foreground."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hostrouting.boot.installed import kept_config
from hostrouting.cli.changes import run_task
from hostrouting.cli.command import Command, Reply, config_option
from hostrouting.cli.source import config_again
from hostrouting.host.systemd import SystemdService
from hostrouting.tasks.guard.loop import Guard, Orders

if TYPE_CHECKING:
    import argparse

    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.host.host import Host


def _answer(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:

    here, orders = host(), Orders()

    def read() -> HostRoutingConfig:
        return _config(arguments, here)

    service = SystemdService.of(os.environ)
    follows = arguments.config is None
    guard = Guard(read(), host=here, again=read, follows=follows, orders=orders, service=service)
    run = run_task(guard, here, on_hangup=orders.reload)
    return Reply(run.code, lambda: _document(here), lambda: (), failed=run.failed)


def _config(arguments: argparse.Namespace, host: Host) -> HostRoutingConfig:
    """The named configuration, or the one that is installed on this host."""
    return kept_config(host) if arguments.config is None else config_again(arguments)


def _document(host: Host) -> dict[str, Any]:
    """The document that the guard wrote last."""
    found: dict[str, Any] = json.loads(host.files.read(host.layout.guard_path) or "{}")
    return found


COMMAND = Command(
    name="guard",
    answer=_answer,
    version=2,
    options=config_option,
    more="""\
Without --config, the guard follows the installed configuration, through each apply and remove. With --config, it keeps
to that file: static routes of any other configuration that is applied are replaced and deleted.
It looks after each change of the network that can matter, and once a minute, repairs what is hostrouting's, and writes
the verdict of the check when that changes. It never changes another program's route and never touches a gated unit.
SIGHUP makes it read the configuration again; SIGTERM and Ctrl-C end it, and change nothing.
""",
    examples="""\
# as root, until Ctrl-C: watch what another program undoes
hostrouting guard
""",
    failing="it could not begin, or ended by an error",
)
