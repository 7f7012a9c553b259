#!/bin/bash
finished='' && trap '[[ $finished ]] || exit 1' EXIT # a script that was cut short fails
# Checks that every address of the expected CIDRs leaves by an expected device. Written by hostrouting.
#
# Exact: the kernel is asked at every place where its answer can change, so that what holds there holds everywhere.
# Exit status: 0, or 1 when the machine must not start. What was found is in the journal and in the state directory:
# route-overlap.json, and then route-overlap.ok or route-overlap.detected. None of those is there before it is found.
# Where they cannot be written or removed, as in a full or read-only /run, that is a warning: the routes alone decide.
# A task may write them at the same moment, without a lock in common: each is whole, and each run ends with its own. Who
# reads takes route-overlap.json, which cannot contradict itself.

# Data, and nothing else: no line of it is ever run.
configuration=(
)

set -u
umask 022
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin

mode=STRICT wait=30 directory=
for line in "${configuration[@]:0:3}"; do
  case $line in
    'mode '*) mode=${line#* } ;;
    'wait '*) wait=${line#* } ;;
    'state '*) directory=${line#* } ;;
  esac
done
# Whoever runs this may have less time.
[[ ${1-} ]] && ((wait > $1)) && wait=$1
directory=${RUNTIME_DIRECTORY:-$directory}

level=3
[[ $mode == WARN ]] && level=4

#include nap.sh

say() { printf '<%s>check-route-overlap: %s\n' "$level" "$1" >&2; }

# The same as a warning: what could not be done, and the reason, which is the end of what a command says.
complain() { level=4 say "$1: ${2##*: }${3:-}"; }

fail() {
  say "$1"
  finish 1
}

finish() {
  finished=1
  [[ $mode == WARN ]] && exit 0
  exit "$1"
}

# What awk ends with when it came to an end by itself: nothing that it ends with for other reasons.
readonly OK=10 OVERLAP=11 UNDECIDED=12 NO_DEFAULT_ROUTE=13 NOT_YET=14 DIFFERING=15 FAILED=16

#include awk.sh

# Status: a verdict; NOT_YET while what is needed is not there; DIFFERING when the kernel's answers and its tables are
# not one. With "last", the verdict it is.
check() {
  run_awk -v final="$1" -v waited="$wait" -v OK=$OK -v OVERLAP=$OVERLAP -v UNDECIDED=$UNDECIDED \
    -v NO_DEFAULT_ROUTE=$NO_DEFAULT_ROUTE -v NOT_YET=$NOT_YET -v DIFFERING=$DIFFERING -v FAILED=$FAILED
}

# Whole under its name, or not there. Nothing here goes through a temporary file elsewhere, as here-strings do; nor into
# a fifo, which would wait for its reader.
leave() {
  local why
  put "$1" "$2" 2>/dev/null && return
  why=$(put "$1" "$2" 2>&1) && return # again, for the reason
  rm -f "$directory/route-overlap.new" 2>/dev/null
  complain "cannot write $1" "$why"
  return 1
}

put() {
  local new=$directory/route-overlap.new
  if [[ -e $new || -L $new ]]; then rm -f "$new" || return; fi
  if [[ -d $1 ]]; then echo 'Is a directory' >&2 && return 1; fi
  printf '%s' "$2" >"$new" && mv -f "$new" "$1"
}

# What an earlier run has left.
forget() {
  local name path why there=()
  for name in ok detected json new; do
    path=$directory/route-overlap.$name
    if [[ -e $path || -L $path ]]; then there+=("$path"); fi
  done
  ((${#there[@]})) || return
  rm -f "${there[@]}" 2>/dev/null && return
  for path in "${there[@]}"; do
    why=$(rm -f "$path" 2>&1) || complain "cannot remove $path" "$why" '; what it says is of an earlier check'
  done
}

main() {
  local why
  if [[ ! -d $directory ]]; then why=$(mkdir -p "$directory" 2>&1) || complain "cannot make $directory" "$why"; fi
  forget

  local said status tries=0 waited=0 last=''
  # By whoever ends it, as its unit does one that has no end.
  trap 'say "told to stop before there was a verdict"; finished=1; exit 143' TERM
  while :; do
    ((waited >= wait * 5)) && last=last
    said=$(check "$last")
    status=$?
    case $status in
      # The tables changed while they were looked at; or they and the kernel really differ.
      "$DIFFERING") ((++tries < 3)) || last=last ;;
      "$NOT_YET") nap ;;
      *) break ;;
    esac
  done

  # The journal comes first, for there may be no room for the files; the marker last: once it is there, everything is.
  local IFS=$'\n' line json='' mark=''
  set -f
  for line in $said; do
    case $line in
      'json '*) json=${line#* }$'\n' ;;
      'mark '*) mark+=${line#* }$'\n' ;;
      *) printf '%s\n' "$line" >&2 ;;
    esac
  done

  case $status in
    "$OK" | "$UNDECIDED") marker=ok ;;
    "$OVERLAP" | "$NO_DEFAULT_ROUTE") marker=detected ;;
    "$FAILED") finish 1 ;;
    *) fail "awk failed with status $status" ;;
  esac
  [[ $json && $mark ]] || fail "awk left no account of what it found"
  leave "$directory/route-overlap.json" "$json" && leave "$directory/route-overlap.$marker" "$mark"
  [[ $marker == ok ]]
  finish $?
}

# shellcheck disable=SC2034 # read by run_awk
shell_ends=$((LINENO + 3))
main # does not return
# shellcheck disable=SC2317 # never reached: what follows is for awk
: <<'# the end of the program for awk'
#include routing.awk
#include rules.awk
#include fib.awk
#include worlds.awk
#include branches.awk
#include uplink.awk
#include places.awk
#include overlap.awk
#include report.awk
#include notes.awk
#include repair.awk
#include cover.awk
#include check-route-overlap.awk
# the end of the program for awk
