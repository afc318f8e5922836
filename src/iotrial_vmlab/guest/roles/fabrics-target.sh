# shellcheck shell=sh
# The target of the lab `fabrics`: one disk, exported by the kernel's own NVMe target on two ports,
# of two networks.  It is made in configfs directly, as nvmetcli does.
# Source: drivers/nvme/target/configfs.c of Linux 6.1.

disk=/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_$SERIAL
nvmet=/sys/kernel/config/nvmet
subsystem=$nvmet/subsystems/$NQN

start() {
    modprobe -a nvmet nvmet_tcp
    mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
    udevadm wait --timeout=600 "$disk"
    mkdir -p "$subsystem/namespaces/1"
    if [ "$(cat "$subsystem/namespaces/1/enable")" != 1 ]; then
        echo 1 >"$subsystem/attr_allow_any_host"
        echo "$SERIAL" >"$subsystem/attr_serial"
        echo "$disk" >"$subsystem/namespaces/1/device_path"
        echo "$NAMESPACE" >"$subsystem/namespaces/1/device_uuid"
        echo 1 >"$subsystem/namespaces/1/enable"
    fi
    number=0
    for address in $ADDRESSES; do
        number=$((number + 1))
        port=$nvmet/ports/$number
        mkdir -p "$port"
        [ ! -e "$port/subsystems/$NQN" ] || continue
        echo tcp >"$port/addr_trtype"
        echo ipv4 >"$port/addr_adrfam"
        echo "$address" >"$port/addr_traddr"
        echo "$TRSVCID" >"$port/addr_trsvcid"
        ln -s "$subsystem" "$port/subsystems/$NQN"
    done
}

lacks() {
    [ "$(cat "$subsystem/namespaces/1/enable" 2>/dev/null)" = 1 ] || echo "no namespace is enabled"
    number=0
    for address in $ADDRESSES; do
        number=$((number + 1))
        [ -e "$nvmet/ports/$number/subsystems/$NQN" ] || echo "there is no port $address"
    done
}
