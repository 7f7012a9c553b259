# Holds a unit back until the steps in gate.d have succeeded. Everything but the line required=...
# is identical on every host. That line names the steps of hostrouting on this host: a unit starts
# only if each required one succeeds. If a wanted one fails, that is logged, and the unit starts. A
# step in gate.d that is in neither list is another program's, and must succeed, too.
required=() wanted=()
# Arguments: UNIT [STEP]. There are three callers:
#   the drop-in of a gated unit, before each start: `must not start` is the answer to a failure
#   a oneshot such as static-routes.service, with the one STEP that it is for
#   hostrouting-guard.service, again and again: all steps of hostrouting, or one STEP
# The last two hold nothing back: each failure is logged, and the next step runs.
#
# Exit status: 0 or 255. With 1 to 254, systemd would skip the start and report a success.
# Run by bash -pc 'trap "exit 255" EXIT; . "$0"', where only `pass` ends with 0. So if this file is
# missing, cut short or wrong, no unit starts.
unit=$1
only_step=${2-}
guard=hostrouting-guard.service
is_start=''
if [[ ! $only_step && $unit != "$guard" ]]; then
  is_start=1
fi
etc=/etc/hostrouting run=/run/hostrouting
opening=$run/gate.open
apply="as root: hostrouting apply --config $etc/config.json"
time_limit=75 # seconds for the lock and all steps; systemd gives a start 90
SECONDS=0     # bash counts up from here
has_failed=''
declare -A owner_of mode_of # by path; of a link, those of the file that it leads to

# What a unit can have in its environment changes how bash works.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
unset FUNCNEST # a limit for calls of functions within functions
set +o posix   # POSIXLY_CORRECT: the `exec` that opens a lock that cannot be opened would end bash
shopt -s nullglob

# --- The ways to end ------------------------------------------------------------------------------

pass() {
  trap - EXIT
  exit 0
}

refuse() { # REASON
  if [[ $is_start ]]; then
    log 3 "$unit must not start: $1; \
to start all gated units unchecked until this file is deleted: echo REASON >$opening"
  else
    log 3 "$unit: $1"
  fi
  exit 255
}

# Refuses the start, unless the step is only wanted.
fail() { # STEP REASON
  has_failed=1
  if [[ ! $is_start ]]; then
    log 4 "$unit: $2"
  elif is_among "$1" "${wanted[@]}"; then
    log 4 "$unit: $2; this alone does not hold it back"
  else
    refuse "$2"
  fi
}

log() { # LEVEL LINE
  printf '<%s>hostrouting: %s\n' "$1" "$2" >&2
}

is_among() { # WORD WORD...
  local word
  for word in "${@:2}"; do
    if [[ $word == "$1" ]]; then
      return
    fi
  done
  return 1
}

# A gate that SIGTERM kills would have succeeded if its unit has SuccessExitStatus=SIGTERM.
trap 'kill %% 2>/dev/null; refuse "a signal ended the gate"' HUP INT QUIT TERM ALRM USR1 USR2
trap '' PIPE # a lost log ends nothing

# --- What is done, in order -----------------------------------------------------------------------

main() {
  local step steps enter_host_network=()
  if [[ $is_start && -e $opening ]]; then
    pass_if_opened
  fi
  take_lock
  reread_names_of_steps
  steps=("$etc"/gate.d/*.sh)
  if [[ $only_step ]]; then
    steps=("$etc/gate.d/$only_step.sh")
  fi
  read_access "$etc" "$etc/gate.d" "${steps[@]}"
  refuse_if_others_write
  # `+` in a drop-in does not undo PrivateNetwork= and NetworkNamespacePath=: the steps must see the
  # routes of the host.
  if [[ $is_start && ! /proc/self/ns/net -ef /proc/1/ns/net ]]; then
    enter_host_network=(nsenter --target 1 --net --)
  fi
  report_missing_steps
  for step in "${steps[@]}"; do
    run_step "$step"
  done
  if [[ $is_start || ! $has_failed ]]; then
    pass
  fi
  exit 255 # of a oneshot or the guard; its failures are logged
}

# An administrator has opened the gate if only root can have written the file, and it has a reason.
pass_if_opened() {
  local reason=''
  # Not a link, root's, not a program, and nobody else can write to it: 400, 600, 640, 644, ...
  if [[ $(stat -c '%F %u %a' "$opening") == 'regular file 0 '[46][04][04] ]]; then
    read -r reason <"$opening"
  fi
  if [[ $reason ]]; then
    log 4 "$unit starts UNCHECKED: $opening: ${reason::200}"
    pass
  fi
  log 4 "$opening is ignored: it must be a file that only root can write to, with a reason in it"
}

# Takes `lock`, which keeps the files as they are until the last step has ended. Starts share it; a
# writer, such as `hostrouting apply`, has it alone. Only the process that has `turn` waits for
# `lock`: otherwise, units that start again and again would starve a writer.
#
# Only root can open the two files, because whoever can read a file can lock it. If /run is full or
# read-only, there may be no lock, but then no writer can have one either.
take_lock() {
  umask 077
  if [[ ! -d $run ]]; then
    mkdir -m 755 "$run" 2>/dev/null
  fi
  if ! { exec 8<>"$run/turn" 9<>"$run/lock"; } 2>/dev/null; then
    return
  fi
  wait_for_lock "$run/turn" --exclusive 8
  wait_for_lock "$run/lock" --shared 9
  exec 8<&- # ends our turn
}

wait_for_lock() { # FILE OPTION DESCRIPTOR
  local time_left=$((time_limit - SECONDS))
  if ((time_left < 0)); then
    time_left=0
  fi
  if ! flock "$2" --timeout "$time_left" "$3"; then
    refuse "$1 was still locked by another process after $time_limit s; \
to see which processes have it open, as root: find /proc/[0-9]*/fd -lname $1"
  fi
}

# A writer may have replaced this file while the lock was awaited. The steps are read below.
reread_names_of_steps() {
  local line
  while read -r line; do
    if [[ $line == required=* ]]; then
      eval "$line"
      return
    fi
  done <"$0"
}

# One process for all paths: each process costs a start a millisecond.
read_access() { # PATH...
  local owner mode path
  while read -r owner mode path; do
    owner_of[$path]=$owner
    mode_of[$path]=$mode
  done < <(stat -Lc '%u %a %n' "$@" 2>/dev/null)
}

# Whoever can write to a step, or to the folder that it is in, would be root at the next start of a
# unit.
refuse_if_others_write() {
  local folder
  for folder in "$etc" "$etc/gate.d"; do
    if [[ -e $folder ]] && ! only_root_writes "$folder"; then
      refuse "others than root can write to $folder, and root runs what is there; \
as root: chown root $folder && chmod 755 $folder"
    fi
  done
}

only_root_writes() { # PATH
  local mode=${mode_of[$1]-}
  # 022 are the bits that let the group, and all others, write.
  [[ ${owner_of[$1]-} == 0 ]] && (((8#$mode & 8#022) == 0))
}

report_missing_steps() {
  local name
  if [[ $only_step ]]; then
    return
  fi
  for name in "${required[@]}" "${wanted[@]}"; do
    if [[ ! -e $etc/gate.d/$name.sh ]]; then
      fail "$name" "$etc/gate.d/$name.sh is missing; $apply"
    fi
  done
}

run_step() { # PATH
  local name is_ours='' fault='' repair='' time_left may_wait=0 at_end=exit
  name=${1##*/}
  name=${name%.sh}
  if [[ $only_step ]] || is_among "$name" "${required[@]}" "${wanted[@]}"; then
    is_ours=1
  fi
  # Another program's step is only for starts.
  if [[ ! $is_start && ! $is_ours ]]; then
    return
  fi
  find_fault "$1" "$is_ours"
  if [[ $fault ]]; then
    fail "$name" "$fault, so it is not run; $repair"
    return
  fi
  time_left=$((time_limit - SECONDS))
  if is_among "$name" "${wanted[@]}"; then
    time_left=$((time_left * 2 / 3)) # the steps that follow also need time
  fi
  if ((time_left <= 0)); then
    fail "$name" "no time was left for $name: what came before took all $time_limit s"
    return
  fi
  # The guard waits for nothing: it runs the step again when something has changed.
  if [[ $unit != "$guard" ]] && ((time_left > 10)); then
    may_wait=$((time_left - 10)) # seconds, for what is missing
  fi
  # Each of our steps ends with an `exit` of its own: one that does not has been cut short.
  if [[ $is_ours ]]; then
    at_end='exit 1'
  fi
  # In the background, so that a signal is handled at once. The step has neither the environment of
  # the unit (-c) nor the lock (9<&-).
  exec -c "${enter_host_network[@]}" timeout -k 5 "$time_left" \
    /bin/bash -c "export LC_ALL=C PATH=$PATH; umask 022; . \"\$0\"; $at_end" \
    "$1" "$unit" "$may_wait" </dev/null 9<&- &
  wait $!
  case $? in
    0) ;;
    124 | 137) fail "$name" "$name ran longer than $time_left s, or was killed" ;;
    *) fail "$name" "$name failed" ;;
  esac
}

# Sets `fault` if root must not run the step, and `repair`. A link could lead to a folder in which
# others can write. Ours may have been changed, so it is written again.
find_fault() { # STEP IS_OURS
  repair="as root: chown root $1 && chmod 644 $1"
  if [[ -L $1 ]]; then
    fault="$1 is a link"
    repair='put a copy of the file in its place'
  elif [[ ! -e $1 ]]; then
    fault="$1 is missing"
  elif [[ ! -f $1 ]]; then
    fault="$1 is not a file"
    repair='move it away'
  elif [[ ${owner_of[$1]-} != 0 ]]; then
    fault="$1 does not belong to root"
  elif ! only_root_writes "$1"; then
    fault="others than root can write to $1"
  fi
  if [[ $2 ]]; then
    repair=$apply
  fi
}

main # one command: after an error in a command, bash goes on with the next
