"""The condition of docs/library.md, beside the gate, under a real systemd."""

import re

from hostrouting.config.settings import GateConfig
from tests.support.gate import HALVES, apply, config, gate_tests, host
from tests.support.systemd import PROJECT

pytestmark = gate_tests

UNIT = "kubelet.service"
FILES = {f"/etc/systemd/system/{UNIT}": "[Service]\nExecStart=/bin/sleep infinity\n"}


def test_the_drop_in_of_the_page() -> None:
    """It holds back a unit that the gate has let pass, and says why; then it lets it start."""
    page = (PROJECT / "docs/library.md").read_text(encoding="utf-8")
    [(path, text)] = re.findall(r"```ini\n# (\S+)\n(.*?)```", page, re.DOTALL)
    with host(more={**FILES, path: text}, machines=()) as system:
        apply(system, config(*HALVES, mode="STRICT")._replace(gate=GateConfig((UNIT,))))
        assert system.run("systemctl", "start", UNIT).returncode != 0
        assert "no licence" in system.journal(UNIT)
        assert "hostrouting: OK" in system.journal(UNIT)
        system.lay("/etc/licence", "a licence\n")
        system.must("systemctl", "start", UNIT)
        assert system.show(UNIT, "ActiveState") == "active"
