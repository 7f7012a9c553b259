#!/bin/sh
# A custom plugin for node-problem-detector: it reports what the last check of hostrouting found on this node.
# Exit status 0: fine, 1: a problem, 3: unknown. The argument, which is optional, is the directory of the markers.
markers=${1:-/run/aks-flex-node}/route-overlap

first_line() {
  sed q "$1" 2>/dev/null
}

if line=$(first_line "$markers.detected"); then
  printf '%s\n' "$line"
  exit 1
fi
if line=$(first_line "$markers.undecided"); then
  printf '%s\n' "$line"
  exit 3
fi
if [ "$(first_line "$markers.ok")" = ok ]; then
  echo 'OK: every expected CIDR leaves through an expected device'
  exit 0
fi
echo 'UNKNOWN: no check has run since this host booted, or the last one has failed; on the host, run: hostrouting status'
exit 3
