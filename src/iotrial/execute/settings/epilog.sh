# shellcheck shell=sh disable=SC2154 # GUARD is set before this text
# Epilog: restores what a job left changed on the machine that this is executed on, as the guard
# does, which is its text GUARD (execute/settings/guard.py).  For Epilog= and EpilogSlurmctld= of
# slurm.conf(5); it needs nothing of iotrial's on the machine.
#
# Somebody who holds the lock is a run of another job, or the guard of this one: it is waited for, and
# then either everything is restored, or a run goes on whose own guard restores it.  Where something
# is still owed, it ends with 1, and Slurm drains the node.

lock=/run/iotrial/lock
folder=/var/lib/iotrial/journal.d
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin
export PATH

owing() {
    set -- "$folder"/*.journal
    [ -e "$1" ]
}

owing || exit 0
[ -d "${lock%/*}" ] || mkdir -m 700 "${lock%/*}" || exit
: >>"$lock" || exit
flock -w 90 "$lock" true || exit 0
for journal in "$folder"/*.journal; do
    [ ! -e "$journal" ] || sh -c "$GUARD" iotrial-guard "$journal" "$lock" 0 </dev/null >/dev/null
done
owing || exit 0
echo "iotrial: settings are left to restore on $(uname -n): iotrial status" >&2
exit 1
