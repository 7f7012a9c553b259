# Policy rules, read from what `ip rule` says.
#
# Each selector in the words of the engine, and whether it holds for the plain packet of the host itself. What
# is for a device that is not there ("[detached]") matches no packet.

function hex_number(text,   i, value) {
  text = tolower(text)
  value = 0
  for (i = substr(text, 1, 2) == "0x" ? 3 : 1; i <= length(text); i++)
    value = value * 16 + index("0123456789abcdef", substr(text, i, 1)) - 1
  return value
}

function both_have_bits(one, other) {
  while (one > 0 && other > 0) {
    if (one % 2 && other % 2) return 1
    one = int(one / 2)
    other = int(other / 2)
  }
  return 0
}

function select_by(rule, name, value, holds) {
  selectors[rule]++
  selector[rule, selectors[rule]] = name " " value
  holds_plainly[name " " value] = holds
}

function span_holds(text,   at) {
  at = index(text, "-")
  return at ? substr(text, 1, at - 1) == "0" : text == "0"
}

function as_span(text) { return index(text, "-") ? text : text "-" text }

function read_rule(   rule, field, word, at, value, mask, held) {
  rule = ++rules
  u_priority[rule] = $1 + 0
  u_not[rule] = 0; u_low[rule] = u_high[rule] = -1
  u_table[rule] = u_target[rule] = u_action[rule] = u_short[rule] = u_group[rule] = ""
  u_detached[rule] = u_l3mdev[rule] = selectors[rule] = 0
  for (field = 2; field <= NF; field++) {
    word = $field
    if (word == "not") u_not[rule] = 1
    else if (word == "from" || word == "to") {
      if ($++field == "all") continue
      read_prefix($field)
      if (word == "to") {
        u_low[rule] = network
        u_high[rule] = network + size[prefix_length] - 1
      } else held["from"] = prefix_text(network, prefix_length)
      if (word == "from") select_by(rule, "from", held["from"], network == 0)
    } else if (word == "iif" || word == "oif") {
      select_by(rule, word, $++field, word == "iif" && $field == "lo")
      if ($(field + 1) == "[detached]") { u_detached[rule] = 1; field++ }
    } else if (word == "fwmark") {
      at = index($++field, "/")
      value = hex_number(at ? substr($field, 1, at - 1) : $field)
      mask = at ? hex_number(substr($field, at + 1)) : 4294967295
      if ($field ~ /^0(\/|$)/) $field = "0x" $field
      select_by(rule, "fwmark", (at ? $field : $field "/0xffffffff"), !both_have_bits(value, mask))
    } else if (word == "tos" || word == "dsfield") {
      select_by(rule, "tos", "0x" lowest_hex($++field), hex_number($field) < 4)
    } else if (word == "uidrange") select_by(rule, word, $++field, span_holds($field))
    else if (word == "ipproto") {
      value = $++field
      sub(/^ipproto-/, "", value)
      # `ip route get` asks for a packet of UDP (17) when it is not told otherwise.
      select_by(rule, word, value, value == "17")
    } else if (word == "sport" || word == "dport") select_by(rule, word, as_span($++field), span_holds($field))
    else if (word == "lookup") {
      if ($++field == "[l3mdev-table]") u_l3mdev[rule] = 1
      else u_table[rule] = $field
    } else if (word == "suppress_prefixlength") u_short[rule] = $++field
    else if (word == "suppress_ifgroup") u_group[rule] = $++field
    else if (word == "goto") u_target[rule] = $++field
    else if (word == "proto" || word == "realms") field++
    else if (word == "tun_id" || word == "dscp" || word == "flowlabel") select_by(rule, word, $++field, 0)
    else if (word in type_number) u_action[rule] = type_number[word]
  }
  order_selectors(rule)
}

function lowest_hex(text) {
  text = tolower(text)
  sub(/^0x0*/, "", text)
  return text
}

# One order, in which the engine names them too.
function order_selectors(rule,   names, count, i, j, kept, n) {
  count = split("from tos fwmark iif oif uidrange ipproto sport dport tun_id dscp flowlabel", names, " ")
  for (i = 1; i <= count; i++)
    for (j = 1; j <= selectors[rule]; j++)
      if (index(selector[rule, j], names[i] " ") == 1) kept[++n] = selector[rule, j]
  for (j = 1; j <= n; j++) selector[rule, j] = kept[j]
}

function is_default(rule, priority, table) {
  return u_priority[rule] == priority && u_table[rule] == table && !u_not[rule] && !selectors[rule] \
    && u_low[rule] < 0 && u_short[rule] == "" && u_group[rule] == ""
}
