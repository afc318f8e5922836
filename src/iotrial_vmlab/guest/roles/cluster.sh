# shellcheck shell=sh
# A node of the lab `cluster`: corosync, dlm, O2CB and lvmlockd run, and all nodes have met.
# Sources: corosync-quorumtool(8), dlm_tool(8), o2cb(8), lvmlockd(8).

start() {
    systemctl start corosync.service
    systemctl start dlm.service
    systemctl start --no-block lvmlockd.service
    modprobe -a ocfs2_stack_o2cb ocfs2_dlmfs
    echo o2cb >/sys/fs/ocfs2/cluster_stack
    [ -d /sys/kernel/config/cluster/iotrial ] || o2cb register-cluster iotrial
}

lacks() {
    found=$(dlm_tool status 2>/dev/null)
    joined=$(echo "$found" | grep -c '^node [0-9]* M')
    seen=$(find /dev/disk/by-id -name 'scsi-0QEMU_QEMU_HARDDISK_*' ! -name '*-part*' | wc -l)
    case $found in
        *"quorate 1"*) ;;
        *) echo "dlm is not quorate" ;;
    esac
    [ "$joined" -eq "$NODES" ] || echo "dlm has $joined of $NODES nodes"
    [ "$seen" -eq "$DISKS" ] || echo "there are $seen of $DISKS disks"
    [ -d /sys/kernel/config/cluster/iotrial ] || echo "O2CB has no cluster"
    systemctl --quiet is-active lvmlockd.service || echo "lvmlockd does not run"
}
