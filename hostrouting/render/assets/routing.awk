# What both scripts know of routing: addresses as numbers, and what `ip -4 -N -d -o` says about routes and links.
# Device names may be any word, also one that `ip` uses itself: a line is read in pairs, never searched.

BEGIN {
  # Some versions of awk write whole numbers beyond 31 bits like fractions, with six digits.
  CONVFMT = OFMT = "%.12g"
  size[32] = 1
  for (length_ = 31; length_ >= 0; length_--) size[length_] = 2 * size[length_ + 1]
  UNICAST = 1; LOCAL = 2; BROADCAST = 3; ANYCAST = 4; MULTICAST = 5
  BLACKHOLE = 6; UNREACHABLE = 7; PROHIBIT = 8; THROW = 9
  split("unicast local broadcast anycast multicast blackhole unreachable prohibit throw nat xresolve", type_name, " ")
  for (type_ in type_name) type_number[type_name[type_]] = type_number[type_] = type_ + 0
  MAIN = 254; LOCAL_TABLE = 255
  table_name_of[253] = "default"; table_name_of[254] = "main"; table_name_of[255] = "local"
  scope_name[200] = "site"; scope_name[253] = "link"; scope_name[254] = "host"; scope_name[255] = "nowhere"
  forget_host()
}

# As when nothing has been read of the host yet.
function forget_host() {
  all_said = routes = links = rules = 0
  complaint = ""
  split("", link_up); split("", link_group); split("", wary)
}

# The current line of what `ip` says. Each script tells itself which routes are of interest.
function read_line() {
  if (/^[0-9]+:\t/) read_rule()
  else if (/^[0-9]+: /) read_link()
  else if ($1 == "inet") read_netconf()
  else if (!($1 in type_number)) complaint = $0 # the last line says most
  else if (is_of_interest()) read_route(++routes)
}

# Settings come first, one a line, each marked as what it is.
$1 == "setting" && $2 == "protocol" { ours = $3 }
$1 == "setting" && $2 == "name" { protocol_name_of[$3] = $4 }

function address_number(text,   part) {
  split(text, part, ".")
  return ((part[1] * 256 + part[2]) * 256 + part[3]) * 256 + part[4]
}

function address_text(number,   low, rest) {
  low = number % 65536
  rest = (number - low) / 65536
  return int(rest / 256) "." rest % 256 "." int(low / 256) "." low % 256
}

function network_around(number, length_) { return number - number % size[length_] }

# The prefix in `text`: sets network and prefix_length.
function read_prefix(text,   slash) {
  if (text == "default" || text == "all") text = "0.0.0.0/0"
  slash = index(text, "/")
  prefix_length = slash ? substr(text, slash + 1) + 0 : 32
  network = address_number(slash ? substr(text, 1, slash - 1) : text)
}

function prefix_text(net, length_) { return address_text(net) "/" length_ }

function name_of_protocol(number) { return number in protocol_name_of ? protocol_name_of[number] : number }

function name_of_table(number) { return number in table_name_of ? table_name_of[number] : number }

# Whether the current line is a route to neighbours or to the host itself: it tells which gateways can be reached.
function is_near() { return / scope 25[345] / }

# The route in the current line, as number `r`. What has no name of its own here is kept in r_more, so that two
# routes are told apart by all that `ip` says of them.
function read_route(r,   field, leg, word) {
  read_prefix($2)
  r_type[r] = type_number[$1]; r_net[r] = network; r_len[r] = prefix_length
  r_table[r] = MAIN; r_metric[r] = 0; r_tos[r] = "0"; r_scope[r] = 0; r_proto[r] = 0; r_more[r] = ""
  leg = 1
  r_legs[r] = 0
  for (field = 3; field <= NF; field++) {
    word = $field
    # Behind a route by a nexthop object stands what the object is.
    if (word == "nh_info") break
    if (word == "\\") continue
    if (word == "nexthop") {
      leg = r_legs[r] + 1
      r_weight[r, leg] = 1
    } else if (word == "via" || word == "dev") {
      if (leg > r_legs[r]) {
        r_legs[r] = leg
        r_gateway[r, leg] = r_dev[r, leg] = r_flags[r, leg] = ""
        r_weight[r, leg] = 1
      }
      if (word == "via" && $(field + 1) == "inet6") field++
      if (word == "via") r_gateway[r, leg] = $++field
      else r_dev[r, leg] = $++field
    } else if (word == "weight") r_weight[r, leg] = $++field
    else if (word == "table") r_table[r] = $++field
    else if (word == "proto") r_proto[r] = $++field
    else if (word == "scope") r_scope[r] = $++field
    else if (word == "metric") r_metric[r] = $++field + 0
    else if (word == "tos" || word == "dsfield") r_tos[r] = $++field
    else if (word == "onlink" || word == "linkdown" || word == "dead" || word == "pervasive") {
      r_flags[r, leg] = r_flags[r, leg] " " word
    } else if (word == "src" || word == "nhid" || word == "mtu" || word == "advmss") {
      r_more[r] = r_more[r] " " word " " $++field
    } else if (word != "offload" && word != "rt_offload" && word != "trap") r_more[r] = r_more[r] " " word
  }
  # What has no way shows a device in some versions of ip.
  if (r_type[r] >= BLACKHOLE) r_legs[r] = 0
}

function has_flag(r, leg, flag) { return index(r_flags[r, leg] " ", " " flag " ") > 0 }

# A leg of a route in the words of `ip`, without the state that the kernel shows.
function leg_text(r, leg) { return way_text(r_gateway[r, leg], r_dev[r, leg], has_flag(r, leg, "onlink")) }

function way_text(gateway, dev, onlink,   text) {
  if (gateway != "") text = "via " (index(gateway, ":") ? "inet6 " : "") gateway " "
  return text "dev " dev (onlink ? " onlink" : "")
}

function covers(r, address) { return r_net[r] <= address && address < r_net[r] + size[r_len[r]] }

# The link in the current line, such as "3: eth0@peer: <UP,…> … group 0 …".
function read_link(   name, field) {
  name = $2
  sub(/(@[^@]*)?:$/, "", name)
  link_name[++links] = name
  link_up[name] = index("," substr($3, 2, length($3) - 2) ",", ",UP,") > 0
  for (field = 4; field < NF; field++) if ($field == "group") { link_group[name] = $(field + 1); break }
}

# What the kernel is told about devices, which `ip` says last: a wary one is not used while it has no carrier.
function read_netconf(   field) {
  all_said = 1
  for (field = 3; field < NF; field++)
    if ($field == "ignore_routes_with_linkdown" && $(field + 1) == "on") wary[$2] = 1
}
