# shellcheck shell=sh
# The target of the lab `san`: one disk, exported by the kernel's own iSCSI target on two portals, of
# two networks.  It is made in configfs directly, as targetcli does, without Python's seconds.
# Source: Documentation/target/ and Documentation/ABI/testing/configfs-* of Linux 6.1.

disk=/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_$SERIAL
store=/sys/kernel/config/target/core/iblock_0/lun
group=/sys/kernel/config/target/iscsi/$IQN/tpgt_1

start() {
    modprobe -a target_core_mod target_core_iblock iscsi_target_mod
    mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
    udevadm wait --timeout=600 "$disk"
    mkdir -p "$store"
    if [ "$(cat "$store/enable")" != 1 ]; then
        echo "udev_path=$disk" >"$store/control"
        echo 1 >"$store/enable"
        echo "$SERIAL" >"$store/wwn/vpd_unit_serial"
    fi
    mkdir -p "$group/lun/lun_0"
    [ -e "$group/lun/lun_0/lun" ] || ln -s "$store" "$group/lun/lun_0/lun"
    echo 0 >"$group/attrib/authentication"
    echo 0 >"$group/attrib/demo_mode_write_protect"
    echo 1 >"$group/attrib/generate_node_acls"
    echo 1 >"$group/attrib/cache_dynamic_acls"
    for portal in $PORTALS; do
        mkdir -p "$group/np/$portal"
    done
    [ "$(cat "$group/enable")" = 1 ] || echo 1 >"$group/enable"
}

lacks() {
    [ "$(cat "$group/enable" 2>/dev/null)" = 1 ] || echo "the target is not enabled"
    for portal in $PORTALS; do
        [ -d "$group/np/$portal" ] || echo "there is no portal $portal"
    done
}
