"""Prints what a hostrouting.pyz contains, as a bill of materials in the form of CycloneDX.

Run it in the folder of the sources, with the Python that made the file: python sbom.py FILE
"""

import hashlib
import json
import platform
import sys
import uuid
import zipfile
from importlib.metadata import distributions, metadata

from hostrouting.release import __version__

OURS = {"hostrouting", "phases"}


def component(distribution: str) -> dict[str, object]:
    """An installed distribution."""
    about = metadata(distribution)
    return {
        "type": "library",
        "bom-ref": f"pkg:pypi/{about['Name']}@{about['Version']}",
        "name": about["Name"],
        "version": about["Version"],
        "licenses": [{"license": {"id": about["License-Expression"]}}],
        "purl": f"pkg:pypi/{about['Name']}@{about['Version']}",
    }


def bill(path: str) -> dict[str, object]:
    """What this file contains: hostrouting, and each distribution that has a package in it."""
    with open(path, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    with zipfile.ZipFile(path) as archive:
        packages = {name.partition("/")[0] for name in archive.namelist() if "/" in name}
    others: set[str] = set()
    for distribution in distributions():
        installed = {file.parts[0] for file in distribution.files or ()}
        if installed & (packages - OURS):
            others.add(distribution.name)
    components = [component(name) for name in sorted(others)]
    ours = f"pkg:pypi/hostrouting@{__version__}"
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, digest).urn,
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": ours,
                "name": "hostrouting",
                "version": __version__,
                "hashes": [{"alg": "SHA-256", "content": digest}],
                "licenses": [{"license": {"id": "MIT"}}],
                "purl": ours,
            },
            "properties": [{"name": "python", "value": platform.python_version()}],
        },
        "components": components,
        "dependencies": [
            {"ref": ours, "dependsOn": [each["bom-ref"] for each in components]},
            *({"ref": each["bom-ref"]} for each in components),
        ],
    }


print(json.dumps(bill(sys.argv[1]), indent=2))
