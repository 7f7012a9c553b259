#!/bin/bash
# Checks that every address of the expected CIDRs leaves through an expected device.
#
# Linux decides: it is asked with `ip route get`. Its answer can change only where the prefix of a
# route or of a rule begins, and right after its end. So Linux is asked at these places, and each
# answer holds up to the next place. What this script does not judge is named, and makes the verdict
# `undecided`. What `ip` does not list as a rule or a route is not seen: policies of IPsec (XFRM),
# marks that nftables sets on packets of this host, and programs of eBPF.
#
# What it says in the journal:
#   OVERLAP           packets leave through another device than an expected one
#   REFUSED           a route or a rule refuses them: blackhole, unreachable or prohibit
#   NO-ROUTE          no route is for them
#   OWN-RANGE         a route of the type local keeps them on this host
#   NO-DEFAULT-ROUTE  there is no default route and routeOverlap.expectedDevs is empty, or Linux has
#                     no IPv6
#   UNDECIDED         what this check cannot tell; that alone holds no unit back
#   no verdict        a program that this check needs has failed
#   ACTION            what to type next
# By hand, without waiting, with what each step prints (it writes the marker, too), as root:
#   bash FILE by-hand 0 steps
#
# Words: an expected CIDR is a network of the cluster (routeOverlap in the configuration). One of
# its addresses escapes if its packets leave through another device than the expected ones, which
# are those of the default route or those that the configuration names. A plain packet is one of
# root, without a mark and not bound to an address.
#
# For each family, `examine` runs these steps:
#   list         what is there: rules and routes
#   find_places  where to ask Linux
#   ask          how Linux routes packets to each place
#   list         again, with the devices: the answers may be about other routes meanwhile
#   judge        what is right, and what escapes
# find_places and judge are programs of awk, below, which read lines and print lines.
#
# For example, 172.16.0.0/16 is expected, and its first half has a route by ib0. So there are two
# places. For the first, Linux answers with that route, which escapes: ib0 is not the device of the
# default route. The second, behind the end of that route, is fine. The steps print, among others:
#   list         1 default via 10.0.0.1 dev eth0 table 254 proto 3 scope 0
#                1 172.16.0.0/17 dev ib0 table 254 proto 3 scope 253
#   find_places  route get fibmatch 172.16.0.0 ipproto 17 # 4:ac100000
#                route get fibmatch 172.16.128.0 ipproto 17 # 4:ac108000
#   ask          1 172.16.0.0/17 dev ib0 table 254 proto 3 scope 253
#                1 default via 10.0.0.1 dev eth0 table 254 proto 3 scope 0
#   judge        escape OVERLAP: expected CIDR 172.16.0.0/16 (172.16.0.0–172.16.127.255) routes via
#                ib0 [172.16.0.0/17 dev ib0 proto boot scope link], expected eth0
#                repair 172.16.0.0/16
# Then the journal gets:
#   journal      OVERLAP: expected CIDR 172.16.0.0/16 (172.16.0.0–172.16.127.255) routes via
#                ib0 [172.16.0.0/17 dev ib0 proto boot scope link], expected eth0
#                ACTION: to see which routes repair this, or why none does, without a change:
#                hostrouting repair 172.16.0.0/16
#                check-route-overlap: overlap
#
# To change it: tables and sentences are settings, which Python writes. A device of a CNI, and a
# route with which a CNI refuses packets, are rows of hostrouting/config/cni.py; sentences are in
# hostrouting/boot/check_settings.py. Only what is read or decided is changed here. No apostrophe
# can stand in the text of a program of awk: it would end it. All functions of awk share their
# variables, so each section has a list of those that it sets, and a test compares these lists with
# what gawk finds; `line (lines)` is an array and the number of its elements. A parameter is called
# its_name where `name` is such a variable. A function that answers yes or no (is_..., are_...,
# may_...) sets none.
#
# Bash 4.4 or later (docs/limits.md has all versions).
#
# Arguments: the unit that this is for, which only `ps` shows; how many seconds to wait for what may
# still come (60); and `steps`, to print what each step prints.
# Exit status: in STRICT, 1 if addresses escape, if there is no default route, or if there is no
# verdict because a program failed; in any mode, 1 if it is told to stop; otherwise 0.

# shellcheck disable=SC2016,SC2317 # programs of awk are texts; `run` calls the steps

# The settings, one in a line. They are data: no line is executed.
# Each kind of setting has an example here.
#
# What to do:
#   mode STRICT                          or WARN
#   state /run/aks-flex-node             the folder of the marker
#   families 4 6                         those of the expected CIDRs
#   no-ipv6 Linux has no IPv6 rules, as after a boot with ipv6.disable=1
#                                        what is said if it refuses to list them
#   cidr 10.0.0.0/8 10.0.0.0 10.255.255.255
#                                        an expected CIDR, and its ends
#   service 10.96.0.0/12 10.96.0.0 10.111.255.255
#                                        addresses of services (routeOverlap.serviceCidrs); it is
#                                        also an expected CIDR
#   device eth0                          it is expected (routeOverlap.expectedDevs)
#   allowed wg*                          such devices are allowed (routeOverlap.allowedDevs)
#   intended fwmark 0x1                  a rule with these selectors may treat packets differently
#                                        (routeOverlap.intendedRules)
#
# What `ip` prints:
#   names, kind, link-type               see "What `ip` lists"
#   own 127.0.0.0 127.255.255.255        addresses that every host has
#   no-route Network is unreachable      how it says that packets have no route
#   refusing-type unreachable no-route No route to host
#                                        a route of this type refuses packets; what Linux answers if
#                                        a rule with this action does; and how it says that a route
#                                        does
#   selectors from to tos dscp fwmark iif oif uidrange ipproto sport dport
#                                        in a rule, these come before a value that selects packets
#   keep-destination ip ip6 mpls         packets leave by the device of a route with one of these
#                                        encapsulations
#
# What is known of CNIs:
#   cni kube-router network ipip tun-* ip6tnl tun-*
#     Devices of this CNI, all of one use: pairs of a kind (- is hardware) and a pattern for names,
#     in which # is a digit. The use is what they lead to: other nodes (network), all pods of this
#     node (bridge), or one (pod); or they are for marked packets (marked).
#   serves Flannel bridge-plugin Calico
#     The first CNI's devices can lead to pods of the others; "any" is each, and "bridge-plugin" the
#     one that makes a plain bridge.
#   refuses 4 blackhole bird Calico inside protocol 20 32
#     With such a route a CNI refuses packets: the family, type and protocol, the CNI, PROOF, TRACE,
#     and the shortest and longest prefix.
#     PROOF makes the refusal right (fine): a device of the CNI (device), a pod or an address by one
#       inside the range (inside), or such an address at its beginning (first).
#     TRACE, without that, makes it a doubt: a device of the CNI (device), or also other routes that
#       have the protocol (protocol); or nothing does (none).
#   pod-block 4 20
#     A prefix of this family that is shorter is not a block of pods.
#
# What is said, with {holes}:
#   sentence OWN-RANGE does not leave this host: [{route}]
#   sentence unclear-from only for packets from there
#     A route with the word "from" is not judged, and this says why.
configuration=(
)
set -uo pipefail
set -f # a line that is split into words names no files
shopt -s lastpipe # the last command of a pipeline runs in the shell that has the pipeline
umask 022
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
declare -A setting # by its first word: mode, state, families and no-ipv6
cidrs=()           # the settings about expected CIDRs
prints_steps=${3-}

main() {
  local line
  read_clock
  began=$now
  for line in "${configuration[@]}"; do
    case $line in
      mode\ * | state\ * | families\ * | no-ipv6\ *) setting[${line%% *}]=${line#* } ;;
      cidr\ *) cidrs+=("$line") ;;
      names\ *) break ;; # what follows is for awk alone
    esac
  done
  trap 'leave_marker ""; exit 1' TERM INT HUP # told to stop, it has no verdict, and no marker
  look
  while may_improve; do
    drop_stale_ok
    report_waiting
    sleep 1
    look
  done
  report
  exit "$status"
}

# --- The steps ------------------------------------------------------------------------------------

# Looks at this host once: sets the verdict, and what the report says:
#   escapes   a line for each range of addresses that escapes
#   lacking   a line for each family without a default route
#   doubts    the lines that begin with UNDECIDED
#   repairs   the expected CIDRs that routes may repair
#   awaited   what may still come
#   failure   the error that ended the look without a verdict
look() {
  local family
  escapes=()
  lacking=()
  doubts=()
  repairs=()
  awaited=()
  failure=''
  for family in ${setting[families]}; do
    if ! examine; then
      verdict=failed
      return
    fi
  done
  verdict=ok
  if ((${#escapes[@]})); then
    verdict=overlap
  elif ((${#lacking[@]})); then
    verdict=no-default-route
  elif ((${#doubts[@]})); then
    verdict=undecided
  fi
}

# Examines one family. If a program fails, this fails, and there is no verdict.
examine() {
  local before places answers
  for _ in 1 2 3; do
    if ! run list 'rule show' 'route show table all'; then
      if [[ $family == 6 && $failure == *'Address family not supported by protocol' ]]; then
        failure=''
        lacking+=("NO-DEFAULT-ROUTE: ${setting[no-ipv6]}")
        return 0
      fi
      return 1
    fi
    before=$output
    run find_places "$before" || return
    places=$output
    run ask "$places" || return
    answers=$output
    run list 'rule show' 'route show table all' 'link show' || return
    run judge "$places" "$answers" "$before" "$output" || return
    if [[ $'\n'$output$'\n' != *$'\nchanged\n'* ]]; then
      break
    fi
  done
  add_findings "$output"
}

# Runs a step and keeps its output. If it fails, the reason is the first of its errors.
run() { # STEP...
  if output=$("$@"); then
    if [[ $prints_steps ]]; then
      lines "--- $1" "$output" >&2
    fi
    return 0
  fi
  failure='no verdict: ip or awk was killed, or is missing'
  if [[ $'\n'$output == *$'\nerrors\n'* ]]; then
    output=${output##*errors$'\n'}
    failure="no verdict: ip failed: ${output%%$'\n'*}"
  fi
  return 1
}

# Not with `<<<`: bash before 5.1 writes that into a file, and the disk may be full.
list() { # COMMAND...
  lines "$@" | batch
}

# Prints a command for `ip` for each place, in the order of the places.
find_places() { # RULES_AND_ROUTES
  lines "$1" | program "$addresses$ranges$finding" "${cidrs[@]}"
}

ask() { # PLACES
  lines "$1" | batch -force || : # some answers are errors
}

judge() { # PLACES ANSWERS BEFORE AFTER
  lines places "$1" answers "$2" before "$3" after "$4" |
    program "$addresses$ranges$listed$sentences$settings$judging" "${configuration[@]}"
}

lines() { # LINE...
  printf '%s\n' "$@"
}

# Runs `ip` on the commands of its input. Some versions print their output late and errors at once,
# so errors are held back, and come behind all else. Without `exec`, bash would fork once more.
batch() { # OPTION...
  local errors status
  { errors=$(exec ip "-$family" -N -d -o "$@" -batch - 2>&1 >&3); } 3>&1
  status=$?
  lines errors "$errors"
  return "$status"
}

# Runs a program of awk on the lines of its input. `run` has made a process for the step; awk takes
# its place, because this is the last command of a pipeline there (lastpipe). The parts of a program
# are in an order: the BEGIN of one can need what those before it have set (ZEROS, NONE). As any
# argument, a program has at most 128 KiB.
program() { # PROGRAM SETTING...
  exec "$awk" -v "family=$family" "$@"
}
awk='awk'
if hash mawk 2>/dev/null; then
  awk=mawk # it starts twice as fast as the others
fi

# Adds the findings of a family to those of this look.
add_findings() { # FINDINGS
  local IFS=$'\n' line text
  for line in $1; do
    text=${line#* }
    case $line in
      changed) doubts+=('UNDECIDED: the routes keep changing; run: hostrouting check') ;;
      escape\ *) escapes+=("$text") ;;
      lacking\ *) lacking+=("$text") ;;
      doubt\ *) doubts+=("UNDECIDED: $text") ;;
      repair\ *) repairs+=("$text") ;;
      awaited\ *) awaited+=("$text") ;;
    esac
  done
}

# --- Waiting --------------------------------------------------------------------------------------

seconds_to_wait=${2:-60}
now=0          # in 1/100 s; set by read_clock
began=0        # `now` at the beginning
waited=0       # in seconds
said_before='' # what was awaited when report_waiting last said it
say_again_at=0 # in seconds of waiting

may_improve() {
  if [[ $verdict == ok ]] || ((${#awaited[@]} == 0)); then
    return 1
  fi
  read_clock
  waited=$(((now - began) / 100))
  ((waited < seconds_to_wait))
}

# What waits is not ok, whatever the last run said. Another marker stays: what it warns of may still
# be so.
drop_stale_ok() {
  local stale=${setting[state]}/route-overlap.ok
  if [[ -e $stale ]]; then
    rm -f "$stale"
  fi
}

# Here comes clock.sh.

# Says what is awaited every 10 s, and at once when it is something else.
report_waiting() {
  local text
  printf -v text '%s, ' "${awaited[@]}"
  text=${text%, }
  if [[ $text != "$said_before" ]] || ((waited >= say_again_at)); then
    say 6 "check-route-overlap: waiting ($waited of $seconds_to_wait s) for $text"
    said_before=$text
    say_again_at=$((waited + 10))
  fi
}

# --- Saying it ------------------------------------------------------------------------------------

# Says the verdict, leaves it as a marker, and sets the exit status.
report() {
  local faults=("${escapes[@]}" "${lacking[@]}") notes=() level=4
  local marker=('') # without a verdict, no marker is left
  status=0
  if [[ $failure ]]; then
    faults+=("$failure")
  fi
  if ((${#repairs[@]})); then
    notes+=("ACTION: to see which routes repair this, or why none does, without a change: \
hostrouting repair ${repairs[*]}")
  elif ((${#escapes[@]})); then
    notes+=('ACTION: to see what to do about this: hostrouting check')
  fi
  notes+=("${doubts[@]:0:14}")
  if ((${#doubts[@]} > 14)); then
    notes+=("and $((${#doubts[@]} - 14)) more")
  fi
  case $verdict in
    ok) level=6 marker=(ok ok) ;;
    overlap) marker=(detected "${faults[@]}") ;;
    no-default-route) marker=(detected "$verdict") ;;
    undecided) marker=(undecided "${doubts[@]}") ;;
  esac
  if [[ $verdict == undecided ]]; then
    notes+=('nothing is proven, so this check holds no unit back')
  elif [[ $verdict != ok && ${setting[mode]} == STRICT ]]; then
    level=3
    status=1
  elif [[ $verdict != ok ]]; then
    notes+=("the mode is ${setting[mode]}, so this check holds no unit back")
  fi
  if ! leave_marker "${marker[@]}"; then
    say 4 "check-route-overlap: the result cannot be written to ${setting[state]}"
  fi
  if ((${#faults[@]} > 14)); then
    faults=("${faults[@]:0:14}" "and $((${#faults[@]} - 14)) more")
  fi
  say "$level" "${faults[@]}" "${notes[@]}" "check-route-overlap: $verdict"
}

say() { # LEVEL LINE...
  printf "<$1>%s\n" "${@:2}" >&2
}

# Leaves these lines as the only marker, which is whole or absent. If it is there already, nothing
# is written, so a program that watches the folder sees only changes. What a signal has left of a
# marker has the number of this process ($$) at its end, and the trap of the signal deletes it.
leave_marker() { # NAME LINE...
  local path=${setting[state]}/route-overlap new=${setting[state]}/route-overlap.$$
  local name text left=''
  for name in ok detected undecided $$; do
    if [[ $name != "$1" && -e $path.$name ]]; then
      rm -f "$path.$name" || return
    fi
  done
  if [[ ! $1 ]]; then
    return 0
  fi
  printf -v text '%s\n' "${@:2}"
  if [[ -f $path.$1 && ! -L $path.$1 ]]; then
    IFS='' read -r -d '' left <"$path.$1" # the whole file
  fi
  if [[ $left == "$text" ]]; then
    return 0
  fi
  mkdir -p "${setting[state]}" || return
  set -o noclobber # another program's link is never written through
  if printf '%s' "$text" >"$new" && mv -fT "$new" "$path.$1"; then
    return 0
  fi
  rm -f "$new"
  return 1
}

# --- What the programs of awk share: reading the settings -----------------------------------------
# Variables: cidr; named, allowed (patterns); is_intended, is_selector, keeps_destination, error,
#   is_refusing, answer_to_rule; row_cni, row_use, row_kind, row_name (rows), serves, pod_block;
#   known_type, known_protocol, known_cni, known_proof, known_trace, known_shortest, known_longest
#   (known)
settings='
BEGIN {
  NONE = "/" # a list of no devices; see below
  named = NONE
  read_settings()
}
function read_settings(   i) {
  for (i = 1; i < ARGC; i++) {
    $0 = ARGV[i]
    read_setting($NF ~ /:/ ? 6 : 4) # the last word of a range is an address
  }
  ARGC = 1 # these are not names of files
}
function read_setting(its_family,   i) {
  if ($1 ~ /^(cidr|service|own)$/ && its_family == family) {
    add_range($1, hex_of($(NF - 1)), hex_of($NF))
    if ($1 == "cidr") cidr[count["cidr"]] = $2
  }
  if ($1 == "device") named = named $2 "/"
  if ($1 == "allowed") allowed[++patterns] = expression($2)
  if ($1 == "intended") is_intended[words_from(2)]
  read_listed_setting()
  if ($1 == "no-route") error[words_from(2)] = "no-route"
  if ($1 == "refusing-type") {
    is_refusing[$2]
    answer_to_rule[$2] = $3
    error[words_from(4)] = $2
  }
  if ($1 == "selectors") for (i = 2; i <= NF; i++) is_selector[$i]
  if ($1 == "keep-destination") for (i = 2; i <= NF; i++) keeps_destination[$i]
  if ($1 == "cni") for (i = 4; i < NF; i += 2) {
    row_cni[++rows] = $2
    row_use[rows] = $3
    row_kind[rows] = $i == "-" ? "" : $i
    row_name[rows] = expression($(i + 1))
  }
  if ($1 == "serves") for (i = 3; i <= NF; i++) serves[$2, $i]
  if ($1 == "refuses" && $2 == family) { # a known refusal
    known_type[++known] = $3
    known_protocol[known] = $4
    known_cni[known] = $5
    known_proof[known] = $6
    known_trace[known] = $7
    known_shortest[known] = $8 + 0
    known_longest[known] = $9 + 0
  }
  if ($1 == "pod-block" && $2 == family) pod_block = $3 + 0
  if ($1 == "sentence") read_sentence()
}
function expression(pattern) {
  gsub(/[.]/, "[.]", pattern)
  gsub(/[*]/, ".*", pattern)
  gsub(/[?]/, ".", pattern)
  gsub(/[#]/, "[0-9]", pattern)
  return "^" pattern "$"
}
function joined(list, separator, item) { return list (list == "" ? "" : separator) item }
function words_from(n,   i, words) {
  words = $n
  for (i = n + 1; i <= NF; i++) words = words " " $i
  return words
}

# A list of devices is a path, as in /eth0/ib0/: no device has a slash in its name.
function has(list, dev) { return index(list, "/" dev "/") > 0 }
function union(list, more,   n, dev, i) {
  n = split(more, dev, "/")
  for (i = 2; i < n; i++) if (!has(list, dev[i])) list = list dev[i] "/"
  return list
}
function without(list, removed,   n, dev, i, rest) {
  n = split(list, dev, "/")
  rest = NONE
  for (i = 2; i < n; i++) if (!has(removed, dev[i])) rest = rest dev[i] "/"
  return rest
}
function spoken(list, separator) {
  list = substr(list, 2, length(list) - 2)
  gsub(/\//, separator, list)
  return list
}
'

# --- Where to ask ---------------------------------------------------------------------------------
# Reads the rules and the routes, and prints a command for each place, with its address in
# hexadecimal as a comment (see Addresses):
#
# route get fibmatch ADDRESS ipproto PROTOCOL # HEX
finding='
BEGIN { read_cidrs() }
/^[0-9]+:\t/ { read_rule() }
/^[0-9]+ / { add_ends($2) } # a route
END { print_places() }
function print_places(   n, protocol) {
  sort_places()
  protocol = protocol_to_ask()
  for (n = 1; n <= places; n++)
    print "route get fibmatch " address_of(place_of[n]) " ipproto " protocol " # " place_of[n]
}
# Shell sort: `sort` would be one more process at each start of a unit.
function sort_places(   place, gap, n, at) {
  for (place in is_place) place_of[++places] = place
  for (gap = int(places / 2); gap > 0; gap = int(gap / 2))
    for (n = gap + 1; n <= places; n++) {
      place = place_of[n]
      for (at = n; at > gap && place_of[at - gap] > place; at -= gap)
        place_of[at] = place_of[at - gap]
      place_of[at] = place
    }
}
function read_cidrs(   i, word) {
  for (i = 1; i < ARGC; i++) {
    split(ARGV[i], word, " ") # cidr CIDR FIRST LAST
    if ((word[2] ~ /:/ ? 6 : 4) != family) continue
    add_range("cidr", hex_of(word[3]), hex_of(word[4]))
    add(hex_of(word[3]))
  }
  ARGC = 1 # these are not names of files
}
function read_rule(   i) {
  for (i = 2; i < NF; i++) {
    if ($i == "to" && $(i + 1) ~ /^[0-9a-f.:]+(\/[0-9]+)?$/) add_ends($(i + 1))
    if ($i == "ipproto") has_rule[protocol_number($(i + 1))]
  }
}
function add_ends(block) {
  read_prefix(block)
  add(first)
  add(after(last))
}
function add(hex) { if (overlaps("cidr", hex, hex)) is_place[hex] }

# Linux is asked with a protocol that no rule selects (ipproto): UDP, TCP or ICMP. Then the answer
# is that for plain packets. A rule for ICMP is not judged.
function protocol_to_ask() {
  if (!(17 in has_rule)) return 17
  if (!(6 in has_rule)) return 6
  return family == 4 ? 1 : 58
}
'

# --- What is right --------------------------------------------------------------------------------
# Reads the places, the answers of Linux, and the lists from before and after. Prints the findings:
#
# escape TEXT, lacking TEXT, doubt TEXT
# repair CIDR: routes may close what escapes of it
# awaited TEXT: it may still come
# changed: the lists differ, or an answer is about a route that is not in them
#
# or "errors" and a reason, if an answer is missing.
#
# While the lists are read, the functions note_... keep what is needed when all is known. Then, at
# the END of read_lists, these decide, in this order:
#   find_expected        which devices are expected (judge_devices)
#   find_leftovers       which devices CNIs may have left behind (judge_leftovers)
#   judge_refusals       whose the routes and rules are that refuse packets
#   judge_answers        what is right at each place
#   find_ranges          the ranges of places about which the same is said (judge_ranges)
#   judge_other_packets  what is right for packets that a rule tells from plain ones (judge_others)
# In brackets: the part in which the function stands, if that has another name.
#
# Variables: place_of (places), number_of; answer (answers), why, last_error; surplus, is_changed,
#   is_interrupted; held_route; section, are_devices; routes_with
read_lists='
# A route may go on in the next line (nh_info), so it is held until a line that is not such a one.
# Behind the last route there is always one: a device, or "errors".
held_route != "" && !/^\tnh_info / {
  if (read_route(held_route)) note_route()
  held_route = ""
}
section == "after" && /^[0-9]+: [^ ]+: <.*\\ +link\// {
  are_devices = 1
  note_device()
  next
}
are_devices {
  note_line_behind_devices()
  next
}
/^(places|answers|before|after|errors)$/ {
  section = $1
  next
}
section == "places" {
  if (!NF) next # there are none: 0.0.0.0/32 alone is expected
  place_of[++places] = $NF
  number_of[$NF] = places
  next
}
section == "answers" || section == "errors" {
  read_answer()
  next
}
section == "before" {
  count_line(1)
  next
}
# What is listed after the answers is judged, by the patterns below.
{ count_line(-1) }
/^[0-9]+:\t/ {
  read_rule()
  note_rule()
  next
}
/^[0-9]+ / {
  count_protocol()
  read_prefix($2)
  if (overlaps("cidr", first, last)) held_route = $0
  # Of the type and table local, and proto kernel: an address of this host.
  if (/^2 [^\/]+ dev [^ ]+ table 255 proto 2 /) note_address($4, first)
  next
}
/^\tnh_info / { # the next hops of the route in the line before
  if (held_route != "") held_route = held_route $0
  next
}
{ note_not_judged("[" $0 "]") } # no rule and no route that is known
END {
  if (is_interrupted) is_changed = 1
  note_changes()
  find_expected()
  if (!is_lacking) {
    find_leftovers()
    find_bare_pods()
    judge_refusals()
    judge_answers()
    find_ranges()
    judge_other_packets()
  }
  say_what_is_awaited()
  say_doubts()
  if (is_changed) print "changed"
}

function count_protocol() {
  if (!match($0, / proto [0-9]+ /)) return
  routes_with[name_for("proto", substr($0, RSTART + 7, RLENGTH - 8))]++
}
function read_answer() {
  if (/^[0-9]+ /) answer[++answers] = $0
  else if (/^\tnh_info /) answer[answers] = answer[answers] $0
  else if (/^Dump was interrupted/) is_changed = 1
  else if (/^Command failed /) { # the line before says why, and the number at the end which place
    sub(/.*:/, "")
    if (!($0 in place_of) || $0 in why) return
    why[$0] = last_error
    last_error = ""
  } else if (/./) {
    last_error = $0
    sub(/^[^:]*: /, "", last_error)
  }
}

# Devices come last in the input, and only errors behind them. The alias of a device is any text,
# even of several lines. So errors are what comes behind the last line "errors".
function note_line_behind_devices() {
  if (/^errors$/) is_interrupted = 0
  if (/^Dump was interrupted/) is_interrupted = 1
}

# Adds 1 for each line listed before the answers, and -1 for each listed after them: a line that is
# in both lists ends with 0. The time until a route expires is left out, because it counts down.
function count_line(by,   line) {
  line = $0
  sub(/ expires [^ ]+/, "", line)
  surplus[line] += by
}
# Notes the addresses of each route and rule that was not the same before and after.
function note_changes(   line) {
  for (line in surplus) {
    if (!surplus[line]) continue
    read_prefix(prefix_of(line))
    if (!overlaps("cidr", first, last)) continue
    add_range("changed", first, last)
    is_changed = 1
  }
}
# A device may be called "to", but a rule for what arrives by a device is for no plain packets, so
# it changes none of the answers.
function prefix_of(line,   word) {
  split(line, word, " ")
  if (line ~ /^[0-9]+ /) return word[2] # a route
  if (match(line, / to [^ ]+/) && line !~ /:\tnot /) return substr(line, RSTART + 4, RLENGTH - 4)
  return "default" # a rule for all destinations, or a line that is not known
}
'

# --- What is right: reading a rule ----------------------------------------------------------------
# Sets `action`: lookup, suppress (a lookup that passes over default routes), nop, unknown, or the
# type of a refusal; the prefix, with its ends `first` and `last`; the table; and `plain_packets`:
# whether the rule is for all of them, for some (by their destination), or for none. What selects
# packets is in `selector`, the values by their words, and as one text in `selection`. For
# "from 10.0.0.4 fwmark 0x1", selector["fwmark"] is "0x1".
#
# Variables: action, plain_packets, prefix, table, selector, selection, text; is_inverted, is_known
read_rules='
# 100:	not from 10.0.0.4 to 10.9.0.0/16 fwmark 0x1 lookup 254 suppress_prefixlength 0 proto 2
function read_rule() {
  take_rule_apart()
  # With "not", these are about all addresses but some, which is not judged.
  if (is_inverted && ("to" in selector || action in is_refusing)) is_known = 0
  if (!is_known) action = "unknown"
  prefix = "to" in selector ? selector["to"] : "default"
  plain_packets = "none"
  if (are_plain_packets_met()) plain_packets = "to" in selector ? "some" : "all"
  read_prefix(prefix)
}
function note_rule() {
  if (action == "unknown" || text " " ~ / ipproto (ipv6-)?icmp /)
    note_not_judged("rule " text)
  note_lookup()
  if (action in is_refusing && plain_packets != "none") note_refusing_rule()
  note_rule_for_others()
}
# Keeps the rule beside the routes that refuse packets. No CNI makes such a rule.
function note_refusing_rule() {
  refusal[++refusals] = ++routes
  answered[routes] = answer_to_rule[action]
  route_type[routes] = action
  route_first[routes] = first
  route_last[routes] = last
  route_table[routes] = "-"
  route_text[routes] = "[rule " text "]"
}
function take_rule_apart(   i, word, value) {
  action = table = "-"
  is_known = 1
  is_inverted = 0
  split("", selector)
  selection = ""
  text = $1
  for (i = 2; i <= NF; i++) {
    word = $i
    value = ""
    if (word ~ /^\[/) continue # [detached]
    if (word in is_selector || word ~ HAVE_A_VALUE) value = $(++i)
    if (word == "proto") continue # which program made the rule
    if (word == "lookup") value = name_for("table", value)
    if (word == "ipproto") value = name_for("ipproto", protocol_number(value))
    if (word ~ /^[0-9]/) word = name_for("type", word)
    note_word(word, value)
    text = text " " word (value == "" ? "" : " " value)
  }
  sub(/^ /, "", selection)
}
BEGIN { HAVE_A_VALUE = "^(lookup|goto|suppress_prefixlength|suppress_ifgroup|realms|proto)$" }
function note_word(word, value) {
  if (word in is_selector && word " " value != "from all") {
    selector[word] = value
    selection = selection " " word " " value
  } else if (word == "not") {
    is_inverted = 1
    selection = " not"
  } else if (word == "lookup") {
    action = "lookup"
    table = value
  } else if (word == "suppress_prefixlength") action = "suppress"
  else if (word == "nop" || word in is_refusing) action = word
  else if (word !~ /^(from|realms)$/) is_known = 0
}
# By which selector of the rule its packets are judged (judge_others). For example:
#   fwmark 0x1                fwmark
#   iif cni0 fwmark 0x1       iif
#   from 10.0.0.4 sport 53    from
#   uidrange 1000-1999        else
#   not iif lo                forwarded, as this host does not send them
#   not iif eth0              "", all but those of one device
#   to 10.9.0.0/16            "", plain packets
function word_that_selects(   word, words) {
  for (word in selector) if (word != "to" && word " " selector[word] != "iif lo") words++
  if (!words) return is_inverted && "iif" in selector ? "forwarded" : ""
  if ("iif" in selector && selector["iif"] != "lo") return is_inverted ? "" : "iif"
  if ("fwmark" in selector && words == 1) return "fwmark"
  return "from" in selector && !is_inverted ? "from" : "else"
}
function are_plain_packets_met(   word) {
  if (/ lookup \[l3mdev-table\]/) return is_inverted # it is for the packets of VRFs
  for (word in selector)
    if (word != "to" && !is_met_by_plain_packets(word, selector[word])) return is_inverted
  return !is_inverted
}
# These have no mark, no source yet, user 0, and no device. IPv4 compares the source 0.0.0.0.
function is_met_by_plain_packets(word, value) {
  if (word == "from") return value ~ /^0[.]0[.]0[.]0/
  if (word == "iif") return value == "lo"
  if (word == "fwmark") return !needs_a_mark(value)
  if (word == "uidrange") return value ~ /^0-/
  return 0
}

# Whether the mark has a bit that its mask does not ignore, as in 0x200/0xf00.
function needs_a_mark(value,   part, mark, mask) {
  split(value "/0xffffffff", part, "/")
  mark = value_of(part[1])
  mask = value_of(part[2])
  while (mark > 0 && (mark % 2 == 0 || mask % 2 == 0)) {
    mark = int(mark / 2)
    mask = int(mask / 2)
  }
  return mark > 0
}
function value_of(hex,   i, number) { # behind 0x
  for (i = 3; i <= length(hex); i++) number = 16 * number + digit_at(hex, i)
  return number + 0
}
'

# --- What is right: reading a route ---------------------------------------------------------------
# Sets what the route says: `type`, `prefix` with its ends, `table`, and so on. `object` is the
# number of a nexthop object, and `unclear` is why the route is not judged. `devices` are those of
# the next hops that are not dead, as in /eth0/ib0/; `direct` are those without a gateway. What is
# absent is "-". The routes that are needed when all is known are kept, each under a number.
#
# Variables: type, prefix, table, protocol, metric, preference, gateway, object, unclear, devices,
#   direct, text; field, hop (hops), has_gateway, is_dead, is_via; route_type, route_prefix,
#   route_first, route_last, route_table, route_protocol, route_metric, route_preference,
#   route_unclear, route_devices, route_hops, route_has_gateway, route_text (routes), is_kept;
#   refusal (refusals), answered; is_listed, routes_by, devices_from; address_dev, address_hex
#   (addresses), numbered
read_routes='
# unicast 10.8.0.0/16 via 10.0.0.1 dev eth0 table 254 proto 80 scope 0
function read_route(line,   n, word, i) {
  gsub(/\\?\t/, " ", line) # which join lines
  n = split(line, word, " ")
  type = name_for("type", word[1])
  prefix = word[2]
  text = type == "unicast" ? prefix : type " " prefix
  field["table"] = field["proto"] = field["via"] = field["nhid"] = field["src"] = unclear = "-"
  field["metric"] = field["expires"] = hops = is_via = 0
  field["pref"] = "medium"
  for (i = 3; i <= n; i++) {
    if (word[i] == "nh_info") i = end_of_object(word, i, n)
    else if (word[i] == "dev") add_hop(word[++i]) # it can have any name, such as "via"
    else if (word[i] ~ /^(table|proto|scope|metric|pref|nhid|expires|error)$/) {
      add_field(word[i], name_for(word[i], word[i + 1]))
      i++
    } else add_word(word[i], word[i + 1])
  }
  table = field["table"]
  protocol = field["proto"]
  metric = field["metric"]
  preference = field["pref"]
  gateway = field["via"]
  object = field["nhid"]
  devices = direct = NONE
  for (i = 1; i <= hops; i++) {
    if (is_dead[i]) continue
    devices = union(devices, "/" hop[i] "/")
    if (!has_gateway[i]) direct = union(direct, "/" hop[i] "/")
  }
  if (devices == NONE && unclear == "-" && type != "local") unclear = "no-hops"
  read_prefix(prefix)
  return field["expires"] !~ /^-/ # Linux does not use a route after its end
}
function note_route() {
  is_kept = 0
  if (unclear ~ /^(from|tos)$/) note_not_judged(route_and_why(unclear))
  if (type in is_refusing) note_refusing_route()
  note_default_route()
  if (gateway == "-") note_what_is_near()
  if (field["src"] != "-") note_source(hex_of(field["src"]))
  if (table in is_for_others) note_route_for_others()
  routes_by[object]++
  # Not by table: where no rule keeps tables local and main apart, they are one in Linux, and its
  # answer names table main for a route that is listed in table local.
  is_listed[type, prefix, metric]
}
function note_refusing_route() {
  refusal[++refusals] = kept()
  answered[routes] = type
}
# The number under which this route is kept.
function kept() {
  if (is_kept) return routes
  is_kept = 1
  routes++
  route_type[routes] = type
  route_prefix[routes] = prefix
  route_first[routes] = first
  route_last[routes] = last
  route_table[routes] = table
  route_protocol[routes] = protocol
  route_metric[routes] = metric
  route_preference[routes] = preference
  route_unclear[routes] = unclear
  route_devices[routes] = devices
  route_hops[routes] = hops
  route_has_gateway[routes] = gateway != "-"
  route_text[routes] = "[" text "]"
  return routes
}
# Whether a route that is kept is for all of these addresses, or for some.
function is_around(r, low, high) { return route_first[r] <= low && high <= route_last[r] }
function is_for_some(r, low, high) { return route_first[r] <= high && low <= route_last[r] }
function note_address(dev, hex) {
  addresses++
  address_dev[addresses] = dev
  address_hex[addresses] = hex
  if (!overlaps("own", hex, hex)) numbered = union(numbered, "/" dev "/")
}
# A route may name the source of its packets; that can be the address of another device.
function note_source(hex) {
  if (!(hex in devices_from)) devices_from[hex] = NONE
  devices_from[hex] = union(devices_from[hex], devices)
}
function add_hop(dev) {
  if (type in is_refusing) return # IPv6 lists lo
  hop[++hops] = dev
  has_gateway[hops] = is_via
  is_dead[hops] = is_via = 0
  text = text " dev " dev
}
function add_field(word, value) {
  field[word] = value
  text = text noteworthy(word, value)
}
function add_word(word, next_word) {
  if (word == "via") {
    field["via"] = "via"
    is_via = 1 # the device comes next
  }
  if (word == "dead") is_dead[hops] = 1
  if (word == "src") field["src"] = next_word
  if (is_unclear(word, next_word)) unclear = word
  text = text " " word
}
# Whether a route with this word is not judged: then the settings have a sentence for it.
function is_unclear(word, next_word) {
  if (word == "tos") return next_word ~ /^0x/ # in decimal, it belongs to an encapsulation
  if (word == "encap") return !(next_word in keeps_destination)
  return ("unclear-" word) in sentence
}
# What is said of a field, in the words of `ip`; nothing if the value is the usual one.
function noteworthy(word, value) {
  if (word " " value ~ /^(table main|scope global|metric 0|pref medium|error .*)$/) return ""
  return word == "expires" ? " expires" : " " word " " value
}
# Only the next hops of an object matter.
function end_of_object(word, i, n) {
  while (i < n && word[i + 1] !~ /^(nexthop|via|dev)$/) i++
  return i
}
'

# --- What is right: the expected devices ----------------------------------------------------------
# What counts is the first default route that leads to the network, in the first table that plain
# packets look up. Its devices are `uplink`. For example, with these default routes, the best first:
#   default routes             expectedDevs  expected     doubtful     beside_tunnel
#   eth0, eth1 (worse)                       /eth0/       /            /
#   eth0, eth1 (as good)                     /eth0/eth1/  /eth0/eth1/  /
#   tun0, eth0 (worse)                       /tun0/eth0/  /tun0/eth0/  /
#   tun0; eth0 has an address                /tun0/       /tun0/       /eth0/
#   tun0, eth0 (worse)         tun0          /tun0/       /            /eth0/
#   tap0, as of a virtual machine            /tap0/       /            /
# Packets that leave by a device in `doubtful` may be right or wrong, and so may those by a card in
# `beside_tunnel`, which lies under a tunnel. The default routes of cards in `behind_router` have a
# gateway (grade_of_device, may_lack_its_gateway).
#
# Variables: expected, doubtful, beside_tunnel, behind_router, uplink, is_lacking; looked_up,
#   passes_over (lookups), has_rule_beside_local, is_in_doubt; default_route (defaults),
#   has_some_default, equal_devices, is_fixed
judge_devices='
BEGIN {
  CARDS = "card|bridge"
  TUNNELS = "tunnel|line|tap"
  LEADING = CARDS "|" TUNNELS
  expected = NONE
  uplink = NONE
  doubtful = NONE
  beside_tunnel = NONE
  behind_router = NONE
}
function note_lookup() {
  if (action == "unknown") is_in_doubt = 1
  if (table != "local") has_rule_beside_local = 1
  if (plain_packets == "none" || action !~ /^(lookup|suppress)$/) return
  looked_up[++lookups] = table
  passes_over[lookups] = action == "suppress" || plain_packets == "some"
}
function note_default_route() {
  if (type != "unicast") return
  if (prefix ~ /\/1$/) has_some_default = 1 # two halves, as of a VPN, hide the default route
  if (prefix != "default") return
  if (unclear ~ /^(from|tos)$/) {
    is_in_doubt = 1
    return
  }
  if (devices == "/lo/") { # Linux passes over it, if there is an equal one
    note_not_judged(route_and_why("lo"))
    return
  }
  if (gateway != "-") behind_router = union(behind_router, devices)
  default_route[++defaults] = kept()
}

function find_expected(   classes, used) {
  words_for["family"] = family
  if (looked_up[1] != "local") print "doubt", in_words("no-local-rule")
  find_equal_routes()
  classes = LEADING
  used = first_default(classes, 0)
  if (!used) {
    classes = "dummy"
    used = first_default(classes, 0)
  }
  if (used) uplink = of_class(classes, route_devices[used])
  # Until a rule is added, IPv6 looks up table main without its rule.
  if (family == 6 && defaults && !has_rule_beside_local) has_some_default = 1
  if (named != NONE) expect_named()
  else if (uplink != NONE) expect_uplink(used)
  else say_that_none_is_expected()
}
# Default routes of one rank are taken for one, by all devices that Linux may use: while the gateway
# of the first one does not answer, IPv4 goes over to others with a gateway, and IPv6 to any. IPv4
# does not go away from a route by several next hops.
function find_equal_routes(   d, r, rank) {
  for (d = 1; d <= defaults; d++) {
    r = default_route[d]
    rank = route_table[r] SUBSEP route_metric[r] SUBSEP route_preference[r]
    if (!(rank in equal_devices)) {
      equal_devices[rank] = route_devices[r]
      is_fixed[rank] = !route_has_gateway[r] || (family == 4 && route_hops[r] > 1)
    } else if (!is_fixed[rank] && (family == 6 || route_has_gateway[r]))
      equal_devices[rank] = union(equal_devices[rank], route_devices[r])
  }
}
# The first default route by a device of these classes; 0 if there is none. With `all`, default
# routes that a lookup passes over count, too.
function first_default(classes, all,   i, d, r) {
  for (i = 1; i <= lookups; i++) {
    if (passes_over[i] && !all) continue
    for (d = 1; d <= defaults; d++) {
      r = default_route[d]
      if (route_table[r] != looked_up[i]) continue
      if (of_class(classes, route_devices[r]) != NONE) return r
    }
  }
  return 0
}
function of_class(classes, list,   n, dev, i, those) {
  n = split(list, dev, "/")
  those = NONE
  for (i = 2; i < n; i++) if (class[dev[i]] ~ "^(" classes ")$") those = those dev[i] "/"
  return those
}

function expect_named() {
  expected = named
  if (of_class(TUNNELS, named) != NONE) beside_tunnel = hidden_cards()
}
function expect_uplink(used) {
  doubt_equal_routes(used)
  if (of_class(CARDS, uplink) != uplink) doubt_tunnel()
  expected = union(uplink, doubtful)
}
# Default routes of one metric may be by different devices, and so may be the routers that advertise
# themselves: Linux lists these as one route. Any may be meant, also one that Linux does not use
# (find_equal_routes). Which of them has the best preference (IPv6) is left open here: it need not
# be the first in the list.
function doubt_equal_routes(used,   d, r, all) {
  all = route_devices[used]
  if (route_protocol[used] == "ra" && all ~ /^\/.+\/.+\/$/) doubtful = uplink
  for (d = 1; d <= defaults; d++) {
    r = default_route[d]
    if (route_table[r] != route_table[used] || route_metric[r] != route_metric[used]) continue
    all = union(all, route_devices[r])
  }
  all = of_class(LEADING, all)
  if (all != uplink) doubtful = all
}
# What the packets of a tunnel leave by may be meant. If no default route is by a card, any card may
# be, also beside a dummy, but no device of a CNI.
function doubt_tunnel(   hidden) {
  hidden = hidden_cards()
  if (hidden == NONE) {
    if (is_tap_without_a_card()) return
    beside_tunnel = without(of_class("card", all_devices()), devices_of_cnis)
    if (of_class("dummy", uplink) == uplink) return
  }
  doubtful = union(doubtful, union(uplink, hidden))
}
# A tap is the network card of a virtual machine, and not a tunnel, if no card has an address.
function is_tap_without_a_card(   i) {
  if (of_class("tap", uplink) != uplink) return 0
  for (i = 1; i <= addresses; i++)
    if (class[address_dev[i]] == "card" && !has(devices_of_cnis, address_dev[i])) return 0
  return 1
}
function all_devices(   dev, list) {
  list = NONE
  for (dev in class) list = list dev "/"
  return list
}
# The cards of the best default route that has some, though it may be passed over.
function hidden_cards() { return of_class(CARDS, route_devices[first_default(CARDS, 1)]) }
function say_that_none_is_expected() {
  if (has_some_default || is_in_doubt) {
    print "doubt", in_words("default-route-hidden")
    return
  }
  print "lacking NO-DEFAULT-ROUTE:", in_words("NO-DEFAULT-ROUTE")
  is_lacking = 1
}
# With named devices, a default route matters only to packets that have no route.
function say_what_is_awaited(   n, dev, i) {
  n = split(named == NONE ? uplink : named, dev, "/")
  for (i = 2; i < n; i++) if (!is_up[dev[i]]) print "awaited the device", dev[i]
  if (uplink != NONE || has_some_default) return
  if (named == NONE || is_refused) print "awaited an IPv" family " default route"
}
'

# --- What is right: the devices of CNIs, and what CNIs left behind --------------------------------
# Variables: number_of_device; cni_dev, cni_name, cni_use (cnis), uses, cnis_of, runs,
#   devices_of_cnis; rival_of
judge_leftovers='
BEGIN { devices_of_cnis = numbered = NONE }
function note_device(   dev, i) {
  dev = read_device()
  number_of_device[dev] = $1 + 0
  for (i = 1; i <= rows; i++)
    if (row_kind[i] == kind_of[dev] && dev ~ row_name[i]) note_cni(dev, row_cni[i], row_use[i])
}
function note_cni(dev, cni, use) {
  cnis++
  cni_dev[cnis] = dev
  cni_name[cnis] = cni
  cni_use[cnis] = use
  uses[dev] = uses[dev] "/" use "/"
  cnis_of[dev] = cnis_of[dev] " " cni " "
  runs[cni]
  devices_of_cnis = union(devices_of_cnis, "/" dev "/")
}
# Whether a CNI uses the device for such packets (see grade_of_device). A pod has a single address.
function is_of_cni(dev, is_single, by_mark_or_iif) {
  if (by_mark_or_iif && uses[dev] ~ /\/marked\//) return 1
  return uses[dev] ~ /\/(network|bridge)\// || (is_single && uses[dev] ~ /\/pod\//)
}

# A device for one CNI, where there are pods of another, may be left over.
function find_leftovers(   i, k) {
  for (i = 1; i <= cnis; i++) {
    if (cni_use[i] !~ /^(network|bridge)$/) continue
    for (k = 1; k <= cnis && !(cni_dev[i] in rival_of); k++) {
      if (cni_use[k] != "pod") continue
      if (!serves_pods_of(cni_dev[i], cni_name[k]))
        rival_of[cni_dev[i]] = "pods of " with_spaces(cni_name[k]) " (" cni_dev[k] ")"
    }
  }
}
# Whether one of the CNIs of a device leads to the pods of a CNI.
function serves_pods_of(dev, cni,   i) {
  for (i = 1; i <= cnis; i++) {
    if (cni_dev[i] != dev || cni_use[i] !~ /^(network|bridge)$/) continue
    if (cni_name[i] == cni || (cni_name[i], cni) in serves) return 1
    if (cni_use[i] == "network" && (cni_name[i], "any") in serves) return 1
  }
  return 0
}
function with_spaces(word) {
  gsub(/_/, " ", word)
  return word
}

# What shows that a CNI has left this device, or this route to it, behind; "" if nothing does. No
# CNI has a route inside the network of an expected card, or of a bridge for pods.
function sign_of_leftover(dev, low, high,   i, its_dev) {
  for (i = 1; i <= networks && low != high; i++) {
    its_dev = spoken(route_devices[network[i]], "") # a network has one device
    if (its_dev == dev || !is_around(network[i], low, high)) continue
    if (has(expected, its_dev) || uses[its_dev] ~ /\/bridge\//) return "the network of " its_dev
  }
  return dev in rival_of ? rival_of[dev] : ""
}
'

# --- What is right: routes and rules that refuse packets ------------------------------------------
# A CNI refuses the addresses of its block that no pod has. Whose a refusing route is:
#   cni      it is as the table of CNIs says (refuses), and what proves it is there
#   perhaps  there is only a trace of the CNI, or a pod of any CNI inside its range
#   nobody   all others
#
# Variables: owner; cnis_inside, cnis_at_first, is_pod_inside; near (nears), network (networks),
#   sourceless
judge_refusals='
BEGIN { KNOWS_THE_LINK = "^(kernel|ra|dhcp)$" } # protocols of routes to the network of a device
# Keeps a route without a gateway: it leads to pods of this node, or to neighbours.
function note_what_is_near() {
  near[++nears] = kept()
  if (field["src"] == "-") sourceless[devices]
  if (first == last || prefix == "default") return
  if (protocol ~ KNOWS_THE_LINK) network[++networks] = kept()
}

function judge_refusals(   i) {
  for (i = 1; i <= refusals; i++) owner[refusal[i]] = owner_of_refusal(refusal[i])
}
function owner_of_refusal(r,   size, i) {
  if (!(r in route_prefix) || route_prefix[r] == "default") return "nobody" # a rule has no prefix
  if (overlaps("service", route_first[r], route_last[r])) return "nobody"
  find_pods_inside(r)
  size = length_of(route_prefix[r])
  for (i = 1; i <= known; i++) {
    if (known_type[i] != route_type[r] || known_protocol[i] != route_protocol[r]) continue
    if (size < known_shortest[i] || known_longest[i] < size) continue
    if (is_proven(i)) return "cni"
    if (known_trace[i] == "none") continue # it is of another node, or of nobody
    if (known_cni[i] in runs) return "perhaps"
    if (known_trace[i] == "protocol" && routes_with[route_protocol[r]] > 1) return "perhaps"
  }
  return is_pod_inside && size >= pod_block ? "perhaps" : "nobody"
}
function is_proven(i) {
  if (known_proof[i] == "device") return known_cni[i] in runs
  if (known_proof[i] == "first") return index(cnis_at_first, " " known_cni[i] " ") > 0
  return index(cnis_inside, " " known_cni[i] " ") > 0
}
# Sets the CNIs whose devices have routes or addresses inside a refused range, or an address at its
# first one, and whether one of these is of a single pod.
function find_pods_inside(r,   i, k) {
  cnis_inside = ""
  cnis_at_first = ""
  is_pod_inside = 0
  for (i = 1; i <= nears; i++) {
    k = near[i]
    if (route_table[k] != route_table[r]) continue
    if (route_first[k] == route_first[r] && route_last[k] == route_last[r]) continue
    note_inside(r, route_first[k], route_last[k], route_devices[k])
  }
  for (i = 1; i <= addresses; i++) {
    note_inside(r, address_hex[i], address_hex[i], "/" address_dev[i] "/")
    if (address_hex[i] == route_first[r]) cnis_at_first = cnis_at_first cnis_of[address_dev[i]]
  }
}
function note_inside(r, low, high, list,   n, dev, i) {
  if (!is_around(r, low, high)) return
  n = split(list, dev, "/")
  for (i = 2; i < n; i++) {
    if (has(expected, dev[i]) || cnis_of[dev[i]] == "") continue
    cnis_inside = cnis_inside cnis_of[dev[i]]
    if (low == high) is_pod_inside = 1
  }
}
'

# --- What is right: the answers -------------------------------------------------------------------
# Sets the grade of each place: fine, own (an address of this host, which may be a part of any
# range), doubt, or escape. The last two have a name and a reason.
#
# Variables: grade, finding_at, reason_at, repairable; place, finding, reason, is_repairable,
#   is_refused
judge_answers='
function doubt(its_name, its_reason) {
  finding = its_name
  reason = its_reason
  return "doubt"
}
# The name is also that of the sentence. `may_be_repaired` says whether a route in table main could
# lead the packets right.
function escape(its_name, may_be_repaired) {
  words_for["expected"] = expected_devices()
  finding = its_name
  reason = in_words(its_name)
  is_repairable = may_be_repaired
  return "escape"
}
function expected_devices() {
  return expected == NONE ? "another device" : spoken(expected, ", ")
}
function judge_answers(   n, used) {
  for (n = 1; n <= places; n++) {
    place = place_of[n]
    if (n in why) note_grade(n, grade_of_error(why[n]))
    else if (used == answers) stop(last_error == "" ? "ip ended before it answered" : last_error)
    else {
      read_route(answer[++used])
      note_grade(n, grade_of_answer())
    }
  }
  if (used < answers) stop("there are too many answers")
}
function stop(its_reason) {
  print "errors"
  print "no answer for " address_of(place) ": " its_reason
  exit 1
}
function note_grade(n, its_grade) {
  grade[n] = its_grade
  if (its_grade !~ /^(doubt|escape)$/) return
  finding_at[n] = finding
  reason_at[n] = reason
  if (its_grade == "escape") repairable[n] = is_repairable
}
function route_and_why(cause) { return "route [" text "] (" in_words("unclear-" cause) ")" }

function grade_of_error(its_error) {
  if (!(its_error in error)) stop(its_error)
  if (overlaps("changed", place, place)) return doubt_what_changed()
  return grade_of_refusal(error[its_error])
}

# Linux does not say which route or rule refuses, so each that may be it is looked at.
function grade_of_refusal(its_answer,   i, r, by, owners, its_type, may_be_repaired) {
  may_be_repaired = 1
  its_type = its_answer
  for (i = 1; i <= refusals; i++) {
    r = refusal[i]
    if (answered[r] != its_answer || !is_around(r, place, place)) continue
    its_type = route_type[r]
    owners = owners owner[r] " " # such as "cni nobody "
    by = joined(by, " or ", route_text[r])
    if (route_table[r] != "main" || route_first[r] == route_last[r]) may_be_repaired = 0
  }
  if (owners ~ /^(cni )+$/) return "fine" # all of them
  words_for["refusals"] = by
  if (owners ~ /cni|perhaps/) return doubt("doubtful-route", in_words("perhaps-for-pods"))
  is_refused = 1
  if (by == "" && its_answer == "no-route") {
    if (expected == NONE) return "fine" # the default route is in doubt
    return escape("NO-ROUTE", 1)
  } else if (by == "") {
    words_for["refusals"] = "a route or rule that is not known"
    may_be_repaired = 0
  }
  words_for["type"] = its_type
  return escape("REFUSED", may_be_repaired)
}

function grade_of_answer(   is_single) {
  if (overlaps("own", place, place)) return "own"
  if (!((type, prefix, metric) in is_listed)) return doubt_what_changed()
  if (is_by_shared_object()) return doubt("not-judged", route_and_why("object"))
  if (unclear != "-") return doubt("not-judged", route_and_why(unclear))
  is_single = first == last
  words_for["route"] = text
  if (type == "local" && !is_single) return escape("OWN-RANGE", 0)
  if (type == "local") return "own"
  if (type ~ /^(broadcast|anycast)$/ && protocol == "kernel" && is_single) return "own"
  if (expected == NONE) return "fine" # which devices are, is in doubt already
  return grade_of_route()
}
# What escapes only while something changes holds no unit back.
function doubt_what_changed() {
  is_changed = 1
  return doubt("not-judged", in_words("changing"))
}
# In IPv6, Linux may answer with any of the routes by a nexthop object: it keeps one route for each
# object and CPU.
function is_by_shared_object() {
  if (family == 4 || object == "-") return 0
  return routes_by[object] > 1 || place < first || last < place
}
function grade_of_route(   used, rank, n, dev, i, its_grade, escaping, is_doubtful) {
  used = devices
  rank = table SUBSEP metric SUBSEP preference
  if (prefix == "default" && rank in equal_devices) used = equal_devices[rank]
  escaping = NONE
  n = split(used, dev, "/")
  for (i = 2; i < n; i++) {
    its_grade = grade_of_device(dev[i], first, last, 0)
    if (its_grade == "escape") escaping = escaping dev[i] "/"
    if (its_grade == "fine" && may_lack_its_gateway(dev[i])) its_grade = doubt_gateway(dev[i])
    if (its_grade == "doubt") is_doubtful = 1
  }
  if (escaping != NONE) return escape_by(escaping)
  if (is_doubtful) return "doubt"
  if (type != "unicast") return doubt("not-judged", "route [" text "]")
  return "fine"
}
# Whether a route that was made by hand asks the link for addresses that may be behind the router.
# The kernel, DHCP and routers know who is on the link.
function may_lack_its_gateway(dev,   i) {
  if (!has(direct, dev) || !has(behind_router, dev) || is_allowed(dev)) return 0
  if (first == last || prefix == "default" || protocol ~ KNOWS_THE_LINK) return 0
  for (i = 1; i <= networks; i++)
    if (has(route_devices[network[i]], dev) && is_around(network[i], first, last)) return 0
  return 1
}
function doubt_gateway(dev) {
  words_for["dev"] = dev
  return doubt("doubtful-route", in_words("no-gateway"))
}
function escape_by(escaping) {
  words_for["devices"] = spoken(escaping, ", ")
  # A longer route in table main closes it, if there is one and nothing is looked up before.
  return escape("OVERLAP", table == "main" && first != last)
}

# The grade of packets that leave by a device, through a route with these ends. `by_mark_or_iif`
# says that a rule selects them by a mark, or by the device on which the packets of pods arrive.
function grade_of_device(dev, low, high, by_mark_or_iif,   sign) {
  if (has(doubtful, dev)) return doubt("default-routes", spoken(doubtful, " or "))
  if (has(expected, dev) || is_allowed(dev)) return "fine"
  if (is_of_cni(dev, low == high, by_mark_or_iif)) {
    sign = sign_of_leftover(dev, low, high)
    return sign == "" ? "fine" : doubt("two-cnis", dev " beside " sign)
  }
  if (has(beside_tunnel, dev))
    return doubt("default-routes", spoken(union(expected, "/" dev "/"), " or "))
  return "escape"
}
function is_allowed(dev,   i) {
  for (i = 1; i <= patterns; i++) if (dev ~ allowed[i]) return 1
  return 0
}
'

# --- What is right: packets that a rule tells from plain ones -------------------------------------
# Linux is not asked about these: the table that the rule looks up is read. For example:
#   100:	from all fwmark 0x1 lookup 100
#   1 default dev wg0 table 100 proto 3 scope 253
# Packets with the mark 0x1 leave by wg0. That is right where plain packets may leave by wg0, or
# where a CNI uses it for marked packets. If not, the rule is in doubt for each expected CIDR,
# because the cluster may send such packets; intendedRules says that this is right.
#
# Variables: other_rule (others), is_for_others, is_whole, for_others (routes_for_others),
#   is_decided, selection_of; selected_by, sources; has_bare_pods, number_of_uplink
judge_others='
function note_rule_for_others() {
  if (word_that_selects() == "" || action == "unknown" || selection in is_intended) return
  other_rule[++others] = $0
  if (action ~ /^(lookup|suppress)$/) is_for_others[table]
}
# Keeps the routes of tables that such rules look up. Of a table with a default route (is_whole), no
# packet goes on to the next rule.
function note_route_for_others() {
  if (prefix == "default" && type != "throw") is_whole[table]
  for_others[++routes_for_others] = kept()
}

# Rules come in the order in which Linux looks at them. One with the same selectors as an earlier
# rule sees only what that has passed on: nothing, if it was the last for these packets.
function judge_other_packets(   n) {
  for (n = 1; n <= others; n++) {
    $0 = other_rule[n]
    read_rule()
    if (selection in is_decided) continue
    if (is_last_for_its_packets()) is_decided[selection]
    judge_rule(first, last)
  }
}
# Whether no packet with these selectors goes on to the next rule.
function is_last_for_its_packets() {
  if (prefix != "default") return 0
  return action in is_refusing || (action == "lookup" && table in is_whole)
}
# Says for which expected CIDRs the rule, for destinations from low to high, does not lead its
# packets right. `selected_by` is how it selects them; if by their source, `sources` are the devices
# that have it (find_sources).
function judge_rule(low, high,   c) {
  selected_by = word_that_selects()
  sources = NONE
  if (selected_by == "from") find_sources(selector["from"])
  if (!are_of_the_cluster()) return
  for (c = 1; c <= count["cidr"]; c++) {
    if (high < first_of["cidr", c] || last_of["cidr", c] < low) continue
    if (are_led_right(first_of["cidr", c], last_of["cidr", c])) continue
    selection_of["rule " text] = selection
    note_doubt("other-packets", "rule " text, c, first_of["cidr", c], last_of["cidr", c])
  }
}
# Adds to `sources` the devices whose packets can have a source in this block: those with an address
# in it; those of routes that lead into it, unless it is a single address; and those of routes that
# name such a source (src). If there are any, expected devices without an address are added: for
# their packets, Linux takes the address of another device.
function find_sources(block,   i, hex) {
  read_prefix(block)
  for (i = 1; i <= addresses; i++)
    if (first <= address_hex[i] && address_hex[i] <= last)
      sources = union(sources, "/" address_dev[i] "/")
  for (i = 1; i <= nears && first != last; i++)
    if (leads_into(near[i], first, last)) sources = union(sources, route_devices[near[i]])
  for (hex in devices_from)
    if (first <= hex && hex <= last) sources = union(sources, devices_from[hex])
  if (sources != NONE) sources = union(sources, without(expected, numbered))
}
# Whether a route without a gateway leads to a part of the block, or to all of it; or to more, if
# all its devices are of CNIs. The wider network of a NIC does not count: there, the addresses of
# this host are known, and the others are of other hosts. A broadcast address is not a source.
function leads_into(r, low, high) {
  if (route_prefix[r] == "default" || route_type[r] != "unicast") return 0
  if (low <= route_first[r] && route_last[r] <= high) return 1
  return is_around(r, low, high) && without(route_devices[r], devices_of_cnis) == NONE
}
# Whether such packets are of this host, or of pods: with "from", if a device has such a source.
function are_of_the_cluster() {
  if (selected_by == "iif") return uses[selector["iif"]] ~ /\/(network|bridge|pod)\//
  if (selected_by == "forwarded") return devices_of_cnis != NONE
  return selected_by != "from" || plain_packets != "none" || sources != NONE
}
# Whether the rule leads its packets to these addresses right. In its table, each route to a part of
# them has to, and the narrowest one around all.
function are_led_right(low, high,   i, r, narrowest_around) {
  # Plain packets meet this rule, too, and Linux has answered for them. What is judged here are the
  # packets that do not meet it. With "not fwmark 0x1", those have the mark, and it is right that
  # they go on to the next rule. Others are in doubt, as with "fwmark 0x0/0xff".
  if (plain_packets != "none") return selected_by == "fwmark" && is_inverted
  if (action in is_refusing) return 0
  for (i = 1; i <= routes_for_others; i++) {
    r = for_others[i]
    if (route_table[r] != table || !is_for_some(r, low, high)) continue
    if (!is_around(r, low, high)) {
      if (!leads_right(r)) return 0
    } else if (!narrowest_around || is_narrower(r, narrowest_around)) narrowest_around = r
  }
  return !narrowest_around || leads_right(narrowest_around)
}
function is_narrower(r, than) { return !is_around(r, route_first[than], route_last[than]) }
# Whether this route leads such packets to the devices that have their source, or where plain
# packets may go.
function leads_right(r,   senders, by_mark_or_iif, n, dev, i) {
  if (route_type[r] == "local") return selected_by == "fwmark" # a proxy takes marked packets in
  if (route_type[r] in is_refusing || route_unclear[r] != "-") return 0
  senders = without(sources, union(devices_of_cnis, "/lo/"))
  if (may_hide_pods(senders)) return 0
  if (route_devices[r] == senders) return 1
  by_mark_or_iif = selected_by ~ /^(fwmark|iif|forwarded)$/
  n = split(route_devices[r], dev, "/")
  for (i = 2; i < n; i++)
    if (grade_of_device(dev[i], route_first[r], route_last[r], by_mark_or_iif) != "fine") return 0
  return 1
}
# TCP looks up again, with the source that Linux chose. If that is the address of one of these
# devices, a table for it hides the routes to pods, which are in table main.
function may_hide_pods(senders,   n, dev, i) {
  if (devices_of_cnis == NONE) return 0
  if (without(senders, expected) != senders) return 1
  if (!has_bare_pods) return 0
  n = split(senders, dev, "/")
  for (i = 2; i < n; i++) if (number_of_device[dev[i]] < number_of_uplink) return 1
  return 0
}
# Finds whether pods have devices without an address. IPv4 then writes one of the device that this
# host got first, which may be one before lo and the expected devices. IPv6 may write any.
function find_bare_pods(   list, n, dev, i) {
  for (list in sourceless) {
    n = split(list, dev, "/")
    for (i = 2; i < n; i++)
      if (uses[dev[i]] != "" && !has(numbered, dev[i])) has_bare_pods = 1
  }
  number_of_uplink = 2147483647
  n = split(union(expected, "/lo/"), dev, "/")
  for (i = 2; i < n && family == 4; i++)
    if (has(numbered, dev[i]) && number_of_device[dev[i]] < number_of_uplink)
      number_of_uplink = number_of_device[dev[i]]
}
'

# --- What is right: the findings ------------------------------------------------------------------
# Puts neighbouring places together of which the same is said.
#
# Variables: doubt_of, doubt_name, doubt_reason, where, ranges (different_doubts); is_repair_said
judge_ranges='
function find_ranges(   c) {
  for (c = 1; c <= count["cidr"]; c++) find_ranges_of(c)
}
function find_ranges_of(c,   i, begun, end) {
  end = last_of["cidr", c]
  begun = 0 # the place at which the same began to be said; 0 while all is fine
  for (i = number_of[first_of["cidr", c]]; i <= places && place_of[i] <= end; i++) {
    if (grade[i] == "own" || said_at(i) == said_at(begun)) continue
    if (begun) say_range(c, begun, before(place_of[i]))
    begun = grade[i] == "fine" ? 0 : i
  }
  if (begun) say_range(c, begun, end)
}
# What is said at a place; at 0, where there is none, what is said where all is fine: nothing.
function said_at(i) { return finding_at[i] SUBSEP reason_at[i] }
function say_range(c, i, end) {
  if (grade[i] == "doubt") {
    note_doubt(finding_at[i], reason_at[i], c, place_of[i], end)
    return
  }
  print "escape", finding_at[i] ": expected CIDR", cidr[c], \
    "(" range_of(place_of[i], end) ")", reason_at[i]
  if (!repairable[i] || cidr[c] in is_repair_said) return
  print "repair", cidr[c]
  is_repair_said[cidr[c]]
}
function range_of(low, high) {
  return address_of(low) (low == high ? "" : "–" address_of(high))
}

# Doubts with the same name and reason have one line, with the first three ranges.
function note_doubt(its_name, its_reason, c, low, high,   d, range) {
  if ((its_name, its_reason) in doubt_of) d = doubt_of[its_name, its_reason]
  else {
    d = ++different_doubts
    doubt_of[its_name, its_reason] = d
    doubt_name[d] = its_name
    doubt_reason[d] = its_reason
  }
  range = range_of(low, high)
  if (low == first_of["cidr", c] && high == last_of["cidr", c]) range = cidr[c]
  if (ranges[d]++ < 3) where[d] = joined(where[d], ", ", range)
}
# What is not judged may matter for each expected CIDR.
function note_not_judged(what,   c) {
  for (c = 1; c <= count["cidr"]; c++)
    note_doubt("not-judged", what, c, first_of["cidr", c], last_of["cidr", c])
}
function say_doubts(   d) {
  for (d = 1; d <= different_doubts; d++) {
    if (ranges[d] > 3) where[d] = where[d] " and " ranges[d] - 3 " more"
    words_for["where"] = where[d]
    words_for["reason"] = doubt_reason[d]
    words_for["selection"] = selection_of[doubt_reason[d]]
    print "doubt", in_words(doubt_name[d])
  }
}
'
judging=$read_lists$read_rules$read_routes$judge_devices$judge_leftovers
judging+=$judge_refusals$judge_answers$judge_others$judge_ranges

# --- What the programs of awk share: addresses, ranges, and what `ip` prints ----------------------
# Variables: first_of, last_of, count

addresses='' listed='' sentences='' # set by what comes here
# Here comes addresses.sh.
# Here comes listed.sh.
# Here comes sentences.sh.
ranges='
function address_of(hex,   i, group, address, zeros) {
  if (hex ~ /^4/)
    return byte_at(hex, 3) "." byte_at(hex, 5) "." byte_at(hex, 7) "." byte_at(hex, 9)
  for (i = 3; i <= 31; i += 4) {
    group = substr(hex, i, 4)
    sub(/^0+/, "", group)
    address = address ":" (group == "" ? 0 : group)
  }
  # Leave the longest run of zeros out, as `ip` does.
  zeros = ":0:0:0:0:0:0:0:0"
  while (zeros != ":0" && !index(address ":", zeros ":")) zeros = substr(zeros, 3)
  if (zeros != ":0") sub(zeros "(:|$)", "::", address)
  return address ~ /^::/ ? address : substr(address, 2)
}
function byte_at(hex, i) { return 16 * digit_at(hex, i) + digit_at(hex, i + 1) }

function read_prefix(its_prefix) {
  if (its_prefix == "default") its_prefix = family == 4 ? "0.0.0.0/0" : "::/0"
  read_block(its_prefix)
}
function length_of(its_prefix,   part) {
  if (split(its_prefix, part, "/") > 1) return part[2] + 0 # a number in busybox, too
  return family == 4 ? 32 : 128
}
# The next address, and the one before; "" if there is none.
function after(hex) {
  if (!match(hex, /[0-9a-e]f*$/)) return ""
  return substr(hex, 1, RSTART - 1) digit(digit_at(hex, RSTART) + 1) substr(ZEROS, 1, RLENGTH - 1)
}
function before(hex) {
  if (!match(hex, /[1-9a-f]0*$/)) return ""
  return substr(hex, 1, RSTART - 1) digit(digit_at(hex, RSTART) - 1) substr(HIGHEST, 1, RLENGTH - 1)
}

# Ranges of addresses, by what they are: "cidr" are the expected CIDRs.
function add_range(kind, low, high) {
  count[kind]++
  first_of[kind, count[kind]] = low
  last_of[kind, count[kind]] = high
}
function overlaps(kind, low, high,   n) {
  for (n = 1; n <= count[kind]; n++)
    if (low <= last_of[kind, n] && first_of[kind, n] <= high) return 1
  return 0
}
function protocol_number(value) { # ipproto-17
  sub(/^ipproto-/, "", value)
  return value
}
'

main "$@"
