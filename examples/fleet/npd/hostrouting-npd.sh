#!/bin/sh
status='' && trap 'exit "${status:-3}"' EXIT # a script that was cut short, or fails, says nothing about the node
# A custom plugin for node-problem-detector: prints what hostrouting found on this node, as long as that is valid.
#
# Exit status 0: fine, 1: a problem, 3: unknown. It reads one line, `VALID-UNTIL STATUS SENTENCE`, which the guard or a
# check has written; VALID-UNTIL is in seconds since 1970. It needs date, but neither Python nor root.
# The argument is the directory of the file, if it is not /run/aks-flex-node.
export LC_ALL=C PATH="$PATH:/usr/bin:/bin"
directory=${1:-/run/aks-flex-node}
file=$directory/route-overlap.npd

answer() { status=$1; printf '%s\n' "$2"; exit "$1"; }
unknown() { answer 3 "UNKNOWN: $1; on the host, run: hostrouting status"; }

[ -d "$directory" ] || unknown "there is no directory $directory: hostrouting did not run, or it is not mounted here"
[ -e "$file" ] || unknown 'there is no result of a check since this host booted'
until='' code='' sentence='' && { read -r until code sentence <"$file"; } 2>/dev/null
now=$(date +%s)
case $until$now in *[!0-9]*) until='' ;; esac
case $until,$now,$code in
  [1-9]?????????,[1-9]?????????,[013]) ;; # so many digits until the year 2286
  *,[1-9]?????????,*) unknown "$file cannot be read" ;;
  *) unknown 'the program date does not work here' ;;
esac
[ "$now" -lt "$until" ] || unknown 'the guard has not looked for three minutes, or nothing was checked for a day'
[ $((until - now)) -le 90000 ] || unknown 'the clock was set back, so nobody knows how old the last answer is'
answer "$code" "$sentence"
