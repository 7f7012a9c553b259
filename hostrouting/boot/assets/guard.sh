# Runs the steps of the gate again whenever links, addresses, routes or rules change, and at least once a minute.
# Run by hostrouting-guard.service. A step must change only what is wrong: what it changes wakes this script again.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C

pass() { # and pause for 20 times as long, from 1 to 60 s, so that the guard never takes more than a twentieth of a core
  local begin=${EPOCHREALTIME//[!0-9]/} pause
  /bin/bash -pc '. "$0"; exit 255' /etc/hostrouting/gate.sh hostrouting-guard.service 3<&-
  pause=$(((${EPOCHREALTIME//[!0-9]/} - begin) * 20 / 1000))
  ((pause = pause < 1000 ? 1000 : pause > 60000 ? 60000 : pause))
  sleep $((pause / 1000)).$(printf %03d $((pause % 1000)))
}

# 2>&1: "netlink receive error No buffer space available" wakes this script, too: something was lost, so look.
exec 3< <(exec ip monitor link address route rule 2>&1)
pass # ip monitor may not have listened yet when this pass looked, hence a second one at once
while pass; do
  read -r -N 1 -t 60 -u 3
  (($? != 1)) || { echo '<3>hostrouting: hostrouting-guard.service: ip monitor ended' >&2; exit 1; }
  # Before the pass, so that what changes during it is seen. cat, since bash reads a pipe byte by byte.
  timeout 0.02 cat <&3 >/dev/null
done
