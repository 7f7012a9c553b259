#!/bin/bash
# Boots a real systemd on a throw-away copy of a tree of files, and boots it again whenever it reboots.
# Runs as the first process of its own mount and pid namespaces (see systemd.py); ends when the system is off.
#   boot_system.sh WORK GROUP VISIBLE TREE HIDDEN...
# WORK: an empty directory. GROUP: a name for the control group. VISIBLE: a directory to show live, at its own path.
# TREE: the root of the files, / for those of this host. HIDDEN: folders of the tree that the system does not have.
set -euo pipefail
work=$1 group=$2 visible=$3 tree=$4
shift 4

mount --make-rprivate /
mount -t tmpfs tmpfs "$work"
mkdir "$work"/{upper,work,root,seed}
# A test must not depend on how the tree's own systemd is set up, on its machines, or on what hostrouting or an agent has
# written into it. A device 0/0 in the upper directory is how an overlay hides a name, however much is below it.
set -- "$@" /var/lib/machines
mkdir -p "${@/#/"$work/upper"}"
rmdir "${@/#/"$work/upper"}"
for hidden in "$@"; do
  mknod "$work/upper$hidden" c 0 0
done
mount -t overlay overlay -o "lowerdir=$tree,upperdir=$work/upper,workdir=$work/work" "$work/root"
root=$work/root
mkdir -p "$root"/etc/systemd/{system,system.conf.d}
# systemd-nspawn itself reads settings of this host.
[[ ! -d /etc/systemd ]] || mount -t tmpfs tmpfs /etc/systemd

# They make units of what the tree's disks and kernel command line are: at each reload a dozen processes for nothing.
rm -rf "$root"/{usr,}/lib/systemd/system{,-environment}-generators
# Of what the tree's packages have systemd start, only the message bus, the journal and the folders that a boot creates are
# needed. At each reload, systemd reads every unit that one of its units names: all others, and those for disks, devices and
# rescue, which cannot work here, would take as long again.
units=$root/usr/lib/systemd/system
find "$units" -path '*.wants/*' ! -name 'dbus.*' ! -name 'systemd-journal*' ! -name systemd-tmpfiles-setup.service -delete
rm -rf "$units"/{emergency,initrd,rescue,systemd-fsck,systemd-udev}*
# A machine that is told to stop before its own systemd listens never hears it; the default is to wait 90 s for it.
printf '%s\n' '[Manager]' DefaultTimeoutStopSec=5s >"$root/etc/systemd/system.conf.d/test.conf"
: >"$root/etc/machine-id"
# It must not see the systemd of this host; a container may have none.
if [[ -d /run/systemd ]]; then mount -t tmpfs tmpfs /run/systemd; else mount -t tmpfs tmpfs /run; fi

umount --recursive /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p "/sys/fs/cgroup/$group"
echo $$ >"/sys/fs/cgroup/$group/cgroup.procs"

# The files of the test are laid over it by whoever started this, who says so with a line.
echo ready
read -r _

while :; do
  systemd-nspawn --quiet --register=no --keep-unit --link-journal=no --private-network --capability=all \
    --console=pipe -M sut -D "$root" --bind-ro="$visible" -b systemd.unit=multi-user.target systemd.log_color=0 \
    </dev/null >>"$work/console" 2>&1 && status=0 || status=$?
  # 133 is a reboot.
  [[ $status == 133 ]] || exit "$status"
done
