"""A configuration with every key, and the keys of a JSON value by their paths."""

from __future__ import annotations

from typing import Any

__all__ = ["COMPLETE", "keys_of"]

COMPLETE: dict[str, Any] = {
    "staticRoutes": {"enabled": True, "routes": [{"destination": "10.1.0.0/16"}]},
    "routeOverlap": {},
    "probeRewrite": {"imds": {}},
    "azureVnetCleanup": {"managed": ["10.240.0.0/16"], "what": {}},
    "guard": {},
}


def keys_of(document: object, path: str = "") -> dict[str, object]:
    """Every key of a JSON value by its path, with what it has there."""
    if isinstance(document, dict):
        own = {f"{path}{key}": value for key, value in document.items() if not isinstance(value, dict)}
        inner = [keys_of(value, f"{path}{key}{'[]' * isinstance(value, list)}.") for key, value in document.items()]
        return {key: value for found in (own, *inner) for key, value in found.items()}
    if isinstance(document, list):
        return {key: value for item in document for key, value in keys_of(item, path).items()}
    return {}
