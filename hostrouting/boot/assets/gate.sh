# Holds a unit back until the steps in gate.d have succeeded. Only the next line differs from host to host.
required=() wanted=()
# Arguments: UNIT [STEP]. Run by bash -pc 'trap "exit 255" EXIT; . "$0"', where only `pass` ends with another status, so
# a file that is missing, cut short or wrong refuses. The drop-in of a gated unit runs this before each start. The
# oneshots, with their STEP, and the guard run steps again with it; they hold nothing back, and log each failure.
unit=$1 only=${2-} guard=hostrouting-guard.service etc=/etc/hostrouting run=/run/hostrouting
open=$run/gate.open is_start='' failures=0 limit=75 SECONDS=0 # for the lock and all steps: a start has 90 s
[[ $only || $unit == "$guard" ]] || is_start=1
unset FUNCNEST # the manager's environment could forbid that a function calls another
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C && shopt -s nullglob && set +o posix

log() { printf '<%s>hostrouting: %s\n' "$1" "$2" >&2; }
pass() { trap - EXIT; exit 0; }
refuse() {
  log 3 "$unit${is_start:+ must not start}: $1${is_start:+; to start it unchecked: echo REASON >$open}"
  exit 255
}
report() { # STEP REASON: refuses if the unit may not start without this step
  [[ ! $is_start || " ${wanted[*]} " == *" $1 "* ]] || refuse "$2"
  failures=1 && log 4 "$unit: $2${is_start:+; this alone does not hold it back}"
}
# Whoever can write to a step, or to the folder that it is in, would be root at the next start of a unit.
only_root_writes() { # PATH: of a link, what it leads to
  [[ $(stat -Lc '%u %04a' "$1") == '0 '??[0145][0145] ]]
}
check_folders() {
  local folder
  for folder in "$etc" "$etc/gate.d"; do
    if [[ -e $folder ]] && ! only_root_writes "$folder"; then
      refuse "others than root can write to $folder, and root runs what is there; \
as root: chown root $folder && chmod 755 $folder"
    fi
  done
}
is_protected() { # STEP: a link can lead to a folder of somebody else; what is missing fails when it is run
  [[ ! -L $1 ]] || return 1
  [[ ! -e $1 ]] || only_root_writes "$1"
}
# A gate that SIGTERM kills would have succeeded if its unit has SuccessExitStatus=SIGTERM. A lost log ends nothing.
trap 'kill %% 2>/dev/null; refuse "a signal ended the gate"' HUP INT QUIT TERM ALRM USR1 USR2
trap '' PIPE

main() {
  local reason='' host=() line='' name step left patience why
  if [[ $is_start && -e $open ]]; then
    [[ $(stat -c '%F %u %a' "$open") != 'regular file 0 '[46][04][04] ]] || read -r reason <"$open"
    [[ ! $reason ]] || { log 4 "$unit starts UNCHECKED: $open: ${reason::200}"; pass; }
    log 4 "$open is ignored: it must be a file that only root can write to, with a reason in it"
  fi
  # The lock keeps the files as they are until the last step has ended. Only root can open it: whoever can read a file
  # can lock it. Whoever waits for `lock` holds `turn` alone; otherwise, units that start again and again would starve a
  # writer. If /run is full or read-only, there may be no lock, but then no writer can have one either.
  umask 077; [[ -d $run ]] || mkdir -m 755 "$run" 2>/dev/null
  if { exec 8<>"$run/turn" 9<>"$run/lock"; } 2>/dev/null; then
    { flock -w $limit 8 && flock -s -w $((SECONDS < limit ? limit - SECONDS : 0)) 9; } ||
      refuse "$run/lock was held for $limit s"
    exec 8<&- # and read what a writer has changed during the wait; the steps themselves are read below
    while read -r line && [[ $line != required=* ]]; do :; done <"$0"
    eval "$line"
  fi
  # `+` in a drop-in does not undo PrivateNetwork= and NetworkNamespacePath=: the steps must see the routes of the host.
  [[ ! $is_start || /proc/self/ns/net -ef /proc/1/ns/net ]] || host=(nsenter --target 1 --net --)
  check_folders
  for name in "${required[@]}" "${wanted[@]}"; do
    [[ $only || -e $etc/gate.d/$name.sh ]] || report "$name" "$etc/gate.d/$name.sh is missing"
  done
  for step in "$etc"/gate.d/${only:-*}.sh; do
    name=${step##*/} name=${name%.sh} left=$((limit - SECONDS)) patience=0 ours=1
    [[ $only || " ${required[*]} ${wanted[*]} " == *" $name "* ]] || ours=''
    # If another program's step fails, a start is refused. The guard does not run it. Ours fails if its end is missing.
    [[ $is_start || $ours ]] || continue
    if ! is_protected "$step"; then
      report "$name" "$step is not run: it must be a file (not a link) of root's, and only root may write to it"
      continue
    fi
    [[ " ${wanted[*]} " != *" $name "* ]] || left=$((left * 2 / 3)) # the steps that follow also need time
    ((left > 0)) || { report "$name" "no time was left for $name: what came before took all $limit s"; continue; }
    [[ $unit == "$guard" ]] || patience=$((left > 10 ? left - 10 : 0)) # seconds that it may wait for what is missing
    # In the background: a signal is handled at once. The step has neither the unit's environment (-c) nor the lock.
    exec -c "${host[@]}" timeout -k 5 $left </dev/null 9<&- \
      /bin/bash -c "export LC_ALL=C PATH=$PATH; umask 022; . \"\$0\"; exit $ours" "$step" "$unit" $patience &
    wait $!
    case $? in 0) continue ;; 124 | 137) why="ran longer than $left s, or was killed" ;; *) why=failed ;; esac
    report "$name" "$name $why"
  done
  ((failures && ! is_start)) || pass
}
main # one command: after an error in a command, bash goes on with the next
