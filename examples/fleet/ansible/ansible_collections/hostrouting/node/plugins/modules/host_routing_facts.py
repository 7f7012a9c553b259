# Copyright (c) The hostrouting developers
# SPDX-License-Identifier: MIT
"""The documentation of `host_routing_facts`; the work is done on the controller, by the action of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: host_routing_facts
short_description: Take the snapshot of a node's routing, and check it
version_added: 1.0.0
description:
  - Takes a snapshot of the devices, addresses, rules and routes of a node, and checks on the controller whether every
    address of the expected CIDRs leaves by an expected device.
  - The node needs a POSIX shell and iproute2. It needs neither hostrouting nor Python nor root.
author:
  - The hostrouting developers (@hostrouting)
options:
  config:
    description:
      - The configuration to check by, with the same keys as in its JSON file.
      - If no CIDR is expected, the snapshot is taken and nothing is checked.
    type: dict
  config_file:
    description:
      - The path of the configuration on the controller. It is looked for like the O(ansible.builtin.copy#module:src)
        of M(ansible.builtin.copy), and can be encrypted with Ansible Vault.
    type: path
  snapshot:
    description:
      - Whether the facts have the snapshot. It can be large, and Ansible keeps the facts of all nodes in memory.
    type: bool
    default: false
attributes:
  check_mode:
    description: The module only reads, so a dry run is a run.
    support: full
  diff_mode:
    description: The module changes nothing.
    support: none
  facts:
    description: The facts are in C(ansible_facts.host_routing).
    support: full
  platform:
    description: The node runs Linux.
    support: full
    platforms: linux
requirements:
  - hostrouting, installed for the Python that runs Ansible on the controller
notes:
  - With C(-v), Ansible prints no facts of this module. C(-vvv) prints them.
  - If addresses escape, the task still succeeds; check the verdict. It fails only if it gets no snapshot.
  - The connection plugin must support pipelining, as ssh and local do.
  - Set C(gather_facts) to false in a play for nodes without Python.
seealso:
  - module: hostrouting.node.host_routing
"""

EXAMPLES = r"""
- name: Look at the routing
  hostrouting.node.host_routing_facts:
    config:
      routeOverlap:
        expectedCidrs: [172.16.0.0/16]

- name: Stop if addresses escape
  ansible.builtin.assert:
    that: ansible_facts.host_routing.verdict == 'ok'
    fail_msg: "{{ ansible_facts.host_routing.message }}"

- name: Take the snapshot
  hostrouting.node.host_routing_facts:
    snapshot: true

- name: Keep the snapshot, for hostrouting check --snapshots nodes
  ansible.builtin.copy:
    content: "{{ ansible_facts.host_routing.snapshot | to_json }}"
    dest: "nodes/{{ inventory_hostname }}.json"
    mode: "0600"
  delegate_to: localhost
"""

RETURN = r"""
msg:
  description: The verdict, the first findings and the routes that repair them; if the task failed, why.
  returned: always
  type: str
  sample: "OK: nothing escapes"
verdict:
  description: The verdict of the check, as in RV(ansible_facts.host_routing.verdict).
  returned: always
  type: str
  sample: ok
ansible_facts:
  description: The facts about the node.
  returned: when there is a snapshot
  type: dict
  contains:
    host_routing:
      description: What is known about the routing of the node.
      returned: when there is a snapshot
      type: dict
      contains:
        verdict:
          description:
            - V(ok), V(overlap), V(undecided) or V(no-default-route). It is null if no CIDR is expected.
          returned: always
          type: str
          sample: ok
        message:
          description: The verdict, the first findings and the routes that repair them.
          returned: always
          type: str
          sample: "OK: nothing escapes"
        check:
          description: The JSON document of C(hostrouting check). It is null if no CIDR is expected.
          returned: always
          type: dict
        snapshot:
          description: The JSON document of C(hostrouting snapshot).
          returned: when O(snapshot=true)
          type: dict
"""
