# Runs the steps of the gate again when links, addresses, routes or rules change, and at least once
# a minute. Run by hostrouting-guard.service. A step must change only what is wrong: what it changes
# wakes this script again.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
routes=10-static-routes
declare -A logged # by what was run: the lines that it logged the last time

# Runs all steps, or the named one, and logs each line that they did not log the last time. Sets
# `pause` to 20 times the length of the pass, from 2 to 60 s, so that the guard uses little of a
# core, however much the steps have to do.
pass() { # [STEP]
  local begin end line lines=() IFS=$'\n'
  begin=$(microseconds)
  read -r -d '' -t 90 -a lines < <(
    exec /bin/bash -pc '. "$0"' /etc/hostrouting/gate.sh hostrouting-guard.service "$@" 2>&1 3<&-
  )
  for line in "${lines[@]}"; do
    if [[ $'\n'${logged[steps $*]-}$'\n' != *$'\n'"$line"$'\n'* ]]; then
      printf '%s\n' "$line" >&2
    fi
  done
  logged[steps $*]=${lines[*]}
  end=$(microseconds)
  pause=$(((end - begin) / 50000))
  if ((pause < 2)); then
    pause=2
  elif ((pause > 60)); then
    pause=60
  fi
}

microseconds() {
  local now=${EPOCHREALTIME:-$SECONDS.000000} # bash 4 has whole seconds only
  echo "${now/./}"
}

# 2>&1: "netlink receive error No buffer space available" also wakes this script: something was
# lost, so look.
exec 3< <(exec ip monitor link address route rule 2>&1)
idle=1 # the first pass comes when `ip monitor` listens
due=0  # when all steps may run again
# The status of `read` is above 128 if nothing has changed for that long.
while read -r -N 1 -t "$idle" -u 3 || (($? > 128)); do
  # Read before the pass, so that changes during the pass are seen. With -N, bash does not read byte
  # by byte.
  read -r -N 1000000 -t 0.02 -u 3
  # A removed route must not wait for the other steps, which may take long and run at most every
  # 10 s.
  if ((SECONDS < due)) && [[ -e /etc/hostrouting/gate.d/$routes.sh ]]; then
    pass "$routes"
    sleep "$pause"
    idle=$((SECONDS < due ? due - SECONDS : 1))
    continue
  fi
  if ((SECONDS < due)); then
    sleep $((due - SECONDS))
  fi
  pass
  due=$((SECONDS + (pause > 10 ? pause : 10)))
  idle=58
  sleep 2
done
echo '<3>hostrouting: hostrouting-guard.service: ip monitor ended' >&2
