# Holds a unit back until the steps in gate.d have succeeded. Only the next line is not everywhere
# the same: the steps that must succeed, and those whose failure is only logged.
required=() wanted=()
# Arguments: UNIT [STEP]. The drop-in of a gated unit runs this before each start. The oneshots,
# with their STEP, and the guard run steps again with it. They hold nothing back, and log each
# failure.
#
# Run by bash -pc 'trap "exit 255" EXIT; . "$0"', where only `pass` ends with another status: a file
# that is missing, cut short or wrong refuses.
unit=$1 only=${2-} guard=hostrouting-guard.service
etc=/etc/hostrouting run=/run/hostrouting
open=$run/gate.open
limit=75 # seconds for the lock and all steps: a start has 90
SECONDS=0
failures=0
is_start=''
if [[ ! $only && $unit != "$guard" ]]; then
  is_start=1
fi
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
unset FUNCNEST # the environment of a unit may limit how deep functions call each other
shopt -s nullglob
set +o posix

# --- The ways to end ------------------------------------------------------------------------------

log() { # LEVEL LINE
  printf '<%s>hostrouting: %s\n' "$1" "$2" >&2
}

pass() {
  trap - EXIT
  exit 0
}

refuse() { # REASON
  if [[ $is_start ]]; then
    log 3 "$unit must not start: $1; to start it unchecked: echo REASON >$open"
  else
    log 3 "$unit: $1"
  fi
  exit 255
}

# Refuses if the unit may not start without this step.
report() { # STEP REASON
  if [[ ! $is_start ]]; then
    log 4 "$unit: $2"
  elif is_among "$1" "${wanted[@]}"; then
    log 4 "$unit: $2; this alone does not hold it back"
  else
    refuse "$2"
  fi
  failures=1
}

# Whoever can write to a step, or to the folder that it is in, would be root at the next start of a
# unit.
check_folders() {
  local folder
  for folder in "$etc" "$etc/gate.d"; do
    if [[ -e $folder ]] && ! only_root_writes "$folder"; then
      refuse "others than root can write to $folder, and root runs what is there; \
as root: chown root $folder && chmod 755 $folder"
    fi
  done
}

# Prints why a step is not run. A link can lead to a folder of somebody else. A step that is missing
# fails when it is run.
fault_of() { # STEP
  if [[ -L $1 ]]; then
    printf '%s is a link' "$1"
  elif [[ ! -e $1 ]] || only_root_writes "$1"; then
    return
  elif [[ $(stat -c %u "$1") != 0 ]]; then
    printf '%s does not belong to root' "$1"
  else
    printf 'others than root can write to %s' "$1"
  fi
}

# Prints how to repair such a step: ours may have been changed, and is written again.
repair_of() { # STEP IS_OURS
  if [[ $2 ]]; then
    printf 'as root: hostrouting apply --config %s/config.json' "$etc"
  elif [[ -L $1 ]]; then
    printf 'put a copy of the file in its place'
  else
    printf 'as root: chown root %s && chmod 644 %s' "$1" "$1"
  fi
}

only_root_writes() { # PATH: of a link, what it leads to
  [[ $(stat -Lc '%u %04a' "$1") == '0 '??[0145][0145] ]]
}

is_among() { # WORD WORD...
  local word=$1
  shift
  [[ " $* " == *" $word "* ]]
}

# A gate that SIGTERM kills would have succeeded if its unit has SuccessExitStatus=SIGTERM.
trap 'kill %% 2>/dev/null; refuse "a signal ended the gate"' HUP INT QUIT TERM ALRM USR1 USR2
trap '' PIPE # a lost log ends nothing

# --- What is done, in order -----------------------------------------------------------------------

main() {
  local name step host=()
  if [[ $is_start && -e $open ]]; then
    pass_if_open
  fi
  take_lock
  # `+` in a drop-in does not undo PrivateNetwork= and NetworkNamespacePath=: the steps must see the
  # routes of the host.
  if [[ $is_start && ! /proc/self/ns/net -ef /proc/1/ns/net ]]; then
    host=(nsenter --target 1 --net --)
  fi
  check_folders
  if [[ ! $only ]]; then
    for name in "${required[@]}" "${wanted[@]}"; do
      if [[ ! -e $etc/gate.d/$name.sh ]]; then
        report "$name" "$etc/gate.d/$name.sh is missing"
      fi
    done
  fi
  for step in "$etc"/gate.d/${only:-*}.sh; do
    run_step "$step"
  done
  if [[ $is_start ]] || ((failures == 0)); then
    pass
  fi
}

# An administrator has opened the gate if only root can have written the file, and it has a reason.
pass_if_open() {
  local reason=''
  if [[ $(stat -c '%F %u %a' "$open") == 'regular file 0 '[46][04][04] ]]; then
    read -r reason <"$open"
  fi
  if [[ $reason ]]; then
    log 4 "$unit starts UNCHECKED: $open: ${reason::200}"
    pass
  fi
  log 4 "$open is ignored: it must be a file that only root can write to, with a reason in it"
}

# The lock keeps the files as they are until the last step has ended. Only root can open it: whoever
# can read a file can lock it. Whoever waits for `lock` holds `turn` alone; otherwise, units that
# start again and again would starve a writer. If /run is full or read-only, there may be no lock,
# but then no writer can have one either.
take_lock() {
  local line='' left
  umask 077
  if [[ ! -d $run ]]; then
    mkdir -m 755 "$run" 2>/dev/null
  fi
  if ! { exec 8<>"$run/turn" 9<>"$run/lock"; } 2>/dev/null; then
    return
  fi
  flock -w "$limit" 8 || refuse "$run/lock was held for $limit s"
  left=$((SECONDS < limit ? limit - SECONDS : 0))
  flock -s -w "$left" 9 || refuse "$run/lock was held for $limit s"
  exec 8<&-
  # A writer may have changed this file during the wait; the steps themselves are read below.
  while read -r line && [[ $line != required=* ]]; do :; done <"$0"
  eval "$line"
}

run_step() { # PATH
  local name left patience=0 is_ours='' why
  name=${1##*/}
  name=${name%.sh}
  left=$((limit - SECONDS))
  if [[ $only ]] || is_among "$name" "${required[@]}" "${wanted[@]}"; then
    is_ours=1
  fi
  # Another program's step is only for a start. If it fails, the start is refused.
  if [[ ! $is_start && ! $is_ours ]]; then
    return
  fi
  why=$(fault_of "$1")
  if [[ $why ]]; then
    report "$name" "$why, so it is not run; $(repair_of "$1" "$is_ours")"
    return
  fi
  if is_among "$name" "${wanted[@]}"; then
    left=$((left * 2 / 3)) # the steps that follow also need time
  fi
  if ((left <= 0)); then
    report "$name" "no time was left for $name: what came before took all $limit s"
    return
  fi
  if [[ $unit != "$guard" ]] && ((left > 10)); then
    patience=$((left - 10)) # seconds that it may wait for what is missing
  fi
  # In the background: a signal is handled at once. The step has neither the environment of the unit
  # (-c) nor the lock. Ours fails if its end is missing.
  exec -c "${host[@]}" timeout -k 5 "$left" </dev/null 9<&- \
    /bin/bash -c "export LC_ALL=C PATH=$PATH; umask 022; . \"\$0\"; exit $is_ours" \
    "$1" "$unit" "$patience" &
  wait $!
  case $? in
    0) return ;;
    124 | 137) why="ran longer than $left s, or was killed" ;;
    *) why=failed ;;
  esac
  report "$name" "$name $why"
}

main # one command: after an error in a command, bash goes on with the next
