#!/bin/sh
# Give each interface the address that /etc/iotrial-net says for its hardware address, and wait for
# those that have not appeared yet.  No daemon, no DHCP: it takes milliseconds.
ip link set lo up
while read -r hardware address gateway; do
    tries=0
    while [ "$tries" -lt 200 ]; do
        for link in /sys/class/net/*; do
            [ "$(cat "$link/address")" = "$hardware" ] || continue
            ip address replace "$address" dev "${link##*/}"
            ip link set "${link##*/}" up
            [ -z "$gateway" ] || ip route replace default via "$gateway"
            continue 3
        done
        tries=$((tries + 1))
        sleep 0.1
    done
    echo "no interface $hardware appears" >&2
done </etc/iotrial-net
