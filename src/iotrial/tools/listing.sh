#!/bin/sh
# One execution of iotrial's load `listing`: makes entries in a folder that iotrial has made for it
# (and removes, if this is killed), times passes over them, and removes them.  POSIX sh, coreutils,
# findutils.
#
#   listing.sh FOLDER ENTRIES WHAT CACHE PASSES
#
# Prints one line for each step: what it was, how many entries, nanoseconds.
set -eu

folder=$1/entries entries=$2 what=$3 cache=$4 passes=$5

say() { printf '%s\n' "listing: $*" >&2; }

now() {
    ns=$(date +%s%N)
    case $ns in
        *[!0-9]*)
            say "date here knows no nanoseconds: GNU coreutils are needed"
            exit 1
            ;;
    esac
}

if [ -e "$folder" ] || [ -L "$folder" ]; then
    say "$folder is there already"
    exit 1
fi
# Before it is made: a signal right after would find nothing that removes it.
trap 'cd /; rm -rf -- "$folder"' EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
trap 'exit 129' HUP
mkdir -- "$folder"
cd -- "$folder"

# ls is what is measured, so ls it is.
# shellcheck disable=SC2010,SC2012
pass() {
    case $what in
        ls) ls | wc -l ;;
        find) find . -type f | wc -l ;;
        ls-l) ls -l | grep -c '^-' ;;
        stat) find . -type f -printf '%s %b\n' | wc -l ;;
    esac
}

# Drops what the kernel keeps of names, inodes and pages, and says how many names it kept before
# and after: a cache that was not emptied is no cold one.  cut, since a sysctl must be read at once
# and the shell's own `read` reads byte by byte.
drop() {
    sync
    before=$(cut -f 1 /proc/sys/fs/dentry-state)
    if ! (echo 3 >/proc/sys/vm/drop_caches) 2>/dev/null; then
        say "the caches cannot be dropped: be root on the machine itself, or take cache = \"warm\""
        exit 1
    fi
    after=$(cut -f 1 /proc/sys/fs/dentry-state)
    echo "drop $before $after"
}

echo "listing 1 $what $cache $entries $passes"
now
from=$ns
seq -f 'entry-%08.0f' 1 "$entries" | xargs touch --
now
echo "create $entries $((ns - from))"
[ "$cache" = cold ] || pass >/dev/null
done=0
while [ "$done" -lt "$passes" ]; do
    [ "$cache" = warm ] || drop
    now
    from=$ns
    seen=$(pass)
    now
    echo "pass $((seen)) $((ns - from))"
    done=$((done + 1))
done
now
from=$ns
cd /
rm -rf -- "$folder"
now
echo "delete $entries $((ns - from))"
echo end
