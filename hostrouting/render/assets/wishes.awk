# The static routes that are wanted: as the settings have them, and what each comes to on this host, given its default
# routes.

function value_of(word) { return substr(word, index(word, "=") + 1) }

function want(destination, gateway, dev, metric) {
  wishes++
  w_destination[wishes] = destination
  w_gateway[wishes] = value_of(gateway); w_dev[wishes] = value_of(dev); w_metric[wishes] = value_of(metric)
  read_prefix(destination)
  w_net[wishes] = network; w_len[wishes] = prefix_length
  wanted_prefix[destination] = 1
  if (prefix_length == 32) return
  wanted_prefix[prefix_text(network, prefix_length + 1)] = 1
  wanted_prefix[prefix_text(network + size[prefix_length + 1], prefix_length + 1)] = 1
}

# Of a hundred thousand routes, those that could matter: default routes, ours, those that lead to neighbours, and those
# that hold a prefix that is wanted, or one of its halves.
function is_of_interest() {
  return $2 == "default" || index($0, " proto " ours " ") || is_near() \
    || ((index($2, "/") ? $2 : $2 "/32") in wanted_prefix)
}

# --- What a wish comes to.

function wish_text(w) {
  return w_destination[w] (w_gateway[w] == "" ? "" : " via " w_gateway[w]) (w_dev[w] == "" ? "" : " dev " w_dev[w]) \
    (w_metric[w] == 0 ? "" : " metric " w_metric[w])
}

# The legs that a wish comes to, given the default route: sets legs[w], through[w], g_words and g_weight; 0, and what is
# missing, when the host is not ready for it.
function resolve(w,   d, leg, ways) {
  legs[w] = through[w] = 0
  missing = ""
  d = default_route(w_dev[w], ours)
  if (w_gateway[w] != "") return resolve_gateway(w, d)
  for (leg = 1; d && leg <= r_legs[d]; leg++) ways += is_way(d, leg, w_dev[w])
  for (leg = 1; d && leg <= r_legs[d]; leg++) if (is_way(d, leg, w_dev[w]))
    # One leg alone has no weight.
    add_leg(w, r_dev[d, leg], r_gateway[d, leg], has_flag(d, leg, "onlink"), ways > 1 ? r_weight[d, leg] : 1)
  if (!d) missing = no_default_route(w_dev[w])
  return missing == ""
}

# The default gateway spelled out is the default gateway: on-link where the default route says so.
function resolve_gateway(w, d,   leg, dev) {
  leg = same_way(d, w_dev[w], w_gateway[w])
  if (leg) add_leg(w, r_dev[d, leg], w_gateway[w], has_flag(d, leg, "onlink"), 1)
  else if (w_dev[w] != "") add_leg(w, w_dev[w], w_gateway[w], 0, 1)
  else if (d) {
    dev = r_dev[d, 1]
    for (leg = r_legs[d]; leg >= 1; leg--) if (reaches(r_dev[d, leg], address_number(w_gateway[w]))) dev = r_dev[d, leg]
    add_leg(w, dev, w_gateway[w], 0, 1)
  } else missing = no_default_route("")
  return missing == ""
}

function add_leg(w, dev, gateway, onlink, weight) {
  if (missing == "") missing = obstacle(dev, gateway, onlink)
  if (missing != "") { through[w] = 0; return }
  legs[w]++
  g_dev[w, legs[w]] = dev; g_words[w, legs[w]] = way_text(gateway, dev, onlink); g_weight[w, legs[w]] = weight
  if (gateway != "") through[w] = 1
}
