#!/bin/bash
# Checks that every address of the expected CIDRs leaves through an expected device.
#
# Linux decides: it is asked with `ip route get`. Its answer can change only where the prefix of a
# route or of a rule begins, and right after its end. So Linux is asked at these places, and each
# answer holds up to the next place. What this script does not judge is named, and makes the verdict
# `undecided`.
#
# Words: an expected CIDR is a network of the cluster (routeOverlap in the configuration). One of
# its addresses escapes if its packets leave through another device than the expected ones, which
# are those of the default route or those that the configuration names. A plain packet is UDP of
# root, without a mark and not bound to an address: only plain packets of this host are judged.
#
# The work is done in passes, which `examine` runs. Each is a small program of awk that reads lines
# and prints lines, and has a section below, with what its lines mean:
#   1 read_lists      what is there: rules, routes, devices
#   2 find_places     where to ask Linux
#   3 read_answers    what Linux answers
#   4 find_uplink     which devices are expected
#   5 judge_refusals  whose the routes and rules are that refuse packets
#   6 find_leftovers  what a CNI may have left behind
#   7 judge_answers   what is right, and what escapes
#   8 find_ranges     the ranges, in words
# Tables, limits and the sentences for doubts that `hostrouting check` has, too, are settings.
#
# Arguments: the unit that this is for, and how many seconds to wait for what may still come (60).
# Exit status: in STRICT, 1 if addresses escape, if there is no default route, or if there is no
# verdict because a program failed; in any mode, 1 if it is told to stop; otherwise 0.

# Data only: no line of it is executed.
configuration=(
)
set -fuo pipefail && umask 022 && export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
declare -A setting # by its first word; of settings with several lines, the last

main() {
  local line
  for line in "${configuration[@]}"; do
    setting[${line%% *}]=${line#* }
  done
  trap 'leave_marker ""; exit 1' TERM # told to stop, it has no verdict, and leaves no marker
  look
  while may_improve; do
    say_what_is_awaited
    sleep 1
    look
  done
  report
  exit $((level == 3))
}

# --- The steps ------------------------------------------------------------------------------------

# Looks at this host once: sets the verdict and the findings.
look() {
  local family
  escapes=() lacking=() doubts=() limits=() repair=() awaited=() failure=''
  for family in ${setting[families]}; do
    examine || break
  done
  verdict=ok
  ((${#doubts[@]} == 0)) || verdict=undecided
  ((${#lacking[@]} == 0)) || verdict=no-default-route
  ((${#escapes[@]} == 0)) || verdict=overlap
  [[ ! $failure ]] || verdict=failed
}

# Examines one family. If that fails, there is no verdict.
examine() {
  local latest facts places answers known findings
  latest=$(list) || fail "$latest" || return
  for _ in 1 2 3; do
    facts=$latest
    places=$(feed "$facts" | pass "$find_places" | sort -u) || fail || return
    answers=$(ask "$places") || fail "$answers" || return
    latest=$(list) || fail "$latest" || return
    [[ $latest != "$facts" ]] || break # or else the answers may be about other routes
  done
  if [[ $latest != "$facts" ]]; then
    doubts+=('UNDECIDED: the routes keep changing; run: hostrouting check')
  fi
  known=$(feed "$facts" | pass "$find_uplink" | pass "$judge_refusals" | pass "$find_leftovers") ||
    fail || return
  findings=$(feed "$known" "$answers" | pass "$judge_answers" | pass "$find_ranges") ||
    fail || return
  sort_out "$findings"
}

feed() { # LINES...
  printf '%s\n' "$@"
}

# Runs a pass over the lines of its input. The settings are its arguments.
pass() { # PROGRAM
  "$awk" -v "family=$family" "$addresses$settings$1" "${configuration[@]}"
}
awk='awk'
! hash mawk 2>/dev/null || awk=mawk # it starts twice as fast as the others

# Prints the facts: what is there.
list() {
  feed 'rule show' 'route show table all' 'link show' | batch | pass "$routes$read_lists"
}

# Prints each place, and what Linux answers about it.
ask() { # PLACES
  {
    feed "$1"
    feed "$1" | sed 's/^place [^ ]* \(.*\)/route get fibmatch \1 ipproto 17/' | batch -force ||
      : # one of the answers was an error
  } | pass "$routes$read_answers"
}

# Runs `ip` on the commands of its input. Some versions print their output late and errors at once,
# so errors are held back, and come behind all else.
batch() { # OPTION...
  local errors status
  { errors=$(ip "-$family" -N -d -o "$@" -batch - 2>&1 >&3); } 3>&1
  status=$?
  [[ ! $errors ]] || feed "$errors"
  return "$status"
}

# Sets the reason why there is no verdict: the first line that could not be read, if there is one.
# It always fails.
fail() { # [LINES]
  local lines=${1-}
  failure='no verdict: ip, awk, sed or sort was killed, or is missing'
  if [[ $lines == *unread\ * ]]; then
    lines=${lines#*unread }
    failure="no verdict: ip failed: ${lines%%$'\n'*}"
  fi
  return 1
}

# Adds the findings to those of this look.
sort_out() { # FINDINGS
  local IFS=$'\n' line text
  for line in $1; do
    text=${line#* }
    case $line in
      escape\ *) escapes+=("$text") ;;
      lacking\ *) lacking+=("$text") ;;
      doubt\ *) doubts+=("UNDECIDED: $text") ;;
      limit\ *) limits+=("$text") ;;
      repair\ *) repair+=("$text") ;;
      awaited\ *) awaited+=("$text") ;;
    esac
  done
}

# --- Waiting --------------------------------------------------------------------------------------

wait=${2:-60} said='' next=0

may_improve() {
  [[ $verdict != ok ]] && ((${#awaited[@]} && SECONDS < wait))
}

# Says it every 10 s, and at once when it is something else.
say_what_is_awaited() {
  local text
  text=$(joined ', ' "${awaited[@]}")
  if [[ $text != "$said" ]] || ((SECONDS >= next)); then
    say 6 "check-route-overlap: waiting ($SECONDS of $wait s) for $text"
    said=$text next=$((SECONDS + 10))
  fi
}

joined() { # SEPARATOR ITEM...
  local text
  printf -v text "%s$1" "${@:2}"
  printf '%s' "${text%"$1"}"
}

# --- Saying it ------------------------------------------------------------------------------------

# Says the verdict, and leaves it as a marker.
report() {
  local notes=() faults=("${escapes[@]}" "${lacking[@]}") marker=('')
  level=4
  [[ ! $failure ]] || faults+=("$failure")
  ((${#repair[@]} == 0)) ||
    notes+=("ACTION: to see which routes repair this, without a change: \
hostrouting repair ${repair[*]}")
  notes+=("${doubts[@]}")
  ((${#limits[@]} == 0)) ||
    notes+=("only plain packets are judged, and not those of $(joined ', ' "${limits[@]}")")
  case $verdict in
    ok) level=6 marker=(ok ok "${notes[@]}") ;;
    overlap) marker=(detected "${faults[@]}") ;;
    no-default-route) marker=(detected "$verdict") ;;
    undecided) marker=(undecided "${notes[@]}") ;;
  esac
  if [[ $verdict == undecided ]]; then
    notes+=('nothing is proven, so this check holds no unit back')
  elif [[ $verdict != ok && ${setting[mode]} == STRICT ]]; then
    level=3
  elif [[ $verdict != ok ]]; then
    notes+=("the mode is ${setting[mode]}, so this check holds no unit back")
  fi
  leave_marker "${marker[@]}" ||
    say 4 "check-route-overlap: the result cannot be written to ${setting[state]}"
  say_first 14 "$level" "${faults[@]}"
  say "$level" "${notes[@]}" "check-route-overlap: $verdict"
}

say() { # LEVEL LINE...
  printf "<$1>%s\n" "${@:2}" >&2
}

# Says the first lines, and counts the others.
say_first() { # COUNT LEVEL LINE...
  local count=$1 level=$2 lines=("${@:3}")
  ((${#lines[@]} == 0)) || say "$level" "${lines[@]:0:count}"
  ((${#lines[@]} <= count)) || say "$level" "and $((${#lines[@]} - count)) more ranges"
}

# Leaves these lines as the only marker. It is whole or absent, and one that is right already stays.
leave_marker() { # NAME LINE...
  local path=${setting[state]}/route-overlap new=${setting[state]}/route-overlap.$$ name text
  for name in ok detected undecided; do
    [[ $name == "$1" || ! -e $path.$name ]] || rm -f "$path.$name" || return
  done
  [[ $1 ]] || return 0
  text=$(feed "${@:2}")
  [[ -L $path.$1 || ! -f $path.$1 || $(<"$path.$1") != "$text" ]] || return 0
  mkdir -p "${setting[state]}" || return
  set -o noclobber # another program's link is never written through
  feed "$text" >"$new" && mv -fT "$new" "$path.$1" && return
  rm -f "$new"
  return 1
}

# --- Settings, and what the passes share ----------------------------------------------------------
# shellcheck disable=SC2016
settings='
BEGIN {
  # The columns of a route, and of the route in an answer: $PREFIX is its prefix.
  TYPE = 2; PREFIX = 3; FIRST = 4; LAST = 5; TABLE = 6
  PROTOCOL = 7; METRIC = 8; PREF = 9; GATEWAY = 10
  OBJECT = 11; UNCLEAR = 12; DEVICES = 13; TEXT = 14
  # Those of a rule: the first five are the same, but for its action in place of the type.
  ACTION = 2; SELECTS = 7; OTHERS = 8; RULE_TEXT = 9

  named = "/"
  for (i = 1; i < ARGC; i++) {
    $0 = ARGV[i]
    read_setting($NF ~ /:/ ? 6 : 4)
  }
  REFUSES = "^(" substr(refusing_types, 2) ")$"
  ARGC = 1 # these are not names of files
}
function read_setting(its_family) {
  if ($1 ~ /^(cidr|service|own)$/ && its_family == family) {
    add_range($1, hex_of($(NF - 1)), hex_of($NF))
    if ($1 == "cidr") cidr[count["cidr"]] = $2
  }
  if ($1 == "device") named = named $2 "/"
  if ($1 == "allowed") allowed[++patterns] = expression($2)
  if ($1 == "name") name[$2, $3] = $4 # of the number of a type, protocol, scope or table
  if ($1 == "error") { # that `ip` reports where packets are refused, or have no route
    error[words_from(3)] = $2
    if ($2 != "no-route") refusing_types = refusing_types "|" $2
  }
  if ($1 == "selector") selectors[$2] # of rules
  if ($1 == "encap") keeps_destination[$2]
  if ($1 == "class") class_of_device[$2, $3] = $4 # by its kind, or by its link type
  if ($1 == "sentence") sentence[$2] = words_from(3)
  if ($1 == "remedy") remedy[$2] = words_from(3)
  if ($1 == "own-pods") own_pods = words_from(2)
  if ($1 == "unclear") why_unclear[$2] = words_from(3)
  if ($1 == "cni") { # the devices of a CNI, by kind and name
    row_cni[++rows] = $2
    row_use[rows] = $3
    row_kind[rows] = $4
    row_name[rows] = expression($5)
  }
  if ($1 == "pods") leads_to_pods[$2] # a device
  if ($1 == "serves") serves[$2, $3] # the pods of another CNI
  if ($1 == "refuses" && $2 == family) { # routes with which a CNI refuses packets
    refuses_with[++refusing] = $3 " " $4
    refuser[refusing] = $5
    proof_of[refusing] = $6
    shortest[refusing] = $7
    longest[refusing] = $8
  }
}
function expression(pattern) {
  gsub(/[.]/, "[.]", pattern)
  gsub(/[*]/, ".*", pattern)
  gsub(/[?]/, ".", pattern)
  return "^" pattern "$"
}
function name_of(kind, number) { return (kind, number) in name ? name[kind, number] : number }
function name_of_cni(word) {
  gsub(/_/, " ", word)
  return word
}

# A list of devices is a path, as in /eth0/ib0/; no device has a slash in its name.
function has(list, dev) { return index(list, "/" dev "/") > 0 }
function union(list, more,   n, dev, i) {
  n = split(more, dev, "/")
  for (i = 2; i < n; i++) if (!has(list, dev[i])) list = list dev[i] "/"
  return list
}
function spoken(list, separator) {
  list = substr(list, 2, length(list) - 2)
  gsub(/\//, separator, list)
  return list
}

function in_order(list,   n, dev, i, first, ordered) {
  ordered = "/"
  for (n = split(list, dev, "/") - 2; n > 0; n--) {
    first = ""
    for (i = 2; dev[i] != ""; i++)
      if (!has(ordered, dev[i]) && (first == "" || dev[i] "" < first "")) first = dev[i]
    ordered = ordered first "/"
  }
  return ordered
}

function words_from(n,   i, words) {
  words = $n
  for (i = n + 1; i <= NF; i++) words = words " " $i
  return words
}
function not_judged(what) {
  return "this check does not judge " what "; run: hostrouting check"
}
function once(line) {
  if (!(line in is_printed)) print line
  is_printed[line]
}

function add_range(kind, first, last) {
  count[kind]++
  first_of[kind, count[kind]] = first
  last_of[kind, count[kind]] = last
}
function overlaps(kind, first, last,   n) {
  for (n = 1; n <= count[kind]; n++)
    if (first <= last_of[kind, n] && first_of[kind, n] <= last) return 1
  return 0
}
'

# --- Pass 1: what is there ------------------------------------------------------------------------
# Reads the lists of `ip`, and prints what matters for the expected CIDRs. What is absent is "-".
#
# rule ACTION PREFIX FIRST LAST TABLE SELECTS OTHERS TEXT
#   FIRST and LAST are the ends of the prefix (see Addresses). ACTION is lookup, suppress (a lookup
#   that passes over default routes), nop, unknown, or the type of a refusal. SELECTS is whether the
#   rule selects all plain packets, some (by their destination), or none. OTHERS is whether it
#   treats other packets differently: those of this host (host), or those that arrive (/DEVICE).
# route TYPE PREFIX FIRST LAST TABLE PROTOCOL METRIC PREF GATEWAY OBJECT UNCLEAR DEVICES TEXT
#   OBJECT is the number of a nexthop object, and UNCLEAR why the route is not judged. DEVICES are
#   those of the next hops that are not dead, as in /eth0/ib0/.
# routed DEVICE
#   Unicast routes lead to it, whatever their prefix.
# protocol NAME
#   Several routes have it, whatever their prefix.
# address DEVICE HEX
#   This is an address of this host.
# device NAME up|down CLASS
#   CLASS is card or bridge, or tunnel (packets leave by another device again), or dial-up or tap (a
#   card, if there is no other), or dummy or dead-end (it does not lead to the network).
# cni DEVICE CNI USE
#   The device fits a row of the table of CNIs.
# unread LINE
# shellcheck disable=SC2016 # the programs of awk are texts
read_lists='
/^\tnh_info / { # the next hops of the route in the line before
  listed = listed $0
  next
}
listed != "" {
  print_route("route", listed)
  listed = ""
}
/^[0-9]+: [^ ]+: <.*\\ +link\// {
  print_device()
  are_devices = 1
  next
}
are_devices { next } # they come last, because an alias is any text, even of several lines
/^[0-9]+:\t/ {
  print_rule()
  next
}
/^[0-9]+ / {
  read_prefix($2)
  if ($1 == "1" && $3 == "dev") once("routed " $4)
  if ($1 == "1" && $5 == "dev") once("routed " $6)
  if (match($0, / proto [0-9]+ /)) routes_of[substr($0, RSTART + 7, RLENGTH - 8)]++
  if (/^2 [^\/]+ dev [^ ]+ table 255 proto 2 /) print "address", $4, first
  if ($2 == "default" || overlaps("cidr", first, last)) listed = $0
  next
}
!/^Command failed / { print "unread", $0 }
END {
  for (number in routes_of)
    if (routes_of[number] > 1) print "protocol", name_of("proto", number)
}

BEGIN { HAVE_A_VALUE = "^(to|lookup|suppress_prefixlength|realms|proto)$" }
function print_rule(   i, word, value, text, selects) {
  prefix = action = table = others = "-"
  is_known = is_met = 1
  text = $1
  for (i = 2; i <= NF; i++) {
    word = $i
    value = ""
    if (word in selectors || word ~ HAVE_A_VALUE) value = $(++i)
    if (word == "proto") continue # which program made the rule
    if (word == "lookup") value = name_of("table", value)
    if (name_of("type", word) ~ REFUSES && text !~ / suppress_ifgroup$/)
      word = name_of("type", word)
    read_word_of_rule(word, value)
    text = text " " word (value == "" ? "" : " " value)
  }
  if ($2 == "not" && action ~ REFUSES) is_known = 0
  if (!is_known) action = "unknown"
  selects = "some"
  if (prefix == "-") selects = is_met == ($2 != "not") ? "all" : "none"
  if (prefix == "-") prefix = "default"
  read_prefix(prefix)
  print "rule", action, prefix, first, last, table, selects, others, text
}
function read_word_of_rule(word, value) {
  if (word == "to") prefix = value
  else if (word == "lookup") {
    table = value
    action = "lookup"
  } else if (word == "suppress_prefixlength") action = "suppress"
  else if (word == "nop" || word ~ REFUSES) action = word
  else if (word in selectors) {
    if (!is_met_by_plain_packets(word, value)) is_met = 0
    if (word == "iif" && value != "lo") others = "/" value
    else if (word != "iif" && word " " value != "from all" && others == "-") others = "host"
  } else if (word !~ /^(not|realms|\[detached\]|\[unresolved\])$/) is_known = 0
}
# These have no mark, no source yet, user 0, and no device. IPv4 compares the source 0.0.0.0.
function is_met_by_plain_packets(word, value) {
  if (word == "from") return value == "all" || (family == 4 && value ~ /^0[.]0[.]0[.]0/)
  if (word == "iif") return value == "lo"
  if (word == "fwmark") return !needs_a_mark(value)
  if (word == "uidrange") return value ~ /^0-/
  return 0
}

# Whether the mark has a bit that its mask does not ignore, as in 0x200/0xf00.
function needs_a_mark(text,   part, mark, mask, i, bit) {
  split(text "/0xffffffff", part, "/")
  mark = hex_of_mark(part[1])
  mask = hex_of_mark(part[2])
  for (i = 1; i <= 8; i++)
    for (bit = 1; bit <= 8; bit *= 2)
      if (int(digit_at(mark, i) / bit) % 2 && int(digit_at(mask, i) / bit) % 2) return 1
  return 0
}
function hex_of_mark(mark) {
  sub(/^0x/, "", mark)
  return substr("00000000", length(mark) + 1) mark
}

function print_device(   i, dev, state, part, type, kind) {
  dev = $2
  sub(/(@[^@]*)?:$/, "", dev)
  state = $3 ~ /[<,]UP[,>]/ ? "up" : "down"
  split($0, part, /\\ +/) # where -o joins lines
  type = part[2] # link/ether, or link/[1]
  sub(/ .*/, "", type)
  gsub(/link\/|[][]/, "", type)
  kind = part[3] ""
  sub(/ .*/, "", kind)
  print "device", dev, state, class_of(kind, type)
  for (i = 1; i <= rows; i++)
    if (row_kind[i] == kind && dev ~ row_name[i]) print "cni", dev, row_cni[i], row_use[i]
}
function class_of(kind, type) {
  if (("type", type) in class_of_device) return class_of_device["type", type]
  if (("kind", kind) in class_of_device) return class_of_device["kind", kind]
  if (type == "1" || type == "ether")
    return ("ethernet", kind) in class_of_device ? class_of_device["ethernet", kind] : "card"
  return kind == "" ? "card" : "tunnel"
}
'
# shellcheck disable=SC2016
routes='
function print_route(fact, listed,   n, word, i, devices) {
  gsub(/\\?\t/, " ", listed) # which join lines
  n = split(listed, word, " ")
  type = name_of("type", word[1])
  refuses = type ~ REFUSES
  field["table"] = field["proto"] = field["via"] = field["nhid"] = unclear = "-"
  field["metric"] = field["expires"] = hops = 0
  field["pref"] = "medium"
  text = type == "unicast" ? word[2] : type " " word[2]
  for (i = 3; i <= n; i++) {
    if (word[i] == "nh_info") i = end_of_object(word, i, n)
    else if (word[i] == "dev") add_hop(word[++i]) # it can have any name, such as "via"
    else if (word[i] ~ /^(table|proto|scope|metric|pref|nhid|expires|error)$/) {
      add_field(word[i], name_of(word[i], word[i + 1]))
      i++
    } else add_word(word[i], word[i + 1])
  }
  if (field["expires"] ~ /^-/) return # it is over
  devices = "/"
  for (i = 1; i <= hops; i++) if (!is_dead[i]) devices = union(devices, "/" hop[i] "/")
  if (devices == "/" && unclear == "-" && type == "unicast") unclear = "no-hops"
  read_prefix(word[2])
  print fact, type, word[2], first, last, field["table"], field["proto"], field["metric"], \
    field["pref"], field["via"], field["nhid"], unclear, devices, text
}
function add_hop(dev) {
  if (refuses) return # IPv6 lists lo
  hop[++hops] = dev
  is_dead[hops] = 0
  text = text " dev " dev
}
function add_field(word, value) {
  field[word] = value
  text = text noteworthy(word, value)
}
function add_word(word, next_word) {
  if (word == "via") field["via"] = "via"
  if (word == "dead") is_dead[hops] = 1
  if (word == "from" || (word == "tos" && next_word ~ /^0x/)) unclear = word
  if (word == "encap" && !(next_word in keeps_destination)) unclear = "encap"
  text = text " " word
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

# --- Pass 2: where to ask -------------------------------------------------------------------------
# place HEX ADDRESS
# shellcheck disable=SC2016
find_places='
BEGIN {
  for (i = 1; i <= count["cidr"]; i++) add(first_of["cidr", i])
}
/^(rule|route) / {
  add($FIRST)
  add(after($LAST))
}
function add(hex) {
  if (overlaps("cidr", hex, hex)) print "place", hex, address_of(hex)
}
'

# --- Pass 3: what Linux answers -------------------------------------------------------------------
# place HEX ADDRESS
# answer TYPE PREFIX FIRST LAST TABLE PROTOCOL METRIC PREF GATEWAY OBJECT UNCLEAR DEVICES TEXT
#   The same as of a route. Where packets are refused, there is only the TYPE of the refusal, and
#   where no route is for them, only "no-route".
# unread REASON
# shellcheck disable=SC2016
read_answers='
$1 == "place" {
  place[++places] = $0
  next
}
/^[0-9]+ / {
  answer[++answers] = $0
  next
}
/^\tnh_info / {
  answer[answers] = answer[answers] $0
  next
}
/^Command failed / { # the line before says why, and the number at the end which question it was
  sub(/.*:/, "")
  why[$0] = reason
  next
}
{
  reason = $0
  sub(/^[^:]*: /, "", reason)
}
END {
  for (i = 1; i <= places; i++) {
    print place[i]
    if (!(i in why) && n < answers) print_route("answer", answer[++n])
    else if (i in why && why[i] in error) print "answer", error[why[i]]
    else no_answer(place[i], i in why ? why[i] : reason)
  }
  if (n < answers) no_answer(place[places], "there are too many answers")
}
function no_answer(question, reason,   part) {
  split(question, part, " ")
  print "unread no answer for " part[3] ": " reason
  exit 1
}
'

# --- Pass 4: the expected devices -----------------------------------------------------------------
# Adds to the facts:
#
# expected DEVICES
# doubtful DEVICES
#   It is unclear whether packets should leave by these.
# beside DEVICES
#   The same of these, beside a tunnel.
# direct DEVICES
#   The same of packets that leave by these without a gateway.
# equal TABLE METRIC PREF DEVICES
#   Linux uses any of the default routes with these: together they leave by these devices.
# doubt TEXT, lacking TEXT, awaited TEXT
#
# What counts is the first default route that leads to the network, in the first table that plain
# packets look up.
# shellcheck disable=SC2016
find_uplink='
BEGIN {
  CARDS = "card|bridge"
  TUNNELS = "tunnel|dial-up|tap"
  LEADING = CARDS "|" TUNNELS
  expected = doubtful = beside = direct = addressed = of_cnis = "/"
}
{ print }
$1 == "rule" && $SELECTS == "all" && $ACTION ~ /^(lookup|suppress)$/ {
  looked_up[++lookups] = $TABLE
  passes_over[lookups] = $ACTION == "suppress"
}
$1 == "rule" && $ACTION == "unknown" { is_in_doubt = 1 }
$1 == "route" && $PREFIX == "default" && $TYPE == "unicast" {
  if ($UNCLEAR ~ /^(from|tos)$/) is_in_doubt = 1
  else default_route[++defaults] = $0
}
$1 == "route" && $PREFIX ~ /\/1$/ && $TYPE == "unicast" { is_hidden = 1 }
$1 == "address" { addressed = union(addressed, "/" $2 "/") }
$1 == "device" {
  class[$2] = $4
  is_up[$2] = $3 == "up"
}
$1 == "cni" { of_cnis = of_cnis $2 "/" }
END {
  uplink = leaving_by(LEADING, 0)
  if (uplink == "/") uplink = leaving_by("dummy", 0)
  used = chosen
  if (leaving_by(LEADING "|dummy", 1) != "/") is_hidden = 1 # if a lookup passes over all
  if (named != "/") expect_named()
  else if (uplink != "/") expect_uplink()
  else if (is_hidden || is_in_doubt)
    print "doubt rules or routes hide the IPv" family " default route; " remedy["default-routes"]
  else print "lacking NO-DEFAULT-ROUTE: plain packets use no IPv" family " default route; " \
      "add one, or " remedy["default-routes"]
  print "expected", expected
  print "doubtful", doubtful
  print "beside", beside
  print "direct", direct
  say_equal_routes()
  say_what_is_awaited()
}

# The devices of these classes by which the first default route with such a device leaves. It sets
# `chosen`, the route. With `all`, routes that a lookup passes over count, too.
function leaving_by(classes, all,   i, d, devs) {
  for (i = 1; i <= lookups; i++)
    for (d = 1; d <= defaults; d++) {
      $0 = default_route[d]
      if ($TABLE != looked_up[i] || (passes_over[i] && !all)) continue
      devs = of_class(classes, $DEVICES)
      if (devs == "/") continue
      chosen = $0
      return devs
    }
  return "/"
}
function of_class(classes, list,   n, dev, i, those) {
  n = split(list, dev, "/")
  those = "/"
  for (i = 2; i < n; i++) if (class[dev[i]] ~ "^(" classes ")$") those = those dev[i] "/"
  return those
}

function expect_named() {
  expected = named
  if (of_class(TUNNELS, named) != "/") direct = leaving_by(CARDS, 1)
}
function expect_uplink() {
  doubt_rivals()
  if (of_class(CARDS, uplink) != uplink) doubt_tunnel(leaving_by(CARDS, 1))
  expected = union(uplink, doubtful)
}
# Of equal default routes, Linux uses any; and each router that advertises itself may be meant.
function doubt_rivals(   d, rank, own, devs) {
  $0 = used
  rank = $TABLE " " $METRIC
  devs = own = $DEVICES
  if ($PROTOCOL == "ra" && own ~ /^\/.+\/.+\/$/) doubtful = uplink
  for (d = 1; d <= defaults; d++) {
    $0 = default_route[d]
    if ($TABLE " " $METRIC == rank) devs = union(devs, $DEVICES)
  }
  if (devs != own) doubtful = of_class(LEADING, devs)
}
function say_equal_routes(   d, rank, devices_of) {
  for (d = 1; d <= defaults; d++) {
    $0 = default_route[d]
    rank = $TABLE " " $METRIC " " $PREF
    if (!(rank in devices_of)) devices_of[rank] = "/"
    devices_of[rank] = union(devices_of[rank], $DEVICES)
  }
  for (rank in devices_of) print "equal", rank, devices_of[rank]
}
# The device by which the packets of a tunnel leave may be the one that is meant: the card whose
# default route is hidden, or without that, any card.
function doubt_tunnel(card,   cards) {
  cards = without(of_cnis, of_class("card", addressed))
  if (card != "/") doubtful = union(doubtful, union(uplink, card))
  else if (of_class("tunnel", uplink) != "/" || (of_class("tap", uplink) != "/" && cards != "/"))
    doubtful = union(doubtful, uplink)
  if (card == "/" && of_class("dial-up", uplink) == "/") beside = cards
}
function without(some, list,   n, dev, i, rest) {
  n = split(list, dev, "/")
  rest = "/"
  for (i = 2; i < n; i++) if (!has(some, dev[i])) rest = rest dev[i] "/"
  return rest
}
function say_what_is_awaited(   n, dev, i) {
  n = split(named == "/" ? uplink : named, dev, "/")
  for (i = 2; i < n; i++) if (!is_up[dev[i]]) print "awaited the device", dev[i]
  if (uplink == "/" && !is_hidden) print "awaited an IPv" family " default route"
}
'

# --- Pass 5: routes and rules that refuse packets -------------------------------------------------
# Adds to the facts:
#
# refusal TYPE FIRST LAST OWNER TEXT
#   A CNI refuses the addresses of its pods that no pod has. OWNER is "cni" if the refusal is as the
#   table of CNIs says, and what the table asks for is there. It is "perhaps" if there is only a
#   trace of the CNI, or a pod of any CNI inside; or else "nobody".
# shellcheck disable=SC2016
judge_refusals='
{ print }
$1 == "rule" && $TYPE ~ REFUSES && $SELECTS != "none" {
  refusal[++refusals] = $0
  text[refusals] = "[rule " words_from(RULE_TEXT) "]"
}
$1 == "route" && $TYPE ~ REFUSES {
  refusal[++refusals] = $0
  text[refusals] = "[" words_from(TEXT) "]"
}
$1 == "route" && $GATEWAY == "-" { add_thing($FIRST, $LAST, $TABLE, $DEVICES) }
$1 == "protocol" { is_in_use[$2] }
$1 == "address" { add_thing($3, $3, "any", "/" $2 "/") }
$1 == "cni" {
  cnis_of[$2] = cnis_of[$2] " " $3 " "
  runs[$3] = 1
}
$1 == "expected" { expected = $2 }
END {
  for (i = 1; i <= refusals; i++) {
    $0 = refusal[i]
    print "refusal", $TYPE, $FIRST, $LAST, owner_of_refusal(), text[i]
  }
}
function add_thing(first, last, table, devices) {
  things++
  thing_first[things] = first
  thing_last[things] = last
  thing_table[things] = table
  thing_devices[things] = devices
}

function owner_of_refusal(   i, part, size, cni, proof) {
  if ($1 == "rule" || $PREFIX == "default") return "nobody"
  if (overlaps("service", $FIRST, $LAST)) return "nobody"
  find_things_inside($FIRST, $LAST, $TABLE)
  size = split($PREFIX, part, "/") > 1 ? part[2] : family == 4 ? 32 : 128
  for (i = 1; i <= refusing; i++) {
    if (refuses_with[i] != $TYPE " " $PROTOCOL) continue
    if (size < shortest[i] || longest[i] < size) continue
    cni = refuser[i]
    proof = proof_of[i]
    if (proof == "device" && cni in runs) return "cni"
    if (proof == "inside" && index(cnis_inside, " " cni " ")) return "cni"
    if (proof == "first" && index(cnis_at_first, " " cni " ")) return "cni"
    if (proof == "first") continue # it is of another node, or of nobody
    if (cni in runs || $PROTOCOL in is_in_use) return "perhaps"
  }
  return holds_pod ? "perhaps" : "nobody"
}
# Sets the CNIs whose devices have routes or addresses inside these ends, or an address at the
# first, and whether one of these is of a single pod.
function find_things_inside(first, last, table,   i, n, dev, d, cnis) {
  cnis_inside = cnis_at_first = ""
  holds_pod = 0
  for (i = 1; i <= things; i++) {
    if (thing_first[i] < first || last < thing_last[i]) continue
    if (thing_first[i] == first && thing_last[i] == last) continue
    if (thing_table[i] != "any" && thing_table[i] != table) continue
    n = split(thing_devices[i], dev, "/")
    for (d = 2; d < n; d++) {
      if (has(expected, dev[d])) continue
      cnis = cnis_of[dev[d]]
      cnis_inside = cnis_inside cnis
      if (thing_table[i] == "any" && thing_first[i] == first) cnis_at_first = cnis_at_first cnis
      if (cnis != "" && thing_first[i] == thing_last[i]) holds_pod = 1
    }
  }
}
'

# --- Pass 6: what CNIs have left behind -----------------------------------------------------------
# Adds to the facts:
#
# rival DEVICE REASON
#   It leads to the pods of one CNI, but there are pods of another.
# network FIRST LAST DEVICE
#   The network of an expected card, or of a bridge for pods. No CNI has a route inside.
# shellcheck disable=SC2016
find_leftovers='
{ print }
$1 == "expected" { expected = $2 }
$1 == "routed" { is_routed[$2] }
$1 == "route" && $PROTOCOL == "kernel" && $GATEWAY == "-" && $FIRST != $LAST {
  network[++networks] = $0
}
$1 == "cni" {
  dev_of[++found] = $2
  cni_of[found] = $3
  use_of[found] = $4
  if ($4 == "bridge") is_bridge[$2]
}
END {
  for (i = 1; i <= networks; i++) {
    $0 = network[i]
    split($DEVICES, dev, "/")
    if (has(expected, dev[2]) || dev[2] in is_bridge) print "network", $FIRST, $LAST, dev[2]
  }
  for (i = 1; i <= found; i++)
    if (use_of[i] ~ /^(network|bridge)$/) find_rival(dev_of[i])
}
function find_rival(dev,   i) {
  for (i = 1; i <= found; i++) {
    if (!(dev_of[i] in is_routed)) continue
    if (use_of[i] != "pod" && !(dev_of[i] in leads_to_pods)) continue
    if (is_served(dev, cni_of[i])) continue
    once("rival " dev " pods of " name_of_cni(cni_of[i]) " (" dev_of[i] ")")
    return
  }
}
# Whether one of the CNIs of a device leads to the pods of a CNI.
function is_served(dev, cni,   i) {
  for (i = 1; i <= found; i++) {
    if (dev_of[i] != dev || use_of[i] !~ /^(network|bridge)$/) continue
    if (cni_of[i] == cni || (cni_of[i], cni) in serves) return 1
    if (use_of[i] == "network" && (cni_of[i], "any") in serves) return 1
  }
  return 0
}
'

# --- Pass 7: what is right ------------------------------------------------------------------------
# Prints the messages of the passes before, and:
#
# judged HEX fine|own
# judged HEX escape KIND TEXT
# judged HEX doubt NAME REASON
#   About the packets to a place. An address of this host (own) may be a part of any range.
# pods PREFIX FIRST LAST
#   They are on this node.
# doubt TEXT
# limit TEXT
# shellcheck disable=SC2016
judge_answers='
/^(doubt|lacking|awaited) / { print }
$1 == "unread" { print "doubt", not_judged("[" words_from(2) "]") }
$1 == "rule" {
  if ($ACTION == "unknown") print "doubt", not_judged("rule " words_from(RULE_TEXT))
  if ($OTHERS != "-") rule_for_others[++others] = $0
}
$1 == "route" { read_route() }
$1 == "cni" { uses[$2] = uses[$2] "/" $4 "/" }
$1 == "rival" { rival[$2] = words_from(3) }
$1 == "network" {
  add_range("network", $2, $3)
  owner_of_network[count["network"]] = $4
}
$1 == "expected" { expected = $2 }
$1 == "doubtful" { doubtful = $2 }
$1 == "beside" { beside = $2 }
$1 == "direct" { direct = $2 }
$1 == "equal" { of_equal_routes[$2, $3, $4] = $5 }
$1 == "lacking" { is_lacking = 1 }
$1 == "refusal" { refusal[++refusals] = $0 }
$1 == "place" { place = $2 }
$1 == "answer" && !is_lacking { print "judged", place, opinion() }
END {
  find_pods()
  say_limits()
}

function read_route() {
  if ($UNCLEAR ~ /^(from|tos)$/) print "doubt", not_judged("route " route() reason())
  if ($TYPE == "unicast") unicast_route[++unicast_routes] = $0
  routes_by[$OBJECT]++
}
function expected_devices() { return spoken(expected, ", ") }
function route() { return "[" words_from(TEXT) "]" }
function reason() { return " (" why_unclear[$UNCLEAR] ")" }

# What is to be said of the answer in $0.
function opinion(   is_single) {
  if ($TYPE == "no-route" && expected == "/") return "fine" # the default route is in doubt
  if ($TYPE == "no-route") return "escape NO-ROUTE has no route; expected via " expected_devices()
  if (NF == TYPE) return opinion_of_refusal($TYPE)
  if (overlaps("own", place, place)) return "own"
  if (family == 6 && $OBJECT != "-" && (routes_by[$OBJECT] > 1 || place < $FIRST || $LAST < place))
    $UNCLEAR = "object" # IPv6 may answer with any route by the same nexthop object
  if ($UNCLEAR != "-") return "doubt not-judged route " route() reason()
  is_single = $FIRST == $LAST
  if ($TYPE == "local" && !is_single) return "escape OWN-RANGE does not leave this host: " route()
  if ($TYPE == "local") return "own"
  if ($TYPE ~ /^(broadcast|anycast)$/ && $PROTOCOL == "kernel" && is_single) return "own"
  return opinion_of_route(is_single)
}
function opinion_of_route(is_single,   devs, n, dev, i, view, doubt, bad) {
  bad = "/"
  if (expected == "/") return "fine"
  devs = $DEVICES
  if ($PREFIX == "default" && ($TABLE, $METRIC, $PREF) in of_equal_routes)
    devs = of_equal_routes[$TABLE, $METRIC, $PREF]
  n = split(devs, dev, "/")
  for (i = 2; i < n; i++) {
    view = opinion_of_device(dev[i], is_single)
    if (view == "escape") bad = bad dev[i] "/"
    else if (view != "fine") doubt = view
  }
  if (bad != "/")
    return "escape OVERLAP routes via " spoken(bad, ", ") " " route() ", expected " \
      expected_devices()
  if (doubt != "") return doubt
  if (family == 4 && $TYPE ~ /^(broadcast|multicast)$/)
    return "doubt doubtful-route TCP does not connect by " route()
  return "fine"
}
function opinion_of_device(dev, is_single,   i, rival) {
  if (has(doubtful, dev)) return "doubt default-routes " spoken(in_order(doubtful), " or ")
  if (has(expected, dev)) return "fine"
  for (i = 1; i <= patterns; i++) if (dev ~ allowed[i]) return "fine"
  if (!is_of_cni(dev, is_single)) {
    if (!has(beside, dev) && !(has(direct, dev) && $GATEWAY == "-")) return "escape"
    return "doubt default-routes " spoken(in_order(expected dev "/"), " or ")
  }
  rival = rival_of(dev, is_single)
  return rival == "" ? "fine" : "doubt two-cnis " dev " beside " rival
}
# Whether a CNI uses the device for plain packets. A pod has a single address.
function is_of_cni(dev, is_single) {
  return uses[dev] ~ /\/(network|bridge)\// || (is_single && uses[dev] ~ /\/pod\//)
}
function is_of_pods(dev) { return uses[dev] ~ /\/(pod|bridge)\// }

# What shows that a CNI has left this device, or this route, behind; "" if nothing does.
function rival_of(dev, is_single,   i) {
  for (i = 1; i <= count["network"] && !is_single; i++) {
    if ($FIRST < first_of["network", i] || last_of["network", i] < $LAST) continue
    if (owner_of_network[i] != dev) return "the network of " owner_of_network[i]
  }
  return rival[dev] ""
}

# Linux does not say which route or rule refuses, so each that may be it is looked at.
function opinion_of_refusal(type,   i, answer, by, owners) {
  answer = $0
  for (i = 1; i <= refusals; i++) {
    $0 = refusal[i]
    if ($2 != type || place < $3 || $4 < place) continue
    owners = owners " " $5
    by = by (by == "" ? "" : " or ") words_from(6)
  }
  $0 = answer
  if (owners ~ /cni/ && owners !~ /nobody|perhaps/) return "fine"
  if (owners ~ /cni|perhaps/) return "doubt doubtful-route " by " refuses them, perhaps for pods"
  return "escape REFUSED is refused (" type ")" (by == "" ? "" : " by " by) \
    (expected == "/" ? "" : "; expected via " expected_devices())
}

function find_pods(   i, dev) {
  for (i = 1; i <= unicast_routes; i++) {
    $0 = unicast_route[i]
    split($DEVICES, dev, "/")
    if (is_of_pods(dev[2])) print "pods", $PREFIX, $FIRST, $LAST
  }
}

# Of rules by the device on which packets arrive, those matter that select packets of pods.
function say_limits(   i, dev) {
  for (i = 1; i <= others; i++) {
    $0 = rule_for_others[i]
    dev = substr($OTHERS, 2)
    if ($OTHERS == "host" || is_of_pods(dev))
      once("limit rule " ($RULE_TEXT + 0) (family == 6 ? " of IPv6" : ""))
  }
}
'

# --- Pass 8: the ranges ---------------------------------------------------------------------------
# Puts neighbouring places together about which the same is said, and prints the messages:
#
# escape TEXT
# repair CIDR
# doubt TEXT
# shellcheck disable=SC2016
find_ranges='
$1 == "judged" {
  place[++places] = $2
  opinion[places] = words_from(3)
  at[$2] = places
  next
}
$1 == "pods" {
  add_range("pods", $3, $4)
  prefix_of_pods[count["pods"]] = $2
  next
}
{ once($0) }
END {
  if (!places) exit
  for (c = 1; c <= count["cidr"]; c++) find_ranges_of(c)
  for (i = 1; i <= subjects; i++) say_doubt(subject[i])
}
function find_ranges_of(c,   i, current, start) {
  current = "fine"
  for (i = at[first_of["cidr", c]]; i <= places && place[i] <= last_of["cidr", c]; i++) {
    if (opinion[i] == "own" || opinion[i] == current) continue
    say_range(c, current, start, before(place[i]))
    start = place[i]
    current = opinion[i]
  }
  say_range(c, current, start, last_of["cidr", c])
}
function say_range(c, opinion, start, stop,   range) {
  if (opinion == "fine") return
  range = address_of(start)
  if (start != stop) range = range "–" address_of(stop)
  $0 = opinion
  if ($1 == "escape") {
    print "escape", $2 ": expected CIDR", cidr[c], "(" range ")", words_from(3)
    once("repair " cidr[c])
    return
  }
  if ($2 == "default-routes") add_pods(opinion, start, stop)
  if (start == first_of["cidr", c] && stop == last_of["cidr", c]) range = cidr[c]
  if (!(opinion in ranges)) subject[++subjects] = opinion
  if (ranges[opinion]++ < 3) where[opinion] = listed(where[opinion], range)
}
# Notes which pods of this node have addresses in the range.
function add_pods(opinion, start, stop,   i) {
  for (i = 1; i <= count["pods"]; i++) {
    if (last_of["pods", i] < start || stop < first_of["pods", i]) continue
    if ((opinion, i) in is_noted) continue
    is_noted[opinion, i]
    pods_in[opinion] = listed(pods_in[opinion], prefix_of_pods[i])
  }
}
function say_doubt(opinion,   reason) {
  $0 = opinion
  reason = words_from(3)
  if (pods_in[opinion] != "")
    reason = put(put(own_pods, "{reason}", reason), "{pods}", pods_in[opinion])
  if (ranges[opinion] > 3) where[opinion] = where[opinion] " and " ranges[opinion] - 3 " more"
  if ($2 == "not-judged") once("doubt " not_judged(reason))
  else print "doubt", filled(sentence[$2], where[opinion], reason) "; " remedy[$2]
}
function listed(list, item) { return list (list == "" ? "" : ", ") item }
function filled(text, where, reason) {
  return put(put(text, "{where}", where), "{reason}", reason)
}
function put(text, hole, words,   i) {
  i = index(text, hole)
  return i ? substr(text, 1, i - 1) words substr(text, i + length(hole)) : text
}
'

# --- Addresses ------------------------------------------------------------------------------------
# shellcheck disable=SC2016
addresses='
# An address is its family and its hexadecimal digits: 10.0.0.1 is 4:0a000001. So the order of these
# texts is the order of the addresses.
function hex_of(address,   part, gap, left, right) {
  if (address !~ /:/) return "4:" hex_of_bytes(address)
  if (match(address, /[0-9]+[.][0-9.]+$/)) { # as in ::ffff:10.0.0.1
    right = hex_of_bytes(substr(address, RSTART))
    address = substr(address, 1, RSTART - 1) substr(right, 1, 4) ":" substr(right, 5)
  }
  gap = index(address, "::") # where groups of zeros are left out
  if (!gap) return "6:" hex_of_groups(address)
  left = hex_of_groups(substr(address, 1, gap - 1))
  right = hex_of_groups(substr(address, gap + 2))
  return "6:" left substr(ZEROS, 1, 32 - length(left right)) right
}
function hex_of_bytes(bytes,   byte) {
  split(bytes, byte, ".")
  return sprintf("%02x%02x%02x%02x", byte[1], byte[2], byte[3], byte[4])
}
function hex_of_groups(groups,   n, group, i, hex) {
  n = split(groups, group, ":")
  for (i = 1; i <= n; i++) hex = hex substr("0000" group[i], length(group[i]) + 1)
  return hex
}
function address_of(hex,   i, group, address) {
  if (hex ~ /^4/)
    return byte_at(hex, 3) "." byte_at(hex, 5) "." byte_at(hex, 7) "." byte_at(hex, 9)
  for (i = 3; i <= 31; i += 4) {
    group = substr(hex, i, 4)
    sub(/^0+/, "", group)
    address = address ":" (group == "" ? 0 : group)
  }
  # Leave zeros out, as `ip` does.
  if (!sub(/(:0)+$/, "::", address)) sub(/(:0)+:/, "::", address)
  return address ~ /^::/ ? address : substr(address, 2)
}
function byte_at(hex, i) { return 16 * digit_at(hex, i) + digit_at(hex, i + 1) }
function digit_at(hex, i) { return index(DIGITS, substr(hex, i, 1)) - 1 }
function digit(value) { return substr(DIGITS, value + 1, 1) }

# Sets the first and the last address of a prefix.
function read_prefix(prefix,   part, kept, free, values, lowest, i) {
  if (prefix == "default") prefix = family == 4 ? "0.0.0.0/0" : "::/0"
  split(prefix, part, "/")
  first = last = hex_of(part[1])
  kept = 2 + int(part[2] / 4) # characters that all addresses have in common
  free = length(first) - kept - 1 # digits that can have any value; the one before, a part of them
  if (part[2] == "" || free < 0) return
  values = 16
  for (i = part[2] % 4; i > 0; i--) values /= 2
  lowest = digit_at(first, kept + 1)
  lowest -= lowest % values
  first = substr(first, 1, kept) digit(lowest) substr(ZEROS, 1, free)
  last = substr(last, 1, kept) digit(lowest + values - 1) substr(HIGHEST, 1, free)
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
BEGIN {
  DIGITS = "0123456789abcdef"
  ZEROS = "00000000000000000000000000000000"
  HIGHEST = "ffffffffffffffffffffffffffffffff"
}
'

main "$@"
