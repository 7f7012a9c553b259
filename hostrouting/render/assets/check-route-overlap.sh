#!/bin/bash
finished='' work='' && trap '[[ $work ]] && rm -rf "$work"; [[ $finished ]] || exit 1' EXIT # cut short, it fails
# Checks that every address of the expected CIDRs leaves by an expected device. Written by hostrouting.
#
# Exact: the kernel is asked at every place where its answer can change, so that what holds there holds everywhere.
# Exit status: 0, or 1 when the machine must not start. What was found is in the journal and in the state directory:
# route-overlap.ok or route-overlap.detected, and route-overlap.json. None of them is there while this has not finished.

# Data, and nothing else: no line of it is ever run.
configuration=(
)

set -uo pipefail
umask 022
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin

mode=STRICT wait=30 state_directory=
for line in "${configuration[@]:0:3}"; do
  case $line in
    'mode '*) mode=${line#* } ;;
    'wait '*) wait=${line#* } ;;
    'state '*) state_directory=${line#* } ;;
  esac
done
state_directory=${RUNTIME_DIRECTORY:-$state_directory}

# Only an overlap that was found is a matter of the mode; whoever cannot check does not know.
fail() {
  printf '<3>check-route-overlap: %s\n' "$1" >&2
  finish 1
}

finish() {
  finished=1
  [[ $mode == WARN ]] && exit 0
  exit "$1"
}

# What awk ends with when all went well: nothing that it ends with by itself.
readonly OK=10 OVERLAP=11 UNDECIDED=12 NO_DEFAULT_ROUTE=13 READY=14 NOT_YET=15 DIFFERING=16

understand() {
  awk -v phase="$1" -v final="${2:-}" -v waited="$wait" -v directory="$work" -v OK=$OK -v OVERLAP=$OVERLAP \
    -v UNDECIDED=$UNDECIDED -v NO_DEFAULT_ROUTE=$NO_DEFAULT_ROUTE -v READY=$READY -v NOT_YET=$NOT_YET -v DIFFERING=$DIFFERING '
#include routing.awk
#include fib.awk
#include overlap.awk
#include report.awk
#include repair.awk
'
}

# The questions, one a line. Status: READY, or NOT_YET while the expected devices are not there.
ask() {
  state=$(ip -4 -N -d -o -batch - <<<$'rule show\nroute show table all\nlink show\nnetconf show' 2>"$work/errors") || fail "ip failed: $(<"$work/errors")"
  settings=$(printf 'setting %s\n' "${configuration[@]}")
  questions=$(understand ask <<<"$settings"$'\nstate\n'"$state")
}

# What the answers to them mean. Status: a verdict; NOT_YET; or DIFFERING when answers and tables are not one.
judge() {
  local answers
  answers=$(ip -4 -N -d -o -force -batch - <<<"$questions" 2>"$work/errors")
  understand judge "$1" <<<"$settings"$'\nstate\n'"$state"$'\nerrors\n'"$(<"$work/errors")"$'\nanswers\n'"$answers" >&2
}

publish() {
  mv -f "$work"/route-overlap.* "$state_directory/" || fail "cannot write to $state_directory"
}

if [[ ! -d $state_directory ]]; then mkdir -p "$state_directory" || fail "cannot make $state_directory"; fi
for stale in "$state_directory"/route-overlap.{ok,detected,json}; do
  if [[ -e $stale || -L $stale ]]; then
    rm -f "$state_directory"/route-overlap.{ok,detected,json} || fail "cannot remove $stale"
    break
  fi
done
work=$state_directory/.check-route-overlap.$$
mkdir "$work" || fail "cannot make $work"

tries=0 last=
while :; do
  ((SECONDS >= wait)) && last=1
  ask
  status=$?
  case $status in
    "$READY") judge "$last"; status=$? ;;
    "$NOT_YET") [[ $last ]] && { questions=; judge 1; status=$?; } ;;
    *) fail "awk failed with status $status" ;;
  esac
  case $status in
    # The tables changed while they were looked at, or the kernel and its tables really differ.
    "$DIFFERING") ((++tries < 3)) || last=1 ;;
    "$NOT_YET") sleep 0.2 ;;
    *) break ;;
  esac
done

case $status in
  "$OK" | "$UNDECIDED") publish && finish 0 ;;
  "$OVERLAP" | "$NO_DEFAULT_ROUTE") publish && finish 1 ;;
  *) fail "awk failed with status $status" ;;
esac
