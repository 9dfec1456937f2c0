#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# PID 1 of the guest. Loads modules, puts a RAM overlay on the host's root, brings up the RDMA devices, runs one command there,
# tells its exit status and powers off. Talks to tests/guest/machine.py over three virtio ports: output, errors, and words about the
# run ("run", "note TEXT", "fail TEXT", "exit STATUS"). What belongs to one run is in /job, which that file writes too.

# shellcheck shell=dash source=/dev/null

/bin/busybox mkdir -p /dev /run
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev

end() {
  sync
  umount /guest/run/guest/out 2>/dev/null
  poweroff -f
  sleep 60
}

connected=
say() {
  if [ -n "$connected" ]; then echo "$*" >&3; else echo "guest: $*" >/dev/console; fi
}

fail() {
  say "fail $*"
  end
}

while read -r module; do
  parameter=
  [ "$module" != dummy.ko ] || parameter=numdummies=0  # hosts.sh makes the one it wants
  insmod "/boot/$module" ${parameter:+"$parameter"} || fail "kernel module $module does not load: $(dmesg | tail -n 1)"
done </boot/order
# The ports appear some moments after their driver.
tries=0
until [ -c /dev/vport0p1 ] && [ -c /dev/vport0p2 ] && [ -c /dev/vport0p3 ]; do
  [ $((tries += 1)) -le 100 ] || fail "there are no virtio ports to the host"
  sleep 0.1
done
exec 3>/dev/vport0p3
connected=yes

modules='' load='' out=''
. /job/settings

mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=loose,ro,noatime host /host || fail "the host's root does not mount"
mount -t tmpfs -o mode=755 overlay /overlay
mkdir /overlay/upper /overlay/work
mount -t overlay -o lowerdir=/host,upperdir=/overlay/upper,workdir=/overlay/work guest /guest || fail "no overlay on the host's root"

# More modules come from the cache on the host, for modprobe inside, and for the kernel itself.
mount -o bind "/host$modules" "/lib/modules/$(uname -r)" || fail "the kernel's modules are not visible in the guest"
mkdir -p "/guest/lib/modules/$(uname -r)"
mount -o bind "/host$modules" "/guest/lib/modules/$(uname -r)"
for module in $load; do
  problem=$(modprobe "$module" 2>&1) || fail "kernel module $module does not load: $problem"
done

cd /guest || fail "/guest is gone"
mount -t proc proc proc
mount --bind /dev/null proc/kallsyms  # libfabric's verbs provider reads all of it at each start, which takes seconds here
mount -t sysfs sys sys
mount -t devtmpfs dev dev
ln -s /proc/self/fd dev/fd
ln -s fd/0 dev/stdin
ln -s fd/1 dev/stdout
ln -s fd/2 dev/stderr
mkdir -p dev/shm dev/pts
mount -t tmpfs -o mode=1777 shm dev/shm
mount -t devpts -o gid=5,mode=620,ptmxmode=666 pts dev/pts
mount -t tmpfs -o mode=755 run run
mkdir -p run/guest/out run/lock
cp -r /job/. run/guest/
modprobe configfs 2>/dev/null && mount -t configfs config sys/kernel/config
if [ "$out" = yes ]; then
  mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=mmap out run/guest/out || fail "the shared directory does not mount"
fi
hostname guest
ip link set lo up
ulimit -l unlimited
ulimit -c 0
ulimit -n 65536

chroot /guest /bin/sh /run/guest/hosts.sh >&3 2>/run/hosts.err || fail "the RDMA devices do not come up: $(tail -n 1 /run/hosts.err)"

# By way of pipes, because a port can be opened only once, and programs may open /dev/stdout again.
mkfifo /run/output /run/errors
cat /run/output >/dev/vport0p1 &
output=$!
cat /run/errors >/dev/vport0p2 &
errors=$!
say run
chroot /guest /bin/sh /run/guest/job.sh </dev/null >/run/output 2>/run/errors 3>&-
status=$?

# What the command left running would hold its output open.
for process in /proc/[0-9]*; do
  case " 1 $output $errors " in
    *" ${process#/proc/} "*) ;;
    *) kill -9 "${process#/proc/}" ;;
  esac
done 2>/dev/null
wait "$output" "$errors"
say "exit $status"
end
