# shellcheck shell=sh
# A host of the lab `fabrics`: connected to the target on both its ports; the kernel has made one
# disk of the two paths.  A path that does not answer is given up after some seconds, and tried
# again for ten minutes.
# Sources: nvme-connect(1), Documentation/ABI/testing/sysfs-nvme.

start() {
    modprobe nvme_tcp
    # The target may not be there yet: each connection is tried again.
    for address in $ADDRESSES; do
        systemd-run --quiet --collect sh /etc/iotrial-lab join "$address"
    done
}

join() {
    tries=0
    until nvme connect -t tcp -a "$1" -s "$TRSVCID" -n "$NQN" \
        --keep-alive-tmo=3 --reconnect-delay=2 --ctrl-loss-tmo=600; do
        tries=$((tries + 1))
        [ "$tries" -le 60 ] || return 1
        sleep 1
    done
}

lacks() {
    wanted=$(echo "$ADDRESSES" | wc -w)
    live=$(grep -lsx live /sys/class/nvme/nvme*/state | wc -l)
    [ "$live" -eq "$wanted" ] || echo "there are $live of $wanted connections"
    paths=$(find /sys/block -name 'nvme*c*n1' | wc -l)
    [ "$paths" -eq "$wanted" ] || echo "the disk has $paths of $wanted paths"
}
