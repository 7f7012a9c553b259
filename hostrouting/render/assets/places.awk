# The expected CIDRs, and the places in them where the answer of the kernel can become another.

# The CIDRs in order, and the blocks that they make up together.
function take_cidrs(   i, j, keep) {
  for (i = 1; i <= cidrs; i++) {
    read_prefix(cidr_text[i])
    c_first[i] = network; c_length[i] = prefix_length
    for (j = i; j > 1 && c_first[j - 1] >= network; j--) {
      if (c_first[j - 1] == network && c_length[j - 1] <= prefix_length) break
      c_first[j] = c_first[j - 1]; c_length[j] = c_length[j - 1]
      c_first[j - 1] = network; c_length[j - 1] = prefix_length
    }
  }
  for (i = 1; i <= cidrs; i++) {
    c_last[i] = c_first[i] + size[c_length[i]] - 1
    if (blocks && c_first[i] <= b_last[blocks] + 1) {
      if (c_last[i] > b_last[blocks]) b_last[blocks] = c_last[i]
    } else {
      b_first[++blocks] = c_first[i]; b_last[blocks] = c_last[i]
    }
  }
}

# The first block that ends at the address or behind it; one more than there are when none does.
function block_at(address,   low, high, middle) {
  low = 1; high = blocks + 1
  while (low < high) {
    middle = int((low + high) / 2)
    if (b_last[middle] < address) low = middle + 1
    else high = middle
  }
  return low
}

function find_places(   i, r, n) {
  for (i = 1; i <= cidrs; i++) { add_place(c_first[i]); add_place(c_last[i] + 1) }
  for (i = 1; i <= rules; i++) if (u_low[i] >= 0) { add_place(u_low[i]); add_place(u_high[i] + 1) }
  # And where it begins or ends that an address is what it is, or that no static route may lead there.
  n = split("0 1 16777216 2130706432 2147483648 3758096384 4026531840 4294967295", by_address, " ")
  for (i = 1; i <= n; i++) add_place(by_address[i])
  for (r = 1; r <= routes; r++) { add_place(r_net[r]); add_place(r_net[r] + size[r_len[r]]) }
  sort(place, 1, places)
  for (i = n = 1; i <= places; i++) if (i == 1 || place[i] != place[i - 1]) {
    place_end[n - 1] = place[i] - 1
    place[n++] = place[i]
  }
  places = n - 1
}

# In the blocks, and where each of them has just ended.
function add_place(address,   b) {
  b = block_at(address - 1)
  if (b <= blocks && b_first[b] <= address) place[++places] = address
}

function sort(list, low, high,   i, j, middle, kept) {
  while (low < high) {
    middle = list[int((low + high) / 2)]
    i = low; j = high
    while (i <= j) {
      while (list[i] < middle) i++
      while (list[j] > middle) j--
      if (i <= j) { kept = list[i]; list[i++] = list[j]; list[j--] = kept }
    }
    if (j - low < high - i) { sort(list, low, j); low = i }
    else { sort(list, i, high); high = j }
  }
}

function is_expected_place(i,   b) {
  b = block_at(place[i])
  return b <= blocks && b_first[b] <= place[i]
}
