# The guard: runs the steps of the gate again when links, addresses, routes or rules change, and at
# least once a minute. Run by hostrouting-guard.service, which starts it again when it ends. A step
# must change only what is wrong: what it changes wakes this script again.
#
# There are two kinds of pass. A change starts the one that sets the routes, at once; it is followed
# by a pass of all steps when the last such pass is 10 s ago. For example, after a pass of all steps
# at 12:00:00: a change at 12:00:03 sets the routes at 12:00:03, and all steps run at 12:00:10.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
etc=/etc/hostrouting
routes_step=10-static-routes
end_of_gate='the gate ended with' # before its status, in a line of its own
# The text after `bash -c` with which systemd runs this script, and the gate before a start. It runs
# the script whose path follows, and fails if that is missing or cut short.
run_script=${BASH_EXECUTION_STRING:?run this script as hostrouting-guard.service does}

# In seconds.
idle_time=58          # until all steps run without a change: with shortest_pause, once a minute
shortest_pause=2      # after a pass
longest_pause=60      # after a pass that took long
full_pass_interval=10 # at least this long from one pass of all steps to the next
gather_time=0.02      # for changes that come together
silence_limit=90      # for the gate, which ends by itself after 75, and 5 for a step that hangs
log_again=3600        # when what stays wrong, or is repaired again and again, is logged again

# A pause is this many times as long as the pass before it, so that the guard uses little of a core,
# however much the steps have to do.
pause_factor=20

# In 1/100 s.
second=100
now=0            # set by read_clock
next_full_pass=0 # when all steps may run again; the first pass is one of all steps
next_log=0       # when lines that repeat are logged again

pause=0            # in seconds; set by run_gate
has_failed=''      # whether a pass has failed since all steps have last succeeded
heard=''           # the last line of `ip monitor`
declare -A printed # by the steps of a pass: the lines that the last such pass printed

# systemd stops the guard with SIGTERM: then it has not failed, and is not cut short. All processes
# of a service get that signal (KillMode=), so this does not wait for a `sleep`, nor for a step.
trap 'trap - EXIT; exit 0' TERM

main() {
  local timeout=1 # the first pass comes when `ip monitor` listens
  # 2>&1: "netlink receive error No buffer space available" also wakes this script: something was
  # lost, so look.
  exec 3< <(exec ip monitor link address route rule 2>&1)
  while wait_for_change "$timeout"; do
    read_clock
    if ((now < next_full_pass)) && [[ -e $etc/gate.d/$routes_step.sh ]]; then
      set_routes
      timeout=$(seconds_until_full_pass)
    else
      run_all_steps
      timeout=$idle_time
    fi
    if ((timeout < 1)); then
      timeout=1 # with 0, `read` would fail where it has to wait
    fi
  done
  log 3 "ip monitor ended${heard:+; its last words: $heard}"
  trap - EXIT
  exit 255
}

# Fails if there will be no more changes.
wait_for_change() { # SECONDS
  local status first rest
  read -r -N 1 -t "$1" -u 3 first
  status=$?
  if ((status > 128)); then
    return 0 # nothing has changed for that long
  elif ((status != 0)); then
    return 1 # `ip monitor` has ended
  fi
  # Read before the pass, so that changes during the pass are seen. With -N, bash does not read byte
  # by byte.
  read -r -N 1000000 -t "$gather_time" -u 3 rest
  # What the end of the time left unread is in a buffer of bash, and the next `read` of any file
  # would begin with it. mapfile empties that buffer.
  mapfile -n 1 </dev/null
  heard=${first}${rest%$'\n'}
  heard=${heard##*$'\n'}
  return 0
}

# --- The two kinds of pass ------------------------------------------------------------------------

# A removed route does not wait for the other steps, which may take long.
set_routes() {
  run_gate "$routes_step"
  sleep "$pause"
  read_clock
}

run_all_steps() {
  local interval=$full_pass_interval
  if ((now < next_full_pass)); then # without a step for routes, this is the only kind of pass
    sleep "$(seconds_until_full_pass)"
  fi
  run_gate
  if ((pause > interval)); then
    interval=$pause
  fi
  next_full_pass=$((now + interval * second))
  sleep "$shortest_pause" # and not for `pause`: the routes may need repair before
}

seconds_until_full_pass() {
  echo $(((next_full_pass - now + second - 1) / second)) # rounded up
}

# Runs all steps, or the named one, and logs the lines that the last such pass did not print: what
# stays wrong, and a verdict that stays the same, is logged once. Sets `pause`.
run_gate() { # [STEP]
  local kind=${1-all} # of pass: the step that it runs, or all
  local began line lines=()
  local status='' # of the gate; empty if it has not said that it ended
  read_clock
  began=$now
  if ((now >= next_log)); then
    printed=()
    next_log=$((now + log_again * second))
  fi
  # Up to that line and not up to the end: a process that a step leaves behind can print, too.
  while IFS='' read -r -t "$silence_limit" line; do
    if [[ $line == "$end_of_gate "* ]]; then
      status=${line##* }
      break
    elif [[ $line ]]; then
      lines+=("$line")
    fi
  done < <(
    /bin/bash -pc "$run_script" "$etc/gate.sh" hostrouting-guard.service "$@" 2>&1 3<&-
    printf '\n%s %s\n' "$end_of_gate" $?
  )
  for line in "${lines[@]}"; do
    if [[ $'\n'${printed[$kind]-}$'\n' != *$'\n'"$line"$'\n'* ]]; then
      printf '%s\n' "$line" >&2
    fi
  done
  printf -v "printed[$kind]" '%s\n' "${lines[@]}"
  note_outcome "$kind" "$status"
  read_clock
  pause=$(((now - began) * pause_factor / second))
  if ((pause < shortest_pause)); then
    pause=$shortest_pause
  elif ((pause > longest_pause)); then
    pause=$longest_pause
  fi
}

# A gate that is silent is left to itself: it shares its lock with the gate of the next pass.
note_outcome() { # KIND STATUS
  if [[ ! $2 ]]; then
    log 4 "the gate was killed, or has printed nothing for $silence_limit s"
  fi
  if [[ $2 != 0 ]]; then
    has_failed=1
  elif [[ $1 == all && $has_failed ]]; then
    has_failed=''
    log 5 'all steps succeed again'
  fi
}

log() { # LEVEL LINE
  printf '<%s>hostrouting: hostrouting-guard.service: %s\n' "$1" "$2" >&2
}

# Here comes clock.sh.

main
