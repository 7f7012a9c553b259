# Runs the steps of the gate again when links, addresses, routes or rules change, and at least once a minute.
# Run by hostrouting-guard.service. A step must change only what is wrong: what it changes wakes this script again.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
routes=10-static-routes
declare -A logged

# Runs all steps or the one that is named, and pauses for 20 times as long, from 1 to 60 s: so the guard takes little of a
# core, however much the steps have to do. What they log is logged only if it is not what they logged the last time.
pass() {
  local begin=${EPOCHREALTIME:-$SECONDS.000000} end text='' pause # bash 4 has whole seconds only
  IFS='' read -r -d '' -t 90 text < <(
    exec /bin/bash -pc '. "$0"' /etc/hostrouting/gate.sh hostrouting-guard.service "$@" 2>&1 3<&-
  )
  [[ $text == "${logged[steps $*]-}" ]] || printf '%s' "$text" >&2
  logged[steps $*]=$text
  end=${EPOCHREALTIME:-$SECONDS.000000}
  pause=$(((${end/./} - ${begin/./}) / 50)) # in milliseconds
  ((pause = pause < 1000 ? 1000 : pause > 60000 ? 60000 : pause))
  printf -v pause %d.%03d $((pause / 1000)) $((pause % 1000))
  sleep "$pause"
}

# 2>&1: "netlink receive error No buffer space available" wakes this script, too: something was lost, so look.
exec 3< <(exec ip monitor link address route rule 2>&1)
idle=1 due=0 # the first pass comes when `ip monitor` listens
while read -r -N 1 -t $idle -u 3 || (($? > 128)); do # above 128: nothing has changed for so long
  # Before the pass, so that what changes during it is seen. With -N, bash does not read byte by byte.
  read -r -N 1000000 -t 0.02 -u 3
  # A removed route is not to wait. The other steps take longer, and run at most every 10 s.
  if ((SECONDS < due)) && [[ -e /etc/hostrouting/gate.d/$routes.sh ]]; then
    pass $routes
    idle=$((SECONDS < due ? due - SECONDS : 1))
  else
    ((SECONDS >= due)) || sleep $((due - SECONDS))
    due=$((SECONDS + 10)) idle=58
    pass
  fi
done
echo '<3>hostrouting: hostrouting-guard.service: ip monitor ended' >&2
