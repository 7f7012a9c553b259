"""The networks of the cluster and the name servers that the files of a node name.

Here: the files, the keys in them, and what no file of a node says. Not here: whether an address is lost (`check`).

Most CNIs write the block of this node's pods, and only a few that of all pods. No file has the network of the services:
the agent's configuration has one address in it, that of the cluster's DNS. So whatever is found is a part, unless it
is marked as whole; what is missing is listed with the command that asks the cluster.

The agent's configuration contains secrets, so only addresses are quoted from a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import attrs

from hostrouting.config.json import parse
from hostrouting.config.settings import RouteOverlapConfig
from hostrouting.errors import ConfigError, FileError, is_denied
from hostrouting.host.conflists import files_in_force, objects_in, read_conflists
from hostrouting.model.prefix import IP, as_ip

if TYPE_CHECKING:
    from hostrouting.config.values import Network
    from hostrouting.host.files import Files
    from hostrouting.host.layout import HostLayout

_NODE, _PODS, _SERVICES, _SERVER, _ASKED = (
    "pods of this node",
    "pods of the cluster",
    "services",
    "API server",
    "expected by the agent",
)
_CNI = ("/etc/cni/net.d", "/var/lib/rancher/k3s/agent/etc/cni/net.d", "/var/lib/rancher/rke2/agent/etc/cni/net.d")
_MACHINES = "/var/lib/machines"
_FLANNEL = "/run/flannel/subnet.env"
_RESOLVERS = ("/etc/resolv.conf", "/run/systemd/resolve/resolv.conf")
_AGENT = {
    "hostRouting.routeOverlap.expectedCidrs": _ASKED,
    "networking.dnsServiceIP": _SERVICES,
    "node.kubelet.dnsServiceIP": _SERVICES,
    "node.kubelet.clusterFQDN": _SERVER,
    "node.kubelet.serverURL": _SERVER,
}
"""The keys of the agent's configuration; the last of each kind is that of its earlier versions."""


@attrs.frozen
class NamedNetwork:
    """A network that a file names."""

    cidr: Network
    what: str
    file: str
    key: str

    @property
    def is_whole(self) -> bool:
        """Whether the named network is complete; if not, the cluster's network is larger."""
        return self.what in {_PODS, _ASKED}


@attrs.frozen
class Discovery:
    """The networks, servers and remarks found in the files."""

    networks: tuple[NamedNetwork, ...]
    servers: tuple[tuple[IP, str], ...]
    """The servers for names, each with its file."""
    remarks: tuple[tuple[str, str], ...]
    """The files and folders that say nothing, each with the reason."""

    @property
    def cidrs(self) -> tuple[Network, ...]:
        """The networks to expect, each once, without those inside another one."""
        found = tuple(dict.fromkeys(named.cidr for named in self.networks))
        return tuple(cidr for cidr in found if not any(_contains(other, cidr) for other in found if other != cidr))

    @property
    def missing(self) -> dict[str, str]:
        """The networks that no file names completely, each with the command that asks the cluster."""
        known = {named.what for named in self.networks}
        return {what: command for what, command in _COMMANDS.items() if what not in known}


_COMMANDS = {
    _PODS: "kubectl get nodes -o jsonpath='{.items[*].spec.podCIDRs}'",
    # Since Kubernetes 1.33. Before, only the options of the API server have it.
    "all services": "kubectl get servicecidrs",
    _SERVER: "kubectl get endpointslices -l kubernetes.io/service-name=kubernetes",
}


def discover(files: Files, layout: HostLayout) -> Discovery:
    """Read the files that exist. A file that cannot be read or parsed gets a remark; no error is raised."""
    found = _Search(files, layout)
    found.agent(f"{layout.agent_directory}/config.json")
    roots = ("", *(f"{_MACHINES}/{name}" for name in found.names(_MACHINES)))
    for folder in (f"{root}{folder}" for root in roots for folder in _CNI):
        found.conflists(folder)
    found.flannel(_FLANNEL)
    servers = {server: file for file in reversed(_RESOLVERS) for server in found.resolvers(file)}
    return Discovery(tuple(dict.fromkeys(found.networks)), tuple(servers.items()), tuple(found.remarks))


class _Search:
    """What has been found so far."""

    def __init__(self, files: Files, layout: HostLayout) -> None:
        self._files, self._layout = files, layout
        self.networks: list[NamedNetwork] = []
        self.remarks: list[tuple[str, str]] = []

    def names(self, folder: str) -> tuple[str, ...]:
        return self._tried(folder, self._files.names) or ()

    def _text(self, file: str) -> str:
        return self._tried(file, self._files.read) or ""

    def _tried(self, path: str, read: Callable[[str], Any]) -> Any:
        try:
            return read(self._layout.at(path))
        except FileError as error:
            why = error.reason or str(error)
            # These files are not ours: only who may read them is for the operator to change.
            self.remarks.append((path, f"cannot be read: {why if is_denied(error) else why.partition('; ')[0]}"))
            return None

    def _add(self, text: object, what: str, file: str, key: str) -> None:
        if not isinstance(text, str) or (what in {_NODE, _PODS} and "/" not in text):
            return  # "usePodCidr", or the name of a pool: the cluster knows what it stands for
        try:
            (cidr,) = RouteOverlapConfig([_with_length(text)]).expected_cidrs
        except ConfigError as error:
            self.remarks.append((file, f"{key}: {error.faults[0].rule}"))
            return
        self.networks.append(NamedNetwork(cidr, what, file, key))

    def agent(self, file: str) -> None:
        """The configuration of the agent."""
        if not (text := self._text(file)):
            return
        try:
            document = parse(text)
        except ConfigError as error:
            self.remarks.append((file, error.faults[0].rule))
            return
        for key, what in _AGENT.items():
            value: object = document
            for name in key.split("."):
                value = value.get(name) if isinstance(value, dict) else None
            for one in value if isinstance(value, list) else [value]:
                address = _address_of(one) if what == _SERVER else one
                self._add(address, what, file, key)

    def conflists(self, folder: str) -> None:
        """The CNI configurations that are in force in a folder."""
        documents = read_conflists(self.names(folder), lambda name: self._text(f"{folder}/{name}"))
        used = files_in_force(documents)
        for name, document in documents.items():
            file = f"{folder}/{name}"
            if name in used:
                self._ranges(document, file)
            elif file in dict(self.remarks):
                continue
            elif document is None:
                self.remarks.append((file, "is not JSON"))
            elif used and name > used[0]:
                self.remarks.append((file, f"is not in force, because {used[0]} is"))
            else:
                self.remarks.append((file, "is not a CNI configuration: it has no plugin"))

    def _ranges(self, document: object, file: str) -> None:
        for path, nested in objects_in(document):
            if "ipam" not in path.replace("[", ".").split("."):
                continue
            self._add(nested.get("subnet"), _NODE, file, f"{path}.subnet")
            for key in ("ipv4_pools", "ipv6_pools"):
                pools = nested.get(key)
                for pool in pools if isinstance(pools, list) else ():
                    self._add(pool, _PODS, file, f"{path}.{key}")

    def flannel(self, file: str) -> None:
        """The network of all pods, from the file that Flannel writes for its plugin."""
        for key, value in _assignments(self._text(file)):
            if key in {"FLANNEL_NETWORK", "FLANNEL_IPV6_NETWORK"}:
                for one in value.split(","):
                    self._add(one.strip(), _PODS, file, key)

    def resolvers(self, file: str) -> Iterator[IP]:
        """The name servers that are not on this host."""
        for words in map(str.split, self._text(file).splitlines()):
            if words[:1] == ["nameserver"] and (server := _ip_in(words[1:2])) and not server.is_loopback:
                yield server


def _assignments(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        key, sign, value = line.partition("=")
        if sign:
            yield key.strip(), value.strip().strip("\"'")


def _with_length(text: str) -> str:
    address = _ip_in([text])
    return text if address is None else f"{address}/{address.max_prefixlen}"


def _address_of(text: object) -> str | None:
    """The address in a host with or without a port, or in a URL; None for a name."""
    from urllib.parse import urlsplit  # noqa: PLC0415  only where there is an agent's configuration

    if not isinstance(text, str):
        return None
    try:
        host = urlsplit(text if "//" in text else f"//{text}").hostname or ""
    except ValueError:
        return None
    return host if _ip_in([host]) else None


def _ip_in(words: list[str]) -> IP | None:
    try:
        return as_ip(words[0])
    except (ValueError, IndexError):
        return None


def _contains(outer: Network, inner: Network) -> bool:
    return outer.version == inner.version and inner.subnet_of(outer)  # type: ignore[arg-type]  # the version is the same
