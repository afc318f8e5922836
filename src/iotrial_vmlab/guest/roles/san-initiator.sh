# shellcheck shell=sh
# An initiator of the lab `san`: logged in on both portals of the target, and multipathd has made one
# map of the two paths.
# Sources: iscsiadm(8), multipathd(8).

start() {
    systemctl start iscsid.service multipathd.service
    # Not by discovery, which needs the target to be there already: a login is tried again.
    for portal in $PORTALS; do
        iscsiadm -m node -T "$IQN" -p "$portal" -o new >/dev/null
        systemd-run --quiet --collect sh /etc/iotrial-lab login "$portal"
    done
}

login() {
    tries=0
    until iscsiadm -m node -T "$IQN" -p "$1" --login; do
        tries=$((tries + 1))
        [ "$tries" -le 60 ] || return 1
        sleep 1
    done
}

lacks() {
    sessions=$(find /sys/class/iscsi_session -name 'session*' 2>/dev/null | wc -l)
    wanted=$(echo "$PORTALS" | wc -w)
    paths=$(multipathd show paths raw format '%t %T' | grep -c '^active *ready')
    [ "$sessions" -eq "$wanted" ] || echo "there are $sessions of $wanted sessions"
    [ "$paths" -eq "$wanted" ] || echo "multipathd has $paths of $wanted paths ready"
}
