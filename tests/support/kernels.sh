#!/bin/bash
# Runs tests on another kernel, in an emulated machine, which needs no KVM: kernels.sh DIRECTORY KERNEL ARGUMENT...
# The arguments are pytest's. The machine has Debian 12 in its memory, with what the tests need. The kernels are Ubuntu's,
# in versions that stay in its archive. What is downloaded is made once.
set -euo pipefail
directory=$1 kernel=$2
shift 2
declare -A versions=([5.15]=5.15.0-139-generic [6.8]=6.8.0-31-generic)
root=$directory/root
mkdir -p "$directory"

pack() { # DIRECTORY FILE: its files, as Linux unpacks them into memory
  (cd "$1" && find . | cpio --quiet --create --format=newc) >"$2.new"
  mv "$2.new" "$2" # whole, or not there
}

if [[ ! -e $root.cpio ]]; then
  echo 'making the files of the machine, once'
  rm -rf --one-file-system "$root"
  cp -a .cache/roots/bookworm "$root"
  chroot "$root" sh -c 'apt-get -qq update && apt-get -qq -o Dpkg::Use-Pty=0 install --yes iptables kmod netbase' >/dev/null
  packages=$root/usr/lib/python3/dist-packages
  echo /hostrouting >"$packages/hostrouting.pth"
  printf '#!/usr/bin/python3\nfrom hostrouting.__main__ import run\nraise SystemExit(run())\n' >"$root/usr/bin/hostrouting"
  chmod 755 "$root/usr/bin/hostrouting"
  # Debian 12 has older ones.
  pip install --quiet --root-user-action ignore --target "$packages" --python-version 3.11 --only-binary :all: \
    argcomplete attrs hypothesis pyroute2 'pytest>=9.1' pytest-xdist rich syrupy
  rm -rf "$root"/usr/share/{doc,locale,man} "$root"/var/cache/apt/*.bin "$root"/var/lib/apt/lists/*_*
  keyring=usr/share/keyrings/ubuntu-archive-keyring.gpg
  cp ".cache/roots/keys/$keyring" "$root/$keyring"
  printf "deb [signed-by=/$keyring] http://archive.ubuntu.com/ubuntu %s main\n" focal-updates noble \
    >"$root/etc/apt/sources.list"
  pack "$root" "$root.cpio"
fi

if [[ ! -e $directory/$kernel.cpio ]]; then
  echo "getting Linux $kernel, once"
  chroot "$root" bash -euo pipefail -s "${versions[$kernel]}" <<'END'
    rm -rf /linux
    install --directory --owner _apt /linux
    cd /linux
    apt-get -qq update
    apt-get -qq download "linux-image-$1" "linux-modules-$1" "linux-modules-extra-$1"
    for package in *.deb; do
      dpkg-deb --extract "$package" .
    done
    cd "lib/modules/$1/kernel"
    rm -rf sound drivers/[!n]* drivers/net/{ethernet,wireless} fs # what no test needs
    depmod --basedir /linux "$1"
    mkdir -p /linux/files/usr
    mv /linux/lib /linux/files/usr
END
  cp "$root/linux/boot/vmlinuz-${versions[$kernel]}" "$directory/$kernel.vmlinuz"
  pack "$root/linux/files" "$directory/$kernel.cpio"
fi

files=$directory/files
rm -rf "$files"
mkdir -p "$files"
git ls-files -z | tar --create --null --files-from - --transform 's,^,hostrouting/,' | tar --extract --directory "$files"
cat >"$files/init" <<END
#!/bin/bash
# Linux starts this. No mount namespace can leave Linux's first root, so the root is mounted over it.
mount --bind / /mnt && cd /mnt && mount --move . / && exec chroot . /tests
END
cat >"$files/tests" <<END
#!/bin/bash
export PATH=/usr/sbin:/usr/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir /dev/{pts,shm}
ln -s /proc/self/fd /dev/fd
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
ip link set lo up
cd /hostrouting
HYPOTHESIS_PROFILE=few python3 -m pytest -n 2 --color=no ${*@Q} </dev/null && echo 'all passed'
echo o >/proc/sysrq-trigger
sleep 60
END
chmod 755 "$files"/{init,tests}
pack "$files" "$files.cpio"
cat "$root.cpio" "$directory/$kernel.cpio" "$files.cpio" >"$directory/initrd"
qemu-system-x86_64 -accel tcg,thread=multi -smp 2 -cpu max,la57=off -m 4096 -nographic -nodefaults -serial stdio -no-reboot \
  -kernel "$directory/$kernel.vmlinuz" -initrd "$directory/initrd" \
  -append 'console=ttyS0 panic=-1 quiet mitigations=off' </dev/null | tee "$directory/$kernel.log"
grep --quiet '^all passed' "$directory/$kernel.log"
