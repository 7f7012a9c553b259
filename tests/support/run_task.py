"""Runs a task on the host where this is started, as an agent would: `run_task.py TASK WAIT`, the configuration on stdin.

WAIT is for how many seconds the task waits for what it needs. The report is printed; the exit status is the report's.
"""

import logging
import sys

import hostrouting
import phases


def main(name: str, wait: float) -> int:
    """Run it."""
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(levelname)s %(message)s")
    config = hostrouting.HostRoutingConfig.from_json(sys.stdin.read())
    task = hostrouting.Remove(config) if name == "Remove" else getattr(hostrouting, name)(config, wait=wait)
    report = phases.run(task)
    sys.stdout.write(f"{report}\n")
    return report.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2])))
