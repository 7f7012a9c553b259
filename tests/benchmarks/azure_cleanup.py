"""What azure-vnet left behind: 500 stale rules at once, beside one `ebtables -D` for each of them.

On a node in private network namespaces, as azure-vnet leaves it (`tests.support.azure_node`).
"""

import shutil
from collections.abc import Iterator
from functools import partial

from tests.benchmarks.contest import Contest, Goal, LeftOut
from tests.benchmarks.turns import timed
from tests.support.azure_node import AzureNode, azure_node, mac_of
from tests.support.azure_rules import pod_rules

__all__ = ["azure_cleanup_contests"]

_RULES = 500
_WORK = f"delete {_RULES} stale rules of azure-vnet"
# One round of one process for each rule takes about ten seconds.
_ROUNDS = 3
_DEAD = mac_of(9)
_STALE = [rule for at in range(_RULES // 2) for rule in pod_rules(f"10.1.{2 + at // 250}.{at % 250}", _DEAD)]
_TASK, _EDGE, _EACH = "CleanStaleAzureVnet", "ebtables-restore --noflush", "`ebtables -D`, one each"


def azure_cleanup_contests() -> Iterator[Contest | LeftOut]:
    """One contest: the whole task, what its batch takes of that, and a process for each rule."""
    if not shutil.which("ebtables-nft-save"):
        yield LeftOut(_WORK, "there is no `ebtables-nft` here")
        return
    methods = {_TASK: _by_task, _EDGE: _by_batch, _EACH: _one_by_one}
    times: dict[str, list[float]] = {name: [] for name in methods}
    with azure_node() as lab:
        lab.bridge_pod("live", mac_of(1), "10.1.0.5")
        before = lab.rules()
        _by_task(lab)  # what is loaded for the first time is not measured
        for _ in range(_ROUNDS):
            for name, method in methods.items():
                lab.append(*_STALE)
                times[name].append(timed(partial(method, lab)))
                if lab.rules() != before:
                    raise RuntimeError(f"{name} has not deleted the stale rules, or others too")
    goals = (Goal(_TASK, 1.0), Goal(_TASK, 1 / 10, _EACH), Goal(_EDGE, None, _EACH))
    yield Contest(_WORK, times, goals, notes=("the task looks, writes down, looks again, deletes, and looks again",))


def _by_task(lab: AzureNode) -> None:
    lab.clean()


def _by_batch(lab: AzureNode) -> None:
    lab.ebtables.delete(_STALE)


def _one_by_one(lab: AzureNode) -> None:
    for rule in _STALE:
        done = lab.node.run("ebtables-nft", "-t", "nat", "-D", *rule.split())
        if done.returncode:
            raise RuntimeError(done.stderr)
