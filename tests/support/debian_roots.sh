#!/bin/bash
# Makes a root of each Debian release that is named, once, for `make matrix`: debian_roots.sh DIRECTORY RELEASE...
set -euo pipefail
directory=$1
mkdir -p "$directory"
for release in "${@:2}"; do
  [[ -d $directory/$release ]] && continue
  echo "making a root of Debian $release, once"
  rm -rf "$directory/new"
  debootstrap --variant=minbase \
    --include=systemd,systemd-sysv,systemd-container,dbus,iproute2,mawk,nftables,procps,python3 \
    "$release" "$directory/new" >"$directory/$release.log"
  mv "$directory/new" "$directory/$release" # whole, or not there
done
