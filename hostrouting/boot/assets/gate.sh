# Holds a unit back until the steps in gate.d have succeeded. Only the next line differs from host to host.
required=() wanted=()
# Run as root by 00-host-routing.conf: bash -pc '. "$0"; exit 255' /etc/hostrouting/gate.sh UNIT. Only the `exit 0`s below
# let the unit start, so a file that is missing, empty, cut short or has a syntax error refuses. The oneshots and the
# guard run their steps by the same file: with STEP as $2 only that one, and without the break glass.
unit=$1 only=${2-} etc=/etc/hostrouting run=/run/hostrouting guard=hostrouting-guard.service
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
umask 077
shopt -s nullglob
limit=75 # seconds for the lock and all steps: a start has 90

refuse() {
  local remedy="; to start it unchecked: echo REASON >$run/gate.open"
  [[ $only || $unit == "$guard" ]] && remedy=''
  printf '<3>hostrouting: %s: %s%s\n' "$unit" "$1" "$remedy" >&2
  exit 255
}
# Without this, a unit with SuccessExitStatus=SIGTERM starts if its gate is killed. With a signal the step ends, too.
trap 'kill $! 2>/dev/null; refuse "must not start: a signal ended the gate"' HUP INT QUIT PIPE TERM ALRM USR1 USR2

open=$run/gate.open
if [[ ! $only && $unit != "$guard" && -f $open && ! -L $open && -O $open && -s $open && $(stat -c %a "$open") == [46][04][04] ]]; then
  printf '<4>hostrouting: %s starts UNCHECKED, %s is there: %s\n' "$unit" "$open" "$(head -c 200 "$open" | tr -d '\000')" >&2
  exit 0
fi

# The lock keeps the files as they are until the last step has ended. Only root can open it: whoever can read a file can
# lock it. A writer holds `turn` while it waits for `lock`, or units that start again and again would starve it. Where
# /run is full or read-only and has no lock, no writer can have one.
mkdir -p -m 755 "$run" 2>/dev/null
if { exec 8<>"$run/turn" 9<>"$run/lock" || exec 8<"$run/turn" 9<"$run/lock"; } 2>/dev/null; then
  flock -s -w $limit 8 && flock -s -w $((SECONDS < limit ? limit - SECONDS : 0)) 9 ||
    refuse "must not start: the configuration was being changed for $limit s ($run/lock)"
  exec 8<&-
fi

# `+` in a drop-in does not undo PrivateNetwork= and NetworkNamespacePath=: the steps must see the routes of the host.
host=()
[[ $only || $unit == "$guard" || /proc/self/ns/net -ef /proc/1/ns/net ]] || host=(nsenter --target 1 --net --)

run_step() { # NAME; `why` says how it failed
  local step=$etc/gate.d/$1.sh left=$((limit - SECONDS)) wait=0 status
  [[ -s $step ]] || { why="$step is missing"; return 1; }
  ((left > 1)) || { why="no time was left for $1 within $limit s"; return 1; }
  [[ $unit == "$guard" ]] || wait=$((left > 15 ? left - 10 : 5)) # for what may still come, before it is stopped
  # In the background, so that a signal is heard at once. env -i: nothing of the unit's environment reaches a step.
  env -i PATH="$PATH" LC_ALL=C "${host[@]}" timeout -k 1 $left /bin/bash -pc '. "$0"; exit 1' "$step" "$unit" $wait </dev/null &
  wait $! && return
  status=$? why="$1 failed"
  [[ $status != 124 && $status != 137 ]] || why="$1 did not end within $left s"
  return 1
}

steps=("$only")
if [[ ! $only ]]; then
  for name in "${required[@]}"; do # a step whose file is lost is not among the files below
    [[ -s $etc/gate.d/$name.sh ]] || refuse "must not start: $etc/gate.d/$name.sh is missing"
  done
  for name in "${wanted[@]}"; do
    [[ -s $etc/gate.d/$name.sh ]] || echo "<4>hostrouting: $unit: $etc/gate.d/$name.sh is missing" >&2
  done
  steps=("$etc"/gate.d/*.sh)
fi
for name in "${steps[@]}"; do
  name=${name##*/} name=${name%.sh}
  run_step "$name" && continue
  [[ ! $only ]] || refuse "$why"
  [[ $unit == "$guard" || " ${wanted[*]} " == *" $name "* ]] || refuse "must not start: $why"
  echo "<4>hostrouting: $unit: $why; it goes on all the same" >&2
done
exit 0
