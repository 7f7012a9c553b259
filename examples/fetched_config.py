"""How a task installs a configuration that an earlier task of the same run has fetched.

`python examples/fetched_config.py` does so on a fake host. The last task fails, and the undo
removes what was installed.
"""

import phases
from hostrouting import Configure, Host, HostRoutingConfig
from hostrouting.testing import FakeHost


@phases.task("fetch")
def fetch(_ctx: phases.Context) -> str:
    """Get the configuration, such as from the metadata of a cloud."""
    return '{"routeOverlap": {"expectedCidrs": ["10.96.0.0/16"], "mode": "STRICT"}}'


class ConfigureFetched:
    """Install what `fetch` has returned.

    It has no `plan`, because a dry run fetches nothing: its report says `offers no plan`. `skip`
    cannot name the tasks inside, which do not exist before the run. An undo finds the task that has
    run in `subtasks`.
    """

    name = "configure-fetched"
    subtasks: tuple[Configure, ...] = ()

    def __init__(self, host: Host) -> None:
        self.host = host

    def do(self, ctx: phases.Context) -> object:
        """Make the task that installs it, and run it inside this one.

        A further attempt keeps the task, which knows what was there before the first one.
        """
        config = HostRoutingConfig.from_json(ctx.find(fetch).result or "")
        configure = Configure(config, host=self.host)
        if configure not in self.subtasks:
            self.subtasks = (configure,)
        return phases.execute(self.subtasks[0], ctx)


@phases.task("join-cluster")
def join_cluster(_ctx: phases.Context) -> None:
    """Fail, to show the undo."""
    raise OSError("no answer")


if __name__ == "__main__":
    host = FakeHost()
    agent = phases.serial(fetch, ConfigureFetched(host), join_cluster, name="agent")
    print(phases.run(agent, undo_on_failure=True))
    print(host.files.texts)
