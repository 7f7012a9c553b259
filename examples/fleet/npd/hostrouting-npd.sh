#!/bin/sh
# A custom plugin for node-problem-detector: what the last check of hostrouting has found on this node.
# Exit status 0: fine, 1: a problem, 3: unknown. The argument is the directory of the markers, if it is another one.
markers=${1:-/run/aks-flex-node}/route-overlap

# A dash has several bytes, between which a long line could be cut.
if line=$(sed 's/–/-/g; q' "$markers.detected" 2>/dev/null); then
  printf '%s\n' "$line"
  exit 1
elif read -r verdict 2>/dev/null <"$markers.ok" && [ "$verdict" = ok ]; then
  echo 'OK: every expected CIDR leaves by an expected device'
  exit 0
fi
echo 'UNKNOWN: there is no verdict of a check since this host booted; on the host, run: hostrouting status'
exit 3
