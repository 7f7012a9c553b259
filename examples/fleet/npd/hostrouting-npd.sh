#!/bin/sh
# A custom plugin for node-problem-detector: it reports what the last check of hostrouting found on this node.
# Exit status 0: fine, 1: a problem, 3: unknown. The argument, which is optional, is the directory of the markers.
markers=${1:-/run/aks-flex-node}/route-overlap

# node-problem-detector cuts a long line, perhaps between the bytes of a dash.
if line=$(sed 's/–/-/g; q' "$markers.detected" 2>/dev/null); then
  printf '%s\n' "$line"
  exit 1
elif read -r verdict 2>/dev/null <"$markers.ok" && [ "$verdict" = ok ]; then
  echo 'OK: every expected CIDR leaves through an expected device'
  exit 0
fi
echo 'UNKNOWN: there is no verdict of a check since this host booted; on the host, run: hostrouting status'
exit 3
