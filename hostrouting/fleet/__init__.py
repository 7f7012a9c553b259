"""Many nodes: their snapshots are judged together, by several processes or on a cluster, and grouped.

    from hostrouting import fleet
    from hostrouting import HostRoutingConfig

    if __name__ == "__main__":
        config = HostRoutingConfig.load("agent.json")
        for group in fleet.group_nodes(fleet.check_snapshots(["nodes"], config)):
            print(len(group.nodes), group.verdict_words, group.problem)

    check_snapshots   judges the snapshots at some paths; the results come one by one
    NodeResult        the result for one node: a verdict with its reasons, or why there is none
    NodeEscape        a range that escapes on it
    group_nodes       puts results with the same problem together
    NodeGroup         nodes with the same problem, and the repair that is right for all of them
    find_snapshots    the files at some paths, and the name of the node of each
    Source            one of them

Nothing here opens a connection or reads this host. The line with `__main__` is needed for `check_snapshots` without an
executor: it starts processes, and each of them imports the program's file.
"""

from hostrouting.fleet.dispatch import check_snapshots
from hostrouting.fleet.grouping import NodeGroup, group_nodes
from hostrouting.fleet.judge import NodeEscape, NodeResult, Source, find_snapshots

__all__ = ["check_snapshots", "NodeResult", "NodeEscape", "group_nodes", "NodeGroup", "find_snapshots", "Source"]
