# The gate: runs the steps of this host before a gated unit starts, and refuses the start if one of
# them fails. A step is a script in /etc/hostrouting/gate.d, such as 10-static-routes.sh; bash reads
# it, whatever its first line says. They run in the order of their names. There are three kinds:
#
#   required            the unit starts only if the step succeeds
#   wanted              if the step fails, that is logged, and the unit starts
#   another program's   a step in neither of the two lists: it runs only before a start, and the
#                       unit starts only if it succeeds
#
# The next line is the only one that differs between hosts. It is generated, and has to stay one
# line: reread_names_of_steps reads it again.
required=() wanted=()

# Bash 4.4 or later (docs/limits.md has all versions).
#
# Arguments: UNIT [STEP]. There are three modes:
#
#   start     by the drop-in of a gated unit, before each start of it
#   oneshot   by a service such as static-routes.service, with the one STEP that it is for
#   guard     by hostrouting-guard.service, again and again: all steps of hostrouting, or one STEP
#
# Only a start is held back. In the other modes, the failure of a step is logged, and the next one
# runs.
#
# A start runs it as the ExecCondition= of 00-host-routing.conf, a drop-in of the unit. Its lines go
# where the unit's own do (StandardError=). To try it by hand, as root: bash FILE UNIT
#
# Exit status: 0 or 255. With 1 to 254, systemd would skip the start and report a success. The
# command in the drop-in has a trap that ends with 255, and only `end` takes it away. So if this
# file is missing, cut short or wrong, no unit starts. Two settings of a unit let it start in spite
# of a refusal: SuccessExitStatus=255, which `hostrouting status` names (GATE-OPEN), and, if
# something kills the gate, SuccessExitStatus=SIGKILL.
unit=$1
only_step=${2-}
mode=start
if [[ $unit == hostrouting-guard.service ]]; then
  mode=guard
elif [[ $only_step ]]; then
  mode=oneshot
fi

etc=/etc/hostrouting
run=/run/hostrouting
opening=$run/gate.open
lock=$run/lock # take_lock says what these two are for
turn=$run/turn
advice_apply="as root: hostrouting apply --config $etc/config.json"

# In seconds.
time_limit=75 # for the locks and all steps, with kill_after less than the 90 of systemd for a start
kill_after=5  # from SIGTERM to SIGKILL, for a step that does not end when its time is over
work_time=10  # what a step still has for its work after it has waited for what is missing

now=0         # in 1/100 s; set by read_clock
began=0       # `now` at the beginning
time_left=0   # in seconds, of time_limit; set by find_time_left
step_limit=0  # in seconds, for the next step; set by find_step_limit
fault=''      # why root must not run the next step, and
repair=''     # what to do about it; both are set by find_fault
has_failed='' # whether a step has failed
activity=''   # what a signal would interrupt
signal=''     # the one that ends the gate
enter_host_network=() # a command that runs another one in the network of the host, if needed
declare -A owner_of permissions_of # by path; of a link, those of the file that it leads to

# What a unit can have in its environment changes how bash works. With -p, as in the drop-in, bash
# itself ignores exported functions, BASH_ENV, SHELLOPTS, BASHOPTS and GLOBIGNORE.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
unset FUNCNEST TMOUT # limits for calls of functions within functions, and for `read`
# POSIXLY_CORRECT: bash would end at the `exec` that opens a lock that cannot be opened, and before
# 5.1, it could not read the `<(` that comes below.
set +o posix
shopt -s nullglob

# --- What is done, in order -----------------------------------------------------------------------

main() {
  local step steps missing=()
  read_clock
  began=$now
  if [[ $mode == start && -e $opening ]]; then
    exit_if_opened
  fi
  take_lock
  reread_names_of_steps
  if [[ $only_step ]]; then
    steps=("$etc/gate.d/$only_step.sh")
  else
    for step in "${required[@]}" "${wanted[@]}"; do
      if [[ ! -e $etc/gate.d/$step.sh && ! -L $etc/gate.d/$step.sh ]]; then
        missing+=("$etc/gate.d/$step.sh")
      fi
    done
    steps=("${missing[@]}" "$etc"/gate.d/*.sh) # what is missing is said before a step waits
  fi
  read_access "$etc" "$etc/gate.d" "${steps[@]}"
  exit_if_others_write
  # `+` in a drop-in does not undo PrivateNetwork= and NetworkNamespacePath=: the steps must see the
  # routes of the host.
  if [[ $mode == start && ! /proc/self/ns/net -ef /proc/1/ns/net ]]; then
    enter_host_network=(nsenter --target 1 --net --)
  fi
  for step in "${steps[@]}"; do
    run_step "$step"
  done
  if [[ $mode != start && $has_failed ]]; then
    end 255 # the failures are logged
  fi
  end 0
}

# --- The ways to end ------------------------------------------------------------------------------

end() { # STATUS
  trap - EXIT
  exit "$1"
}

exit_failed() { # REASON
  if [[ $mode == start ]]; then
    log 3 "$unit was not started: $1"
    advise_to_open
  else
    log 3 "$unit: $1"
  fi
  end 255
}

# Not after a signal: an operator who stops a unit that is starting needs no advice.
advise_to_open() {
  if [[ ! $signal ]]; then
    log 3 "to start ALL gated units without any step (no static route is set, nothing is checked) \
until $opening is deleted, as root: \
echo REASON >$opening && chmod 644 $opening" # with some umasks, the group could write to it
  fi
}

# Ends the gate if the step holds the unit back, and otherwise returns.
step_failed() { # STEP REASON
  has_failed=1
  if [[ $mode != start ]]; then
    log 4 "$unit: $2"
  elif is_among "$1" "${wanted[@]}"; then
    log 4 "$unit: $2; this alone does not hold it back"
  else
    exit_failed "$2"
  fi
}

log() { # LEVEL LINE
  printf '<%s>hostrouting: %s\n' "$1" "$2" >&2
}

# shellcheck disable=SC2317 # only traps call it
exit_on_signal() { # SIGNAL
  local reason="$1 ended the gate"
  signal=$1
  trap '' HUP INT QUIT TERM USR1 USR2
  if [[ $activity ]]; then
    reason+=" while $activity"
    # %% is the program that `activity` is about, as the gate waits for each before the next one. If
    # the signal came before it was started, there is none.
    kill %% 2>/dev/null
    wait %% 2>/dev/null # a step ends within kill_after; until then, the lock must be held
  fi
  if [[ $1 == SIGTERM ]]; then
    reason+="; systemd sends SIGTERM to a unit that is stopped, or whose start takes longer than \
its TimeoutStartSec="
  fi
  exit_failed "$reason"
}

# A gate that a signal kills would have succeeded if its unit has SuccessExitStatus=SIGTERM. These
# are the signals with which units are stopped or reloaded, so they may be in that setting.
trap 'exit_on_signal SIGHUP' HUP
trap 'exit_on_signal SIGINT' INT
trap 'exit_on_signal SIGQUIT' QUIT
trap 'exit_on_signal SIGTERM' TERM
trap 'exit_on_signal SIGUSR1' USR1
trap 'exit_on_signal SIGUSR2' USR2
trap '' PIPE # a lost log ends nothing

# --- The opened gate ------------------------------------------------------------------------------

# An administrator has opened the gate if only root can have written the file, and it has a reason.
# `hostrouting status` has the same rule (boot/unit_gates.py); one test is for both.
exit_if_opened() {
  local owner permissions kind why_not='' reason=''
  read -r owner permissions kind < <(stat -c '%u %a %F' "$opening")
  # For stat: this may be all that the gate does, and systemd would warn of a process that it leaves
  # behind.
  wait "$!"
  if [[ $kind != 'regular '* ]]; then # or it says `regular empty file`
    why_not="it is a ${kind:-file that stat cannot read}"
  elif [[ $owner != 0 ]]; then
    why_not='it does not belong to root'
  elif [[ $permissions != [46][04][04] ]]; then
    why_not="its mode is $permissions; it must not be a program, and only root may write to it: 644"
  else
    read -r reason <"$opening"
  fi
  if [[ $reason == *[![:space:]]* ]]; then
    log 4 "$unit starts UNCHECKED: $opening: $reason"
    end 0
  fi
  log 4 "$opening is ignored: ${why_not:-its first line is empty, and has to be the reason}"
}

# --- The lock -------------------------------------------------------------------------------------

# Takes `lock`, which keeps the files as they are until the last step has ended. Starts share it; a
# writer, such as `hostrouting apply`, has it alone. Both lock `turn` first, and keep that while
# they wait for `lock`: otherwise, units that start again and again would starve a writer.
#
# Only root can open the two files, because whoever can read a file can lock it. If /run is full or
# read-only, there may be no lock, but then no writer can have one either.
take_lock() {
  local error
  umask 077
  if [[ ! -d $run ]]; then
    mkdir -m 755 "$run" 2>/dev/null
  fi
  if ! { exec 8<>"$turn" 9<>"$lock"; } 2>/dev/null; then
    # Once more, for the reason: without 2>/dev/null.
    error=$({ exec 8<>"$turn" 9<>"$lock"; } 2>&1)
    log 4 "$unit: the steps run without a lock, as there is none: ${error#*: line *: }"
    return 0
  fi
  wait_for_lock "$turn" --exclusive 8 "another start or change, which waits for $lock"
  wait_for_lock "$lock" --shared 9 'a process that changes the host, such as hostrouting apply'
  exec 8<&- # the next in the queue waits for `lock`
}

wait_for_lock() { # FILE OPTION DESCRIPTOR HOLDER
  local status
  find_time_left
  activity="it waited for $1"
  flock "$2" --timeout "$time_left" "$3" & # so that a signal to the gate is handled at once
  wait $!
  status=$?
  activity=''
  if ((status == 1)); then
    exit_failed "$1 was still locked after $time_limit s, by $4; \
to see which processes have it open, as root: find /proc/[0-9]*/fd -lname $1"
  elif ((status != 0)); then
    exit_failed "flock failed to lock $1 (exit $status), see the line above"
  fi
}

# A writer may have replaced this file while the lock was awaited. The steps are read after this. If
# `hostrouting remove` has deleted it, the steps are missing, too: this start is refused, and the
# next one has no gate.
reread_names_of_steps() {
  local line
  while read -r line; do
    if [[ $line == required=* ]]; then
      eval "$line"
      return 0
    fi
  done <"$0"
}

# --- Who can change what root runs ----------------------------------------------------------------

# One process for all paths: each process costs a start a millisecond. Not judged: a path with a
# newline, which ends the gate with an error of bash.
read_access() { # PATH...
  local owner permissions path
  while read -r owner permissions path; do
    owner_of[$path]=$owner
    permissions_of[$path]=$permissions
  done < <(stat -Lc '%u %a %n' "$@" 2>/dev/null)
}

# Whoever can write to a step, or to the folder that it is in, would be root at the next start of a
# unit.
exit_if_others_write() {
  local folder
  for folder in "$etc" "$etc/gate.d"; do
    if [[ -e $folder && ! ${owner_of[$folder]-} ]]; then
      exit_failed "stat does not say who can write to $folder, and root runs what is there"
    elif [[ -e $folder ]] && ! only_root_writes "$folder"; then
      exit_failed "users other than root can write to $folder, and root runs what is there; \
as root: chown root $folder && chmod 755 $folder"
    fi
  done
}

only_root_writes() { # PATH
  local permissions=${permissions_of[$1]-}
  # 022 are the bits that let the group, and all others, write.
  [[ ${owner_of[$1]-} == 0 ]] && (((8#$permissions & 8#022) == 0))
}

# Sets `fault` if root must not run the step, and `repair`.
find_fault() { # PATH IS_OURS
  local typed
  printf -v typed '%q' "$1" # quoted for a shell: others may have chosen the name
  fault=''
  repair="as root: chown root $typed && chmod 644 $typed"
  if [[ -L $1 ]]; then
    # It could lead to a folder in which others can write.
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
    fault="users other than root can write to $1"
  fi
  if [[ $2 ]]; then
    repair=$advice_apply # writes it again: others may have changed its text
  fi
}

# --- The steps ------------------------------------------------------------------------------------

run_step() { # PATH
  local name is_ours='' step_began status
  name=${1##*/}
  name=${name%.sh}
  # With only_step, one of the oneshot services runs the gate, with its own step.
  if [[ $only_step ]] || is_among "$name" "${required[@]}" "${wanted[@]}"; then
    is_ours=1
  fi
  if [[ $mode == guard && ! $is_ours ]]; then
    return 0
  fi
  find_fault "$1" "$is_ours"
  if [[ $fault ]]; then
    step_failed "$name" "$fault, so it is not run; $repair"
    return 0
  fi
  find_step_limit "$name"
  if ((step_limit <= 0)); then
    step_failed "$name" "step $name was not run: what came before took all $time_limit s"
    return 0
  fi
  step_began=$now # read_clock has just been called, by find_step_limit
  activity="step $name ran"
  execute "$1" "$is_ours"
  status=$?
  activity=''
  if ((status == 0)); then
    return 0
  fi
  read_clock
  # The status of `timeout` is 124, or 137 after SIGKILL, which can also come from somebody else.
  if ((status == 124 || status == 137)) && ((now - step_began >= step_limit * 100)); then
    step_failed "$name" "$1 ran longer than $step_limit s, and was ended"
  elif ! "${enter_host_network[@]}" true 2>/dev/null; then # nsenter has failed, not the step
    step_failed "$name" "step $name was not run: nsenter cannot enter the network of the host, \
see the lines above"
  else
    step_failed "$name" "step $name failed (exit $status), see the lines above"
  fi
}

# A step has to print the same lines while the same is wrong: the guard logs those that are new.
#
# What it gets: $0 is its path, $1 the unit that it runs for, and $2 how many seconds it may
# wait for what is missing. It gets neither the environment of the unit (exec -c) nor the lock
# (9<&-), which would stay locked by a process that the step leaves behind. nsenter, which gets no
# PATH either, finds `timeout` where the C library looks then: in /bin and /usr/bin.
execute() { # PATH IS_OURS
  local may_wait=0 command="export LC_ALL=C PATH=$PATH; umask 022; . \"\$0\""
  if [[ $2 ]]; then
    # One of ours ends with an `exit` of its own, unless it has been cut short.
    command+="; echo \"<3>hostrouting: \$0 is cut short\" >&2; exit 1"
  fi
  # The guard waits for nothing: it runs the step again when something has changed.
  if [[ $mode != guard ]] && ((step_limit > work_time)); then
    may_wait=$((step_limit - work_time))
  fi
  # In the background, for the same reason as `flock`; so it has nothing to read.
  exec -c "${enter_host_network[@]}" timeout -k "$kill_after" "$step_limit" \
    /bin/bash -c "$command" "$1" "$unit" "$may_wait" 9<&- &
  wait $!
}

is_among() { # WORD WORD...
  local word
  for word in "${@:2}"; do
    if [[ $word == "$1" ]]; then
      return 0
    fi
  done
  return 1
}

# --- Time -----------------------------------------------------------------------------------------

# Sets `now`, too.
find_step_limit() { # STEP
  find_time_left
  step_limit=$time_left
  if is_among "$1" "${wanted[@]}"; then
    step_limit=$((time_left - time_left / 3)) # two thirds: the steps that follow also need time
  fi
}

find_time_left() {
  read_clock
  time_left=$((time_limit - (now - began) / 100))
  if ((time_left < 0)); then
    time_left=0
  fi
}

# Here comes clock.sh.

main # one command: after an error in a command, bash goes on with the next
