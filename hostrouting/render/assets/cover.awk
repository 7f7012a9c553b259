# The puzzle behind a repair: the fewest prefixes that take all that is open and nothing that is kept; of as few, those
# that take the least besides, and of those the first in order.
#
# What is best below a prefix depends on what was chosen above it by one number only: the length of the longest chosen
# prefix around it. best() and those below set best_number (-1: impossible), best_taken and best_prefixes, in which
# every prefix is written with the same width so that text compares like numbers.

# The best choice in the block, for the zones that are in it.
function choose(net, length_) {
  forget()
  best(net, length_, 1, zone_count + 1, -1)
}

function forget(   key, i, n, length_, list, seen) {
  for (key in memo_number) { delete memo_number[key]; delete memo_taken[key]; delete memo_prefixes[key] }
  for (i = 1; i <= zone_count; i++) if (zone_kind[i] != "free" && !(zone_length[i] in seen)) {
    seen[zone_length[i]] = 1
    list[++n] = zone_length[i]
  }
  # Two lengths between which no zone makes a difference are one to the memory.
  for (length_ = -1; length_ <= 32; length_++) {
    alike[length_] = 0
    for (i = 1; i <= n; i++) if (list[i] <= length_) alike[length_]++
  }
}

function set_best(number, taken, prefixes) { best_number = number; best_taken = taken; best_prefixes = prefixes }

function best(net, length_, begin, end_, above,   key) {
  key = net SUBSEP length_ SUBSEP alike[above]
  if (key in memo_number) { set_best(memo_number[key], memo_taken[key], memo_prefixes[key]); return }
  best_anew(net, length_, begin, end_, above)
  memo_number[key] = best_number; memo_taken[key] = best_taken; memo_prefixes[key] = best_prefixes
}

function is_open(begin, end_, above,   i) {
  for (i = begin; i < end_; i++) if (zone_kind[i] == "open" && zone_length[i] > above) return 1
  return 0
}

function best_anew(net, length_, begin, end_, above,   i, number, taken, prefixes, until, since) {
  for (i = begin; i < end_; i++) if (zone_kind[i] == "keep" && zone_length[i] <= above) { set_best(-1, 0, ""); return }
  if (!is_open(begin, end_, above)) { set_best(0, 0, ""); return }
  best_with(net, length_, begin, end_, above)
  # One prefix that takes nothing besides is the best there is, and two halves that are open take two.
  if (length_ == 32 || (best_number == 1 && best_taken == 0)) return
  number = best_number; taken = best_taken; prefixes = best_prefixes
  split_zones(net, length_, begin, end_)
  until = split_until; since = split_since
  if (number == 1 && is_open(begin, until, above) && is_open(since, end_, above)) return
  best_below(net, length_, begin, end_, above)
  if (number < 0) return
  if (best_number < 0 || number < best_number || (number == best_number && (taken < best_taken \
      || (taken == best_taken && prefixes < best_prefixes)))) set_best(number, taken, prefixes)
}

# The best choice that the node itself is part of.
function best_with(net, length_, begin, end_, above,   i, takes, taken, last) {
  last = net + size[length_] - 1
  for (i = begin; i < end_; i++) {
    if (zone_kind[i] == "open" && zone_length[i] > above && zone_length[i] <= length_) takes = 1
    if (zone_kind[i] == "keep" && zone_length[i] <= length_) { set_best(-1, 0, ""); return }
    if (zone_kind[i] == "free") taken += lower(zone_last[i], last) - higher(zone_first[i], net) + 1
  }
  if (!takes || !is_usable(net, length_)) { set_best(-1, 0, ""); return }
  if (is_open(begin, end_, length_)) best_below(net, length_, begin, end_, length_)
  else set_best(0, 0, "")
  if (best_number < 0) return
  set_best(best_number + 1, best_taken + taken, chosen(net, length_) best_prefixes)
}

# The best choice among the longer prefixes in the node.
function best_below(net, length_, begin, end_, above,   until, since, number, taken, prefixes) {
  if (length_ == 32) { set_best(-1, 0, ""); return }
  split_zones(net, length_, begin, end_)
  until = split_until; since = split_since
  best(net, length_ + 1, begin, until, above)
  if (best_number < 0) return
  number = best_number; taken = best_taken; prefixes = best_prefixes
  best(net + size[length_ + 1], length_ + 1, since, end_, above)
  if (best_number >= 0) set_best(number + best_number, taken + best_taken, prefixes best_prefixes)
}

# The zones of the left half end before split_until, those of the right begin at split_since.
function split_zones(net, length_, begin, end_,   middle, low, high, half) {
  middle = net + size[length_ + 1]
  low = begin; high = end_
  while (low < high) {
    half = int((low + high) / 2)
    if (zone_last[half] < middle) low = half + 1
    else high = half
  }
  split_since = low
  split_until = low + (low < end_ && zone_first[low] < middle)
}

# --- A chosen prefix, as it is written in best_prefixes.

function chosen(net, length_) { return sprintf("%010.0f/%02d ", net, length_) }

function chosen_network(text) { return substr(text, 1, 10) + 0 }

function chosen_length(text) { return substr(text, 12) + 0 }
