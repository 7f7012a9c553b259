#!/bin/bash
# Makes a root of each Debian release that is named, for `make releases`: debian_roots.sh DIRECTORY RELEASE...
# Each is made once, and again when the list of packages changes. A debootstrap that was killed leaves file systems
# mounted: nothing in them is deleted.
set -euo pipefail
directory=$1
packages=systemd,systemd-sysv,systemd-container,dbus,iproute2,libpam-systemd,nftables,procps,python3
mkdir -p "$directory"
for release in "${@:2}"; do
  [[ -d $directory/$release && $(cat "$directory/$release.packages" 2>/dev/null) == "$packages" ]] && continue
  echo "making a root of Debian $release, once"
  rm -rf --one-file-system "$directory/new"
  if ! debootstrap --variant=minbase --include="$packages" "$release" "$directory/new" >"$directory/$release.log" 2>&1
  then
    tail -n 3 "$directory/$release.log" >&2
    exit 1
  fi
  rm -rf --one-file-system "${directory:?}/$release"
  mv "$directory/new" "$directory/$release" # whole, or not there
  echo "$packages" >"$directory/$release.packages"
done
