# shellcheck shell=sh
# The server of the lab `nas`: a file system on its disk, exported to the lab's network by the
# kernel's NFS server.
# Sources: exports(5), nfs.conf(5).

disk=/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_$SERIAL

start() {
    udevadm wait --timeout=600 "$disk"
    blkid "$disk" >/dev/null || mkfs.ext4 -q "$disk"
    mkdir -p "$EXPORT"
    mountpoint -q "$EXPORT" || mount "$disk" "$EXPORT"
    systemctl start nfs-server.service
}

lacks() {
    mountpoint -q "$EXPORT" || echo "$EXPORT is not mounted"
    exportfs -s 2>/dev/null | grep -q "^$EXPORT " || echo "$EXPORT is not exported"
    threads=$(cat /proc/fs/nfsd/threads 2>/dev/null)
    [ "${threads:-0}" -gt 0 ] || echo "nfsd has no threads"
}
