#!/bin/busybox sh
# shellcheck shell=sh
# The first stage of a lab's node: load what the root disk needs, put the node's own files on it at
# its first boot, and hand over to systemd.  With iotrial.probe on the kernel's command line it only
# says that a kernel runs, and ends: so it is found out whether an accelerator can be used.
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
exec >/dev/console 2>&1 </dev/null

if grep -q iotrial.probe /proc/cmdline; then
    echo "iotrial: a kernel runs"
    sleep 0.1
    poweroff -f
fi

while read -r module; do
    insmod "/modules/$module" || echo "iotrial: $module cannot be loaded"
done </modules/order

root=
tries=0
while [ -z "$root" ]; do
    for disk in /sys/block/vd*; do
        [ "$(cat "$disk/serial" 2>/dev/null)" = iotrial-root ] && root=/dev/${disk##*/}
    done
    tries=$((tries + 1))
    if [ "$tries" -gt 200 ]; then
        echo "iotrial: the root disk does not appear"
        poweroff -f
    fi
    [ -n "$root" ] || sleep 0.1
done

mount -t ext4 -o rw "$root" /new || {
    echo "iotrial: the root disk cannot be mounted"
    poweroff -f
}
if [ ! -e /new/etc/iotrial-node ]; then
    cp -a /seed/. /new/
    sync
    echo seeded >/new/etc/iotrial-node
    sync
fi
umount /proc /sys
mount --move /dev /new/dev
exec switch_root /new /lib/systemd/systemd
