"""A real node_exporter and a real Prometheus, on the loopback device of a private namespace.

Here: starting them, and asking them. Not here: the rules and the figures that they are given (tests/examples).
"""

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.support.children import running
from tests.support.namespace import Namespace
from tests.support.waiting import wait_for

PROGRAMS = ("prometheus", "promtool", "prometheus-node-exporter")
_LONGEST = 1500  # seconds after which a program ends by itself


class Exporter:
    """A node_exporter that has only the collectors textfile and time."""

    def __init__(self, namespace: Namespace, port: int) -> None:
        """The server listens on this port."""
        self._namespace, self.port = namespace, port

    def lines(self) -> list[str]:
        """The lines that the exporter serves."""
        return _get(self._namespace, f"http://127.0.0.1:{self.port}/metrics").splitlines()


class Prometheus:
    """A Prometheus that scrapes and evaluates once a second."""

    def __init__(self, namespace: Namespace) -> None:
        """The server listens on its usual port."""
        self._namespace = namespace

    def ask(self, query: str) -> list[dict[str, Any]]:
        """The series of this query now, each with `metric` and `value`. RuntimeError if it is not a query."""
        words = urllib.parse.urlencode({"query": query})
        answer = json.loads(_get(self._namespace, f"http://127.0.0.1:9090/api/v1/query?{words}"))
        if answer["status"] != "success":
            raise RuntimeError(f"{query}: {answer['error']}")
        found: list[dict[str, Any]] = answer["data"]["result"]
        return found

    def firing(self) -> set[tuple[str, str]]:
        """The alerts that fire: each one's name and instance."""
        found = self.ask('ALERTS{alertstate="firing"}')
        return {(it["metric"]["alertname"], it["metric"]["instance"]) for it in found}


def _get(namespace: Namespace, url: str) -> str:
    straight = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with namespace.inside():
        try:
            with straight.open(url, timeout=30) as reply:
                text: bytes = reply.read()
        except urllib.error.HTTPError as error:
            text = error.read()
            error.close()
    return text.decode()


@contextmanager
def exporter(namespace: Namespace, directory: str, *, port: int = 9100) -> Iterator[Exporter]:
    """A node_exporter that reads this directory, which may be a pattern."""
    words = (
        "prometheus-node-exporter",
        "--collector.disable-defaults",
        "--collector.textfile",
        "--collector.time",
        f"--collector.textfile.directory={directory}",
        f"--web.listen-address=127.0.0.1:{port}",
    )
    with running(*namespace.enter, *words, seconds=_LONGEST):
        found = Exporter(namespace, port)
        _await(f"node_exporter on port {port}", found.lines)
        yield found


@contextmanager
def prometheus(namespace: Namespace, folder: Path, settings: str) -> Iterator[Prometheus]:
    """A Prometheus with this configuration, whose data are in the folder."""
    (folder / "prometheus.yml").write_text(settings)
    words = (
        "prometheus",
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        "--web.listen-address=127.0.0.1:9090",
    )
    with running(*namespace.enter, *words, seconds=_LONGEST):
        found = Prometheus(namespace)
        _await("Prometheus", lambda: found.ask("up"))
        yield found


def _await(what: str, answers: Callable[[], object]) -> None:
    def is_there() -> bool:
        with suppress(OSError, ValueError):
            return bool(answers())
        return False

    wait_for(f"{what} to answer", is_there)
