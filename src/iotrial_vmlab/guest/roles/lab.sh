#!/bin/sh
# What a node of a lab is for.  Its role says how that is begun, and what is lacking yet.
#   start   begin it, at each boot; again where a step of it failed (a busy machine is late)
#   whole   wait for 20 s until nothing is lacking; else say on stderr what is, and fail
# shellcheck source=/dev/null
. /etc/iotrial-lab.conf
# shellcheck source=/dev/null
. /etc/iotrial-lab.role

whole() {
    tries=0
    while lacking=$(lacks) && [ -n "$lacking" ]; do
        tries=$((tries + 1))
        if [ "$tries" -gt 40 ]; then
            echo "$lacking" | paste -sd ',' >&2
            return 1
        fi
        sleep 0.5
    done
}

"$@"
