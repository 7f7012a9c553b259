"""Configure routing in a disk image: `Host.offline` writes the files and enables the units.

The running kernel is not changed. The image is a temporary directory, or the file system that is
mounted at DIR. When the image boots, the routes are added before the machine starts, and the
machine starts only if the check passes.
"""

import argparse
import tempfile
from pathlib import Path

import phases
from hostrouting import Configure, Host, HostRoutingConfig

SECTIONS = {
    "staticRoutes": {
        "enabled": True,
        "routes": [{"destination": "172.16.0.0/17"}, {"destination": "172.16.128.0/17"}],
    },
    "routeOverlap": {"expectedCidrs": ["172.16.0.0/16"], "mode": "STRICT"},
}
CONFIG = HostRoutingConfig.from_mapping(SECTIONS)


def build(image: Path) -> None:
    """Configure the image, and list the files in it."""
    task = Configure(CONFIG, host=Host.offline(image))
    phases.execute(task)
    for path in sorted((image / "etc").rglob("*")):
        inside = f"/{path.relative_to(image)}"
        if path.is_symlink():
            print(f"{inside} -> {path.readlink()}")
        elif path.is_file():
            print(f"{inside} ({path.stat().st_mode & 0o777:o})")
    print("\nwhat a second run would do:")
    print(phases.plan(task))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "image", metavar="DIR", nargs="?", type=Path, help="where an image is mounted"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        build((given.image or Path(folder)).resolve())
