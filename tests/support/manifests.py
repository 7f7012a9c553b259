"""Kubernetes manifests: read from YAML, and compared with the fields that their kinds have.

Here: the fields of the kinds that the examples use, by the API reference of Kubernetes, and for NodeReadinessRule by its
CRD. Not here: what the manifests should say (tests/examples).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

_NAMES = {str: str}
_META = {"name": str, "namespace": str, "labels": _NAMES, "annotations": _NAMES}
_SELECTOR = {"matchLabels": _NAMES}
_CONTAINER = {
    "name": str,
    "image": str,
    "command": [str],
    "env": [{"name": str, "value": str, "valueFrom": {"fieldRef": {"fieldPath": str, "apiVersion": str}}}],
    "resources": {"requests": _NAMES, "limits": _NAMES},
    "securityContext": {
        "allowPrivilegeEscalation": bool,
        "readOnlyRootFilesystem": bool,
        "privileged": bool,
        "capabilities": {"drop": [str], "add": [str]},
    },
    "volumeMounts": [{"name": str, "mountPath": str, "readOnly": bool, "subPath": str}],
}
_POD = {
    "nodeSelector": _NAMES,
    "serviceAccountName": str,
    "priorityClassName": str,
    "tolerations": [{"key": str, "operator": str, "value": str, "effect": str, "tolerationSeconds": int}],
    "containers": [_CONTAINER],
    "volumes": [
        {
            "name": str,
            "configMap": {"name": str, "defaultMode": int, "items": [{"key": str, "path": str}]},
            "hostPath": {"path": str, "type": str},
        }
    ],
}
_HEAD = {"apiVersion": str, "kind": str, "metadata": _META}
_ROLE = {"apiGroup": str, "kind": str, "name": str}

SHAPES: dict[tuple[str, str], Any] = {
    ("apps/v1", "DaemonSet"): {**_HEAD, "spec": {"selector": _SELECTOR, "template": {"metadata": _META, "spec": _POD}}},
    ("v1", "ServiceAccount"): _HEAD,
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"): {
        **_HEAD,
        "roleRef": _ROLE,
        "subjects": [{**_ROLE, "namespace": str}],
    },
    ("kustomize.config.k8s.io/v1beta1", "Kustomization"): {
        "apiVersion": str,
        "kind": str,
        "namespace": str,
        "resources": [str],
        "configMapGenerator": [{"name": str, "namespace": str, "files": [str]}],
    },
    ("readiness.node.x-k8s.io/v1alpha1", "NodeReadinessRule"): {
        **_HEAD,
        "spec": {
            "dryRun": bool,
            "enforcementMode": str,
            "nodeSelector": _SELECTOR,
            "conditions": [{"type": str, "requiredStatus": str, "defaultStatus": str}],
            "taint": {"key": str, "value": str, "effect": str},
        },
    },
}
"""For each API version and kind: its fields, each with its type."""


def manifests_in(path: Path) -> list[dict[str, Any]]:
    """The documents of a file."""
    return [it for it in yaml.safe_load_all(path.read_text(encoding="utf-8")) if it is not None]


def faults_of(manifest: dict[str, Any]) -> list[str]:
    """The fields that the kind does not have, or not with this type; each as its path."""
    shape = SHAPES.get((manifest.get("apiVersion", ""), manifest.get("kind", "")))
    return ["kind"] if shape is None else list(_faults(manifest, shape, ""))


def _faults(value: Any, shape: Any, path: str) -> Iterator[str]:
    if isinstance(shape, type):
        if type(value) is not shape:
            yield path
    elif isinstance(shape, list):
        if not isinstance(value, list):
            yield path
            return
        for number, item in enumerate(value):
            yield from _faults(item, shape[0], f"{path}[{number}]")
    elif not isinstance(value, dict):
        yield path
    else:
        for key, item in value.items():
            wanted = shape.get(key, shape.get(str))
            if wanted is None:
                yield f"{path}.{key}"
            else:
                yield from _faults(item, wanted, f"{path}.{key}")
