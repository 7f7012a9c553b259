"""`preflight`: what would make a bootstrap, the next start of a gated unit or a reboot fail; changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hostrouting.boot.installed import installed_wait, kept_config
from hostrouting.boot.scripts import DEFAULT_WAIT
from hostrouting.cli.check import lasting_line
from hostrouting.cli.command import FAILED, FINE, WRONG_INPUT, Command, Reply, config_option, removal_option
from hostrouting.cli.output import Line, Painted, below, line, named_lines
from hostrouting.cli.source import config_of, quiet_context
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import ConfigError, Fault, FileError
from hostrouting.finding import of_severity
from hostrouting.tasks.configure import installed_tasks
from hostrouting.tasks.preflight import Preflight, PreflightResult
from hostrouting.text import counted

if TYPE_CHECKING:
    import argparse

    from hostrouting.host.host import Host

_CODES = {"note": FINE, "warning": FAILED, "error": WRONG_INPUT}
"""2 is also the code for bad input, as with every command: a bootstrap with such a configuration fails, too."""


def _options(parser: argparse.ArgumentParser) -> None:
    config_option(parser)
    removal_option(parser)


def _answer(arguments: argparse.Namespace, host: Callable[[], Host]) -> Reply:

    here = host()
    config = _config(arguments, here)
    wait = float(DEFAULT_WAIT)
    with suppress(FileError):  # that a script cannot be read is a finding
        wait = installed_wait(here)
    allow, file, tasks = arguments.allow_removal, arguments.config or "FILE", installed_tasks()
    preflight = Preflight(config, host=here, wait=wait, allow_removal=allow, file=file, tasks=tasks)
    found = preflight.plan(quiet_context())
    return Reply(
        _CODES[found.worst],
        lambda: _document(found),
        lambda: _page(found, arguments.config or "the installed configuration"),
    )


def _config(arguments: argparse.Namespace, host: Host) -> HostRoutingConfig:
    """The named configuration, or the one that is installed on this host. Raises ConfigError if there is neither."""
    if arguments.config is not None:
        return config_of(arguments)
    found = kept_config(host)
    if found != HostRoutingConfig():
        return found
    remedy = "name the file that is to be applied: hostrouting preflight --config FILE"
    raise ConfigError([Fault("--config", "", "is not given, and no configuration is installed on this host", remedy)])


def _document(found: PreflightResult) -> dict[str, Any]:
    return {"schema": COMMAND.schema, **found.to_mapping()}


def _page(found: PreflightResult, config: str) -> Iterator[Line]:

    errors, warnings = ([*of_severity(found.findings, name)] for name in ("error", "warning"))
    counts = f"{counted(len(errors), 'error')}, {counted(len(warnings), 'warning')}"
    if errors:
        yield line(Painted("WOULD FAIL:", "bad"), f" {counts}; apply fails on this host, or gated units do not start")
    elif any(finding.can_retry for finding in warnings):
        yield line(Painted("NOT READY:", "warn"), f" {counts}; apply would wait, and may then fail")
    elif warnings:
        yield line(Painted("DOUBTFUL:", "warn"), f" {counts}; apply succeeds on this host, as far as is known")
    else:
        yield line(Painted("READY:", "good"), f" nothing prevents {config} from working on this host")
    yield from below(named_lines(found.findings))
    if not errors:
        yield line()
        yield line(Painted("preflight judges what apply would do.", "soft"))
        yield lasting_line()


COMMAND = Command(
    name="preflight",
    answer=_answer,
    version=2,
    options=_options,
    more="""\
Without --config, the installed configuration is judged. Any user can run it, but only root can read everything.

Error: on this host as it is now, apply would fail, or no gated unit would start, now or after a reboot. Warning: either
might happen, apply would wait for something (such as a default route), a gated unit might start unchecked, or something
could not be read. The exit code is 2 with an error, 1 with a warning only, and 0 otherwise. Bad input also gives exit
code 2; with --json it is a document hostrouting/error/2, and not hostrouting/preflight/2.
""",
    examples="""\
# as root: can this configuration be applied, and will the host boot with it?
hostrouting preflight --config agent.json
""",
    failing="there are warnings, and no errors",
    blocking="there are errors",
)
