#!/bin/bash
finished='' && trap '[[ $finished ]] || exit 1' EXIT # a script that was cut short fails
# Installs the static routes, and takes away those of ours that are no longer wanted. Written by hostrouting.
#
# A route that is not ours is never touched: ours are those that carry our protocol number. When all is as it should be,
# nothing is written. Exit status: 0, or 1 when a route could not be had; why is in the journal, one line a route.

# Data, and nothing else: no line of it is ever run.
configuration=(
)

set -u
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin

wait=30
for line in "${configuration[@]:0:2}"; do
  case $line in 'wait '*) wait=${line#* } ;; esac
done
# Whoever runs this may have less time.
[[ ${1-} ]] && ((wait > $1)) && wait=$1

#include nap.sh

complain() { printf '<3>static-routes: %s\n' "$1" >&2; }

# What awk ends with when it came to an end by itself: nothing that it ends with for other reasons.
readonly DONE=10 NOT_YET=11 FAILED=12

#include awk.sh

main() {
  local said='' status waited=0 last=''
  # By whoever ends it, as its unit does one that has no end.
  trap 'complain "told to stop before all of it was done"; explain "$said"; finished=1; exit 143' TERM
  while :; do
    ((waited >= wait * 5)) && last=last
    said=$(run_awk -v final="$last" -v waited="$wait" -v DONE=$DONE -v NOT_YET=$NOT_YET -v FAILED=$FAILED)
    status=$?
    ((status == NOT_YET)) || break
    nap
  done
  case $status in
    "$DONE") finished=1 ;;
    "$FAILED") explain "$said" ;;
    *) complain "what is there cannot be told: awk failed with status $status" ;;
  esac
  exit
}

# Each route that cannot be had, and why; while something is left to do, also what the kernel refused at last.
explain() {
  local IFS=$'\n' line number reason='' tried=() refused=() due=()
  set -f
  for line in $1; do
    case $line in
      attempt) tried=() refused=() ;;
      'tried '*) tried+=("${line#* }") ;;
      'due '*) due+=("${line#* }") ;;
      'wanting '*) complain "${line#* }" ;;
      # Follows the reason, and has the number of the command.
      'Command failed '*) refused[${line##*:} - 1]=$reason reason='' ;;
      *) reason+=${reason:+ }${line#RTNETLINK answers: } ;;
    esac
  done
  ((${#due[@]})) || return
  for number in "${!refused[@]}"; do complain "${tried[number]}: ${refused[number]}"; done
  ((${#refused[@]})) || complain "something else keeps changing these routes: ${due[0]}"
}

# shellcheck disable=SC2034 # read by run_awk
shell_ends=$((LINENO + 3))
main # does not return
# shellcheck disable=SC2317 # never reached: what follows is for awk
: <<'# the end of the program for awk'
#include routing.awk
#include rules.awk
#include fib.awk
#include uplink.awk
#include wishes.awk
#include static-routes.awk
# the end of the program for awk
