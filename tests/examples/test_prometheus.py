"""examples/fleet/prometheus: the rules and the dashboard, with the guard's real figures, node_exporter and Prometheus."""

import itertools
import json
import re
from contextlib import ExitStack
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hostrouting.config.settings import HostRoutingConfig
from hostrouting.host.layout import HostLayout
from hostrouting.tasks.guard.state import State, figures
from hostrouting.tasks.results import Look, Repair
from tests.support.machine import H200, private_machine
from tests.support.manifests import manifests_in
from tests.support.pages import PAGES
from tests.support.programs import completed
from tests.support.prometheus import PROGRAMS, exporter, prometheus
from tests.support.waiting import wait_for

FOLDER = Path(__file__).resolve().parents[2] / "examples/fleet/prometheus"
RULES = FOLDER / "hostrouting.rules.yml"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
FIGURES = HostLayout().figures_path


def every_figure() -> str:
    """A text that has each figure."""
    now = datetime.now(timezone.utc)
    repair = Repair("172.16.0.0/17", "[ours]", "no route")
    verdicts, escapes = {"172.16.0.0/16": "overlap", "fd00::/48": "ok"}, {"172.16.0.0/16": 2, "fd00::/48": 0}
    look = Look(repairs=(repair,), routes=(2, 1, 1), verdict="overlap", verdicts=verdicts, escapes=escapes, seconds=0.1)
    return figures(State(since=now).after(look, (), now), version="1")


def rules() -> list[dict[str, Any]]:
    """Every rule."""
    return [rule for document in manifests_in(RULES) for group in document["groups"] for rule in group["rules"]]


def queries() -> list[str]:
    """Every query of the dashboard, as Grafana sends it for all nodes."""
    found = [target["expr"] for panel in PANELS for target in panel["targets"]]
    found += [it["expr"] for it in DASHBOARD["annotations"]["list"]]
    return [it.replace("$instance", ".*").replace("$__rate_interval", "1m") for it in found]


def names_in(query: str) -> set[str]:
    """The figures that a query names."""
    return set(re.findall(r"(?<![:\w])hostrouting_\w+(?!\w*:)", re.sub(r'"[^"]*"', "", query)))


@pytest.mark.linux
@pytest.mark.needs(*PROGRAMS)
@pytest.mark.parametrize("words", [("check", "rules", RULES.name), ("test", "rules", "hostrouting.rules.test.yml")])
def test_rules(words: tuple[str, ...]) -> None:
    """Promtool accepts the rules, and their unit tests pass."""
    done = completed(["promtool", *words], cwd=FOLDER)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_tested() -> None:
    """The unit tests expect each alert to fire, and not to fire, and each recorded series."""
    [document] = manifests_in(FOLDER / "hostrouting.rules.test.yml")
    cases = [it for test in document["tests"] for it in test.get("alert_rule_test", ())]
    for rule in rules():
        if "alert" in rule:
            expected = {bool(case["exp_alerts"]) for case in cases if case["alertname"] == rule["alert"]}
            assert expected == {True, False}, rule["alert"]
            assert {"summary", "description"} == set(rule["annotations"])
    used = json.dumps(document) + json.dumps([rule for rule in rules() if "alert" in rule])
    for rule in rules():
        assert "alert" in rule or rule["record"] in used


def test_every_alert_is_on_the_page() -> None:
    """The table of alerts in docs/fleet.md has each alert, with its severity, in the order of the rules."""
    rows = re.findall(r"^\| `(HostRouting\w+)` \| (\w+) \|", PAGES["docs/fleet.md"], re.MULTILINE)
    assert rows == [(rule["alert"], rule["labels"]["severity"]) for rule in rules() if "alert" in rule]


@pytest.mark.linux
@pytest.mark.needs(*PROGRAMS)
def test_the_figures_are_as_prometheus_wants_them() -> None:
    """Promtool finds nothing to object to: names, units, help and types."""
    done = completed(["promtool", "check", "metrics"], input=every_figure())
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_every_name_is_a_figure() -> None:
    """Each figure that a rule or a panel names is one that the guard writes; each recorded series is recorded."""
    known = set(re.findall(r"^# TYPE (\w+)", every_figure(), re.MULTILINE))
    asked = [rule["expr"] for rule in rules()] + queries()
    assert set().union(*map(names_in, asked)) <= known
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    assert {match for query in asked for match in re.findall(r"\b\w+:hostrouting[\w:]*", query)} <= recorded
    assert known - set().union(*map(names_in, asked)) <= {
        "hostrouting_guard_start_time_seconds",
        "hostrouting_guard_looks_total",
        "hostrouting_guard_repair_seconds",
        "hostrouting_routes_ours",
    }


class TestTheDashboard:
    """Grafana cannot be installed here: what its JSON has to have is checked instead."""

    def test_panels(self) -> None:
        """Each panel has a number, a known type, a description and the data source that is chosen at the top."""
        numbers = [panel["id"] for panel in PANELS]
        assert len(set(numbers)) == len(numbers)
        for panel in PANELS:
            assert panel["type"] in {"stat", "table", "timeseries"}
            assert panel["title"]
            assert panel["description"].endswith((".", "check"))
            refs = [target["refId"] for target in panel["targets"]]
            assert len(set(refs)) == len(refs) >= 1
            for source in (panel["datasource"], *(target["datasource"] for target in panel["targets"])):
                assert source == {"type": "prometheus", "uid": "${datasource}"}

    def test_places(self) -> None:
        """No two panels are in the same place, and none is wider than the 24 columns."""
        taken = [
            {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
            for at in (panel["gridPos"] for panel in PANELS)
        ]
        assert all(one.isdisjoint(other) for one, other in itertools.combinations(taken, 2))
        assert max(x for place in taken for x, _ in place) == 23

    def test_variables(self) -> None:
        """Each variable that a query uses is one of the dashboard's, or Grafana's own."""
        text = json.dumps(DASHBOARD)
        own = {it["name"] for it in DASHBOARD["templating"]["list"]}
        assert set(re.findall(r"\$\{?(\w+)", text)) <= own | {"__rate_interval", "__all"}
        assert {"title", "uid", "schemaVersion", "panels", "templating", "time", "annotations"} <= set(DASHBOARD)
        assert "id" not in DASHBOARD  # with one, Grafana would look for a dashboard that it has


@pytest.mark.linux
@pytest.mark.nightly  # it waits for Prometheus; the rules have tests of their own
@pytest.mark.needs(*PROGRAMS)
@pytest.mark.needs("root")
def test_from_the_guard_to_the_alert(tmp_path: Path) -> None:
    """A real guard writes its figures, node_exporter serves them, Prometheus reads them, and the alerts fire."""
    good, empty = "127.0.0.1:9100", "127.0.0.1:9101"
    # The same rules, but an alert fires at once.
    (tmp_path / "rules.yml").write_text(re.sub(r"for: \d+m", "for: 0s", RULES.read_text(encoding="utf-8")))
    labels = "labels: {hostrouting: 'true'}"
    settings = f"""
global: {{scrape_interval: 200ms, evaluation_interval: 200ms}}
rule_files: [{tmp_path}/rules.yml]
scrape_configs:
  - job_name: node
    static_configs: [{{targets: ["{good}", "{empty}"], {labels}}}]
"""
    with private_machine() as machine, ExitStack() as stack:
        machine.batch(H200)
        config = HostRoutingConfig(
            {"enabled": True, "routes": [{"destination": "172.16.0.0/17"}, {"destination": "172.16.128.0/17"}]},
            {"expectedCidrs": ["172.16.0.0/16"], "mode": "WARN"},
        )
        machine.shell(f"cat >/etc/agent.json <<'END'\n{config.to_json()}\nEND")
        done = machine.hostrouting("apply", "--config", "/etc/agent.json", "--wait", "0")
        assert done.returncode == 0, done.stderr
        # As the documentation says it, for a node_exporter that takes one directory: a directory of links.
        machine.shell("mkdir -p /run/others /run/textfiles /run/none && echo 'other_total 1' >/run/others/other.prom")
        machine.shell("ln -s /run/others /run/hostrouting /run/textfiles")
        served = stack.enter_context(exporter(machine, "/run/textfiles/*"))
        stack.enter_context(exporter(machine, "/run/none", port=9101))
        asked = stack.enter_context(prometheus(machine, tmp_path, settings))
        with machine.guarding():
            wait_for(
                "both to be served", lambda: {"other_total 1", "hostrouting_routes_present 2"} <= set(served.lines())
            )
            assert "node_textfile_scrape_error 0" in served.lines()
            wait_for("no figures of the second", lambda: asked.firing() == {("HostRoutingGuardMissing", empty)})
            machine.batch(["route add 172.16.9.0/24 dev ib3"])
            wait_for("the escape", lambda: ("HostRoutingEscape", good) in asked.firing())
            verdict = 'instance_cidr_verdict:hostrouting_not_ok{cidr="172.16.0.0/16",verdict="overlap"}'
            wait_for("the verdict on the CIDR", lambda: asked.ask(verdict))
            # Each query of the dashboard has an answer, also one that needs two samples.
            for query in queries():
                wait_for(query, partial(asked.ask, query))
            machine.batch(["route del 172.16.9.0/24 dev ib3"])
            wait_for("the end of the escape", lambda: asked.firing() == {("HostRoutingGuardMissing", empty)})
            machine.batch(["route replace 172.16.0.0/17 via 10.0.0.2 dev eth0 proto static"])
            wait_for("what is not repaired", lambda: ("HostRoutingNotRepaired", good) in asked.firing())
            assert ("HostRoutingEscape", good) not in asked.firing()
        # The guard has ended, and its file stays. Its last look becomes old; here, it is made old.
        machine.shell(f"sed -i 's/^\\(hostrouting_guard_last_look_time_seconds\\) .*/\\1 1700000000/' {FIGURES}")
        wait_for("the silent guard", lambda: ("HostRoutingGuardSilent", good) in asked.firing())
        assert ("HostRoutingGuardMissing", good) not in asked.firing()
