# Runs the steps of the gate again when links, addresses, routes or rules change, and at least once a minute.
# Run by hostrouting-guard.service. A step must change only what is wrong: what it changes wakes this script again.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
routes=10-static-routes
declare -A logged

# Runs all steps, or the named one, and logs each line that they did not log the last time. Sets `pause` to 20 times the
# length of the pass, from 2 to 60 s, so that the guard uses little of a core, however much the steps have to do.
pass() {
  local begin=${EPOCHREALTIME:-$SECONDS.000000} line lines=() IFS=$'\n' # bash 4 has whole seconds only
  read -r -d '' -t 90 -a lines < <(
    exec /bin/bash -pc '. "$0"' /etc/hostrouting/gate.sh hostrouting-guard.service "$@" 2>&1 3<&-
  )
  for line in "${lines[@]}"; do
    [[ $'\n'${logged[steps $*]-}$'\n' == *$'\n'"$line"$'\n'* ]] || printf '%s\n' "$line" >&2
  done
  logged[steps $*]=${lines[*]}
  pause=${EPOCHREALTIME:-$SECONDS.000000}
  ((pause = (${pause/./} - ${begin/./}) / 50000, pause = pause < 2 ? 2 : pause > 60 ? 60 : pause))
}

# 2>&1: "netlink receive error No buffer space available" also wakes this script: something was lost, so look.
exec 3< <(exec ip monitor link address route rule 2>&1)
idle=1 due=0 # the first pass comes when `ip monitor` listens
while read -r -N 1 -t $idle -u 3 || (($? > 128)); do # above 128: nothing has changed for that long
  # Read before the pass, so that changes during the pass are seen. With -N, bash does not read byte by byte.
  read -r -N 1000000 -t 0.02 -u 3
  # A removed route must not wait for the other steps, which may take long and run at most every 10 s.
  if ((SECONDS < due)) && [[ -e /etc/hostrouting/gate.d/$routes.sh ]]; then
    pass $routes
    idle=$((SECONDS < due ? due - SECONDS : 1))
    sleep $pause
  else
    ((SECONDS >= due)) || sleep $((due - SECONDS))
    pass
    due=$((SECONDS + (pause > 10 ? pause : 10))) idle=58
    sleep 2
  fi
done
echo '<3>hostrouting: hostrouting-guard.service: ip monitor ended' >&2
