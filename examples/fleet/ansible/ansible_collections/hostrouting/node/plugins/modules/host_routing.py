# Copyright (c) The hostrouting developers
# SPDX-License-Identifier: MIT
"""The documentation of `host_routing`; the work is done on the controller, by the action of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: host_routing
short_description: Make the routing of a node right, now and at every boot
version_added: 1.0.0
description:
  - Applies a configuration of hostrouting to a node. It adds the static routes, installs the boot scripts and the gate
    of the machines, and checks that every address of the expected CIDRs leaves by an expected device.
  - Either all routes are applied or none. A route of another program is never changed, and a running machine is never
    touched.
  - In check mode the module runs C(hostrouting preflight) and C(hostrouting plan) on the node, which change nothing.
    The task fails if the run would fail on the node as it is now.
author:
  - The hostrouting developers (@hostrouting)
options:
  config:
    description:
      - The configuration, with the same keys as in its JSON file.
      - O(state=present) needs this or O(config_file).
      - If O(state=absent), only its route protocol matters, and whether it wants routes that must stay.
    type: dict
  config_file:
    description:
      - The path of the configuration on the controller. It is looked for like the O(ansible.builtin.copy#module:src)
        of M(ansible.builtin.copy), and can be encrypted with Ansible Vault.
      - An agent's larger file is fine. Only what hostrouting reads in it is sent to the node.
    type: path
  state:
    description:
      - With V(present), the node is made as the configuration says. What is installed and not in the configuration is
        removed without a question, also the check and the guard. Check mode lists the files that would go.
      - With V(absent), everything that hostrouting has installed on the node is removed, and nothing else. The file
        O(program) stays.
    type: str
    choices: [present, absent]
    default: present
  pyz:
    description:
      - The path of C(hostrouting.pyz) on the controller. It is copied to O(program) if another file or none is there.
      - In check mode and with O(state=absent) a temporary copy is used instead.
      - Without this option, O(program) must be on the node already.
    type: path
  program:
    description:
      - The absolute path of the program on the node.
      - If C(guard.enabled) is true and C(guard.program) is empty, the service of the guard runs this program.
        hostrouting.pyz is then started by C(/usr/bin/env python3).
    type: str
    default: /usr/local/bin/hostrouting
  wait:
    description:
      - How many seconds to wait for a default route or a device that does not exist yet.
      - By default this is what the boot scripts on the node wait, or 30 seconds if there are none.
    type: float
  timeout:
    description:
      - After how many seconds a command on the node is stopped. It then undoes what it has begun.
    type: int
    default: 600
attributes:
  check_mode:
    description: >-
      What a run would do, and whether it would fail, is found out by C(hostrouting preflight) and
      C(hostrouting plan) on the node. Nothing is changed.
    support: full
  diff_mode:
    description: Each route and each file that the run changes or keeps is one line, before and after.
    support: full
  platform:
    description: The node runs Linux.
    support: full
    platforms: linux
requirements:
  - hostrouting, installed for the Python that runs Ansible on the controller
  - Python 3.10 or newer on the node, and root, for example with C(become)
notes:
  - The configuration goes to the node through the standard input of the program. No file with it is written, and the
    connection plugin must support pipelining, as ssh and local do.
  - With O(pyz), the program runs with C(ansible_python_interpreter), or with C(python3) if that is not set.
  - The task fails if addresses escape and the mode of the check is STRICT. In mode WARN it succeeds with a warning, and
    RV(verdict) says it.
  - M(hostrouting.node.host_routing) does not support C(async).
seealso:
  - module: hostrouting.node.host_routing_facts
"""

EXAMPLES = r"""
- name: Keep 172.16.0.0/16 on the default interface
  hostrouting.node.host_routing:
    pyz: dist/hostrouting.pyz
    config:
      staticRoutes:
        enabled: true
        routes:
          - destination: 172.16.0.0/17
          - destination: 172.16.128.0/17
      routeOverlap:
        expectedCidrs: [172.16.0.0/16]
        mode: STRICT
  become: true

- name: The same from the agent's file, with a program that the image of the node has
  hostrouting.node.host_routing:
    config_file: agent.json
    program: /usr/bin/hostrouting
  become: true

- name: Remove it again
  hostrouting.node.host_routing:
    state: absent
    pyz: dist/hostrouting.pyz
  become: true
"""

RETURN = r"""
msg:
  description: What was done or would be done, and the verdict; if the task failed, why.
  returned: always
  type: str
  sample: "DONE: routes: add 2; files: write 11; the verdict is OK: nothing escapes"
verdict:
  description:
    - The verdict of the check after the run, or in check mode as it would be then. It is V(ok), V(overlap),
      V(undecided) or V(no-default-route).
    - It is null if no CIDR is expected, or if the verdict is not known yet.
  returned: when a command ran on the node
  type: str
  sample: ok
python:
  description: Whether the node has Python 3.10 or newer. If it has not, the task fails, and nothing was changed.
  returned: unless the task fails before it looks for Python on the node
  type: bool
  sample: true
steps:
  description: The routes that are added, replaced or deleted, or that conflict with a route of another program.
  returned: when a command ran on the node
  type: list
  elements: dict
  sample:
    - action: add
      route: 172.16.0.0/17 via 10.0.0.1 dev eth0 proto hostrouting
      reason: it did not exist
findings:
  description: The findings of a check afterwards, as in the JSON document of C(hostrouting check).
  returned: when a command ran on the node
  type: list
  elements: dict
  sample: []
repair:
  description: The routes that are missing in C(staticRoutes.routes) of the configuration.
  returned: when a command ran on the node
  type: list
  elements: dict
  sample:
    - destination: 172.16.0.0/17
      gateway: ""
      dev: ""
      metric: 0
"""
