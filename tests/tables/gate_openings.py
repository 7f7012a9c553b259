"""What opens the gate although all of its own files are in place: more files, and edits."""

import attrs

from hostrouting.boot.units import SHELL
from hostrouting.host.layout import HostLayout

KUBE1 = "systemd-nspawn@kube1.service"

_LAYOUT = HostLayout()
_ETC = "/etc/systemd/system"
_RUN = f"{SHELL} {_LAYOUT.gate_script}"
_GATE = f"{_LAYOUT.gate_unit}.d"
_MACHINE = f"{_LAYOUT.machine_unit}.d"


@attrs.frozen
class Opening:
    """One file that opens the gate, and the message about it."""

    name: str
    path: str
    text: str
    """An empty text means a link to /dev/null."""
    told: str


def _service(*settings: str) -> str:
    return "[Service]\n" + "".join(f"{setting}\n" for setting in settings)


OPENINGS = (
    Opening(
        "commands are reset for one machine",
        f"{_ETC}/{KUBE1}.d/99.conf",
        _service("ExecStartPre="),
        f"{KUBE1} starts unchecked: another ExecStartPre= is in force",
    ),
    Opening(
        "commands are reset for every machine",
        f"{_ETC}/{_MACHINE}/99.conf",
        _service("ExecStartPre="),
        "systemd-nspawn@.service starts unchecked: another ExecStartPre= is in force",
    ),
    Opening(
        "commands are reset for all units of a prefix",
        f"{_ETC}/systemd-.service.d/99.conf",
        _service("ExecStartPre="),
        "systemd-nspawn@.service starts unchecked: another ExecStartPre= is in force",
    ),
    Opening(
        "the machine ignores the answer",
        f"{_ETC}/{_MACHINE}/99.conf",
        _service("ExecStartPre=", f"ExecStartPre=-+{_RUN} ask %n"),
        "systemd-nspawn@.service starts unchecked: another ExecStartPre= is in force",
    ),
    Opening(
        "the machine takes a refusal for a success",
        f"{_ETC}/{_MACHINE}/99.conf",
        _service("SuccessExitStatus=1"),
        "which counts as a success, so it starts even if the gate refuses",
    ),
    Opening(
        "the machine has another bash",
        f"{_ETC}/{_MACHINE}/99.conf",
        _service("BindReadOnlyPaths=/bin/true:/bin/bash"),
        "systemd-nspawn@.service has BindReadOnlyPaths=/bin/true:/bin/bash",
    ),
    Opening(
        "the drop-in is masked for one machine",
        f"{_ETC}/{KUBE1}.d/00-host-routing.conf",
        "",
        f"{KUBE1} starts unchecked: {_ETC}/{KUBE1}.d/00-host-routing.conf overrides",
    ),
    Opening(
        "the drop-in is masked from a folder that comes first",
        f"/etc/systemd/system.control/{_MACHINE}/00-host-routing.conf",
        "",
        "systemd-nspawn@.service starts unchecked: /etc/systemd/system.control/",
    ),
    Opening(
        "another program in the unit's place",
        f"{_ETC}/{_GATE}/99.conf",
        _service("ExecStart=", "ExecStart=/bin/true"),
        "runs a command other than",
    ),
    Opening(
        "the unit's failure is ignored",
        f"{_ETC}/{_GATE}/99.conf",
        _service("ExecStart=", f"ExecStart=-{_RUN}"),
        "runs a command other than",
    ),
    Opening(
        "another unit of that name",
        f"/etc/systemd/system.control/{_LAYOUT.gate_unit}",
        _service("Type=oneshot", "ExecStart=/bin/true"),
        "runs a command other than",
    ),
    Opening(
        "systemd does not wait for the unit",
        f"{_ETC}/{_GATE}/99.conf",
        _service("Type=simple"),
        "has Type=simple, which means that systemd does not wait for the script",
    ),
    Opening(
        "a setting for all units of a prefix",
        f"{_ETC}/host-routing-.service.d/99.conf",
        _service("Type=exec"),
        "has Type=exec, which means that systemd does not wait for the script",
    ),
    Opening(
        "a setting for all services",
        f"{_ETC}/service.d/99.conf",
        _service("NetworkNamespacePath=/run/netns/other"),
        "has NetworkNamespacePath=/run/netns/other, which means that it checks the routing of another network namespace",
    ),
    Opening(
        "the unit takes a refusal for a success",
        f"{_ETC}/{_GATE}/99.conf",
        _service("SuccessExitStatus=1"),
        "has SuccessExitStatus=1, which means that a refusal can count as a success",
    ),
    Opening(
        "a command that has the unit skipped",
        f"{_ETC}/{_GATE}/99.conf",
        _service("ExecCondition=/bin/false"),
        "has ExecCondition=/bin/false, which means that systemd skips the unit",
    ),
    Opening(
        "a condition that has the unit skipped",
        f"{_ETC}/{_GATE}/99.conf",
        "[Unit]\nConditionPathExists=/gone\n",
        "has ConditionPathExists=/gone",
    ),
    Opening(
        "another network namespace",
        f"{_ETC}/{_GATE}/99.conf",
        _service("NetworkNamespacePath=/run/netns/other"),
        "has NetworkNamespacePath=/run/netns/other, which means that it checks the routing of another network namespace",
    ),
    Opening(
        "another bash for the unit",
        f"{_ETC}/{_GATE}/99.conf",
        _service("BindReadOnlyPaths=/bin/true:/bin/bash"),
        "has BindReadOnlyPaths=/bin/true:/bin/bash",
    ),
)
"""Each opens the gate on its own, in STRICT with an overlap, once systemd has read it."""


@attrs.frozen
class Edit:
    """One edit of an installed file: what is replaced, once, and by what."""

    path: str
    before: str
    after: str

    def made_in(self, text: str) -> str:
        """The text after the edit."""
        assert self.before in text
        return text.replace(self.before, self.after, 1)


_SUCCEEDS = ("#!/bin/bash\n", "#!/bin/bash\nexit 0\n")

EDITS = {
    "the gate's script succeeds": Edit(_LAYOUT.gate_script_path, *_SUCCEEDS),
    "the check succeeds": Edit(_LAYOUT.check_script_path, *_SUCCEEDS),
    "the check warns": Edit(_LAYOUT.check_script_path, "STRICT", "WARN"),
    "the check expects less": Edit(_LAYOUT.check_script_path, "'cidr 172.16.0.0/16'", "'cidr 10.99.0.0/16'"),
    "the list asks for less": Edit(_LAYOUT.gate_steps_path, "60 requires", "60 wants"),
    "the list lacks the check": Edit(_LAYOUT.gate_steps_path, "60 requires check-route-overlap\n", ""),
    "the unit runs something else": Edit(_LAYOUT.gate_unit_path, "ExecStart=", "ExecStart=/bin/true "),
    "the drop-in runs nothing": Edit(_LAYOUT.gate_drop_in(), "ExecStartPre=", "# ExecStartPre="),
}
"""Each opens the gate on its own, in STRICT with an overlap, once systemd has read it."""
