"""A node bootstrap agent in thirty lines: steps, a retry, a parallel part, a deadline; stop it with Ctrl-C.

The steps stand in for real ones and change nothing. `--fail` lets one of them break, `--plan` only says what would
be done; any other word is the name of a step to run alone.
"""

import logging
import sys

import phases


@phases.task("download", plan=lambda _ctx: "would fetch the machine's image")
def download(ctx: phases.Context) -> str:
    """Fetch the image; the network is not up at the first attempt."""
    ctx.sleep(0.2)
    if ctx.attempt == 1:
        raise ConnectionError("network is unreachable")
    return "image.raw"


@phases.task("unpack")
def unpack(ctx: phases.Context) -> None:
    """Unpack it, whole or not at all: an order to stop waits until it is done."""
    with ctx.shielded(grace=30) as safe:
        safe.sleep(0.3)


@phases.task("configure-host", plan=lambda _ctx: "would route 172.16.0.0/16 by eth0")
def configure_host(ctx: phases.Context) -> None:
    """Make the host's routing right; here is where hostrouting.Configure will stand."""
    ctx.log.info("172.16.0.0/16 leaves by eth0", extra={"dev": "eth0"})


@phases.task("start-machine", undo=lambda ctx: ctx.log.info("stopped"))
def start_machine(ctx: phases.Context) -> None:
    """Start the machine."""
    ctx.sleep(0.1)
    if "--fail" in sys.argv:
        raise RuntimeError("machine kube1 exited with code 1")


bootstrap = phases.serial(
    phases.retry(download, attempts=3, delay=0.1, on=ConnectionError),
    phases.parallel(unpack, configure_host, name="prepare"),
    phases.deadline(start_machine, 60),
    name="bootstrap",
)

if __name__ == "__main__":
    handler = logging.StreamHandler()
    handler.setFormatter(phases.LogfmtFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    if "--plan" in sys.argv:
        print(phases.plan(bootstrap))
        sys.exit()
    try:
        report = phases.run(bootstrap, only=[word for word in sys.argv[1:] if not word.startswith("-")])
    except phases.UnknownTask as error:
        sys.exit(str(error))
    print(report)
    sys.exit(report.exit_code)
