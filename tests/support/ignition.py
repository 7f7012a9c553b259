"""What Ignition makes of a document with files and links, before the first boot of a node."""

import base64
import json
from pathlib import Path


def carry_out_ignition(document: str, root: Path) -> None:
    """Write the files and links of the document below the root."""
    storage = json.loads(document)["storage"]
    for entry in (*storage["files"], *storage["links"]):
        place = root / entry["path"][1:]
        place.parent.mkdir(parents=True, exist_ok=True)
        if "target" in entry:
            place.symlink_to(entry["target"])
        else:
            place.write_bytes(base64.b64decode(entry["contents"]["source"].removeprefix("data:;base64,")))
            place.chmod(entry["mode"])
