"""Writes the software bill of materials of each published file, as CycloneDX 1.6: FILE.cdx.json beside FILE.

hostrouting.pyz and the packages of Debian and rpm contain their dependencies, and list each with its version. The wheel and
the sdist contain none: an installer chooses the versions, so these list names only.
"""

import hashlib
import json
import sys
from datetime import datetime, timezone
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from hostrouting.release import __version__
from tests.support.bundle import DEPENDENCIES, moment


def bill_of(file: Path) -> dict[str, Any]:
    """The document of one published file."""
    bundle = file.suffix in {".pyz", ".deb", ".rpm"}
    names = DEPENDENCIES if bundle else DEPENDENCIES[:3]
    main = {
        **_component("hostrouting", __version__, "MIT"),
        "type": "application",
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(file.read_bytes()).hexdigest()}],
    }
    parts = [_component(name, distribution(name).version if bundle else "", _licence(name)) for name in names]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(moment(), timezone.utc).isoformat(),
            "component": {**main, "properties": [{"name": "file", "value": file.name}]},
        },
        "components": parts,
        "dependencies": [
            {"ref": main["bom-ref"], "dependsOn": [part["bom-ref"] for part in parts]},
            *({"ref": part["bom-ref"]} for part in parts),
        ],
    }


def _component(name: str, version: str, licence: str) -> dict[str, Any]:
    purl = f"pkg:pypi/{name}" + f"@{version}" * bool(version)
    found = {"type": "library", "bom-ref": purl, "name": name, "purl": purl, "licenses": [{"expression": licence}]}
    return {**found, "version": version} if version else found


def _licence(name: str) -> str:
    return distribution(name).metadata["License-Expression"] or "MIT"  # exceptiongroup does not have the field


def write_bills(folder: Path) -> None:
    """Write the bill of each file in a directory, and check each by the schema of CycloneDX."""
    from cyclonedx.schema import SchemaVersion  # noqa: PLC0415  the extra `release` has it
    from cyclonedx.validation.json import JsonStrictValidator  # noqa: PLC0415

    check = JsonStrictValidator(SchemaVersion.V1_6).validate_str
    for file in sorted(folder.iterdir()):
        text = json.dumps(bill_of(file), indent=2)
        if wrong := check(text):
            raise ValueError(f"{file.name}: its bill of materials does not follow the schema: {wrong}")
        file.with_name(f"{file.name}.cdx.json").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    write_bills(Path(sys.argv[1]))
