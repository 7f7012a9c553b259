#!/bin/bash
finished='' && trap '[[ $finished ]] || exit 1' EXIT # a script that was cut short fails
# Holds units back until the routing of this host is right. Written by hostrouting.
#
#   host-routing-gate.sh            run by host-routing-gate.service: runs the steps in host-routing-gate.conf, in order
#   host-routing-gate.sh ask UNIT   run before the start of a gated unit: starts that service and waits for its result
#
# Exit status: 0, or 1 if the unit must not start. A step is a line "RANK KIND NAME":
#   50 requires NAME   NAME.sh runs, and the unit starts only if it succeeds
#   50 wants NAME      NAME.sh runs, and the unit starts whatever the result
#   50 changing NAME   a run of hostrouting began to change NAME.sh and did not finish: the unit does not start

# Only data: no line of it is ever run.
configuration=(
)

set -u
# With one of these variables set, or if systemctl takes this for a chroot, it succeeds without doing anything.
unset SYSTEMD_OFFLINE SYSTEMD_IN_CHROOT
export SYSTEMD_IGNORE_CHROOT=1 LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin

unit=${configuration[0]#* } scripts=${configuration[1]#* } steps=${configuration[2]#* } units=${configuration[3]#* }
lock=${configuration[4]#* } opening=$scripts/gate.open

# The unit that asks; for the service, all gated units: those that have our drop-in.
gated=''
if [[ ${1-} == ask && ${2-} ]]; then
  gated=$2
else
  for path in "$units"/*.d/00-host-routing.conf; do
    path=${path%.d/*}
    [[ $path == "$units/*" ]] || gated+="${gated:+, }${path##*/}"
  done
fi

pass() { finished=1 && exit 0; }

refuse() {
  printf '<3>host-routing-gate: %s must not start: %s\n' "$gated" "$1" >&2
  finished=1 && exit 1
}

warn() { printf '<4>host-routing-gate: %s\n' "$*" >&2; }

# --- host-routing-gate.sh ask

# A failed `systemctl start` is not always a refusal: hostrouting may have stopped the service to change a script, or
# systemd may have re-executed itself and dropped the connection, perhaps again and again. Then try for about 20 s; if
# the service is running, `start` waits for that run.
ask() {
  local begin tries last=''
  end_if_opened
  # Exit with 1: a setting of the unit may count other statuses, such as that of SIGTERM, as success.
  trap 'finished=1; exit 1' TERM HUP INT QUIT PIPE ALRM USR1 USR2
  read -r begin _ </proc/uptime
  begin=${begin/./}0000 # microseconds
  for ((tries = 0; tries < 60; tries++)); do
    systemctl --no-ask-password start "$unit" && pass
    is_removed && pass
    take_result
    sleep 0.3
  done
  refuse_start "$unit does not finish; see journalctl -u $unit"
}

# Says how to start the unit all the same without Python; `hostrouting gate` does the same.
refuse_start() {
  local line
  # shellcheck disable=SC2016  # the line is typed later, and expands then
  printf -v line 'echo $(date -d 2hour +%%s) %q ${SUDO_USER:-root} WHY >%s' "$gated" "$opening"
  refuse "$1; to start it unchecked for 2 hours, type as root: $line"
}

# Ends this script if an administrator has opened the gate for this unit. Lines are "UNTIL UNIT WHO WHY", with the time
# in seconds since 1970, and `all` for every unit. A file that is not exactly that, that others than root can write, or
# that is newer than the clock does not open the gate: after a clock was set back, the gate would be open for too long.
end_if_opened() {
  local lines=() line mode='' since='' now until form='^([0-9]{1,11}) ([^ ]+) ([^ ]+) (.+)$'
  [[ -e $opening || -L $opening ]] || return 0
  printf -v now '%(%s)T' -1
  if [[ -L $opening || ! -f $opening || ! -O $opening ]] || ! read -r mode since < <(stat -c '%a %Y' "$opening") ||
    [[ ! $mode =~ ^[46][04][04]$ ]] || ! mapfile -t lines <"$opening"; then
    warn "$opening does not open the gate: it has to be a file that only root can write"
    return
  fi
  for line in "${lines[@]}"; do
    [[ $line =~ $form ]] && continue
    warn "$opening does not open the gate: the line '$line' does not have the form UNTIL UNIT WHO WHY"
    return
  done
  for line in "${lines[@]}"; do
    [[ $line =~ $form ]]
    until=$((10#${BASH_REMATCH[1]}))
    ((now < until)) || continue
    case ${BASH_REMATCH[2]} in
      all | "$gated" | "${gated%%@*}@.service") ;;
      *) continue ;;
    esac
    if ((now < since)); then
      warn "$opening does not open the gate: it is newer than this host's clock, which may be wrong"
      return
    fi
    printf -v until '%(%F %T %Z)T' "$until"
    warn "$gated starts unchecked until $until; ${BASH_REMATCH[3]} opened the gate: ${BASH_REMATCH[4]}"
    systemctl --no-ask-password --no-block start "$unit" # what the steps can repair, they repair
    pass
  done
}

# Whether hostrouting was removed from this host meanwhile. Missing drop-ins do not prove it: a setting of the unit may
# hide the files from this script.
is_removed() {
  ! has_drop_in || return 1
  [[ ! -e $scripts/host-routing-gate.sh || $(systemctl show --property LoadState "$unit") == LoadState=not-found ]]
}

has_drop_in() {
  for path in "$units"/*.d/00-host-routing.conf; do
    [[ ! -e $path ]] || return 0
  done
  return 1
}

# Ends this script if the service has run since it began, or cannot be started.
take_result() {
  local name value before=$last began=ExecMainStartTimestampMonotonic ended=ExecMainExitTimestampMonotonic
  local -A is=([$began]=0 [$ended]=0)
  while IFS='=' read -r name value; do
    is[${name:-none}]=$value
  done < <(systemctl show -p LoadState,ActiveState,SubState,Result,ExecMainCode,ExecMainStatus,$began,$ended "$unit")
  [[ ${is[LoadState]-loaded} == loaded ]] || refuse_start "see journalctl -u $unit"
  # A run that began after this script, and exited (1) with 0.
  name="${is[ActiveState]-} ${is[Result]-} ${is[ExecMainCode]-} ${is[ExecMainStatus]-}"
  [[ $name == 'inactive success 1 0' ]] && ((is[$began] >= begin)) && pass
  [[ ${is[ActiveState]-} == failed || ${is[SubState]-} == auto-restart ]] && [[ ${is[Result]-} != signal ]] || return
  # A refusal ends after this script began. After a suspend the two clocks differ: then a changed end counts.
  last=${is[$ended]}
  ((last >= begin)) || [[ $before && $before != "$last" ]] || return
  refuse_start "see journalctl -u $unit"
}

# --- host-routing-gate.sh

# How many seconds the first step may wait for what the host lacks. Later steps, or steps after a wait for the lock, get
# less: by default the start of a unit may take 90 s.
patience=60

take_steps() {
  local held line name all=()
  read_steps
  # A list without steps means that hostrouting is being removed.
  ((${#all[@]})) || pass
  # A run of hostrouting holds the lock while it changes the steps. The scripts run without the lock: hostrouting stops
  # this service before it changes them.
  require_file "$lock"
  if [[ -e $lock ]]; then
    { exec {held}<"$lock"; } 2>/dev/null || refuse "cannot open $lock"
    flock --shared --nonblock "$held" || await_lock "$held"
    exec {held}<&-
    read_steps
  fi
  for line in "${all[@]}"; do
    [[ $line =~ ^[0-9]+\ (requires|wants|changing)\ ([a-z0-9-]+)$ ]] ||
      refuse "$steps: the line '$line' is not a step; write it again with: hostrouting apply --config FILE"
    name=${BASH_REMATCH[2]}
    case ${BASH_REMATCH[1]} in
      requires) require "$name" ;;
      wants) want "$name" ;;
      *)
        refuse "a run of hostrouting did not finish changing $name.sh; run it again: hostrouting apply --config FILE" ;;
    esac
  done
  pass
}

# A run of hostrouting that takes longer than this waits for something, such as a default route; it has written the list
# before.
await_lock() {
  local status=0
  flock --shared --timeout 45 "$1" || status=$?
  ((status < 2)) || refuse "flock cannot be run (status $status)"
  patience=15
}

require_file() { [[ ! -e $1 || -f $1 ]] || refuse "$1 is not a regular file; remove it"; }

# Sets `all`. The last line marks the list as complete.
read_steps() {
  local lines=() line
  require_file "$steps"
  if [[ ! -e $steps ]]; then
    has_drop_in || pass # hostrouting was removed from this host meanwhile
    refuse "$steps is missing; write it again with: hostrouting apply --config FILE"
  fi
  mapfile -t lines <"$steps" || refuse "cannot read $steps"
  [[ ${#lines[@]} -gt 0 && ${lines[-1]} == end ]] ||
    refuse "$steps is incomplete; write it again with: hostrouting apply --config FILE"
  unset 'lines[-1]'
  all=()
  for line in "${lines[@]}"; do
    [[ $line == '#'* ]] || all+=("$line")
  done
}

require() {
  run_step "$1" || refuse "$1.sh failed"
  patience=15
}

# If a script hangs, systemd kills it together with this service.
want() {
  local name=$1 status='' what='did not end in time'
  read -r -t "$((patience + 5))" status < <(run_step "$name" >&2; echo $?)
  patience=15
  [[ $status == 0 ]] && return
  [[ $status ]] && what='failed'
  printf '<4>host-routing-gate: %s.sh %s; %s may start anyway\n' "$name" "$what" "$gated" >&2
}

# A script that ends without an exit, such as an empty one, has failed.
run_step() {
  /bin/bash -pc '[ -s "$0" ] && . "$0"
    echo "<3>$0 is missing or incomplete; write it again with: hostrouting apply --config FILE" >&2
    exit 1' "$scripts/$1.sh" "$patience" </dev/null
}

case ${1-} in
  ask) ask ;;
  *) take_steps ;;
esac
