# shellcheck shell=sh
# What the block layer is asked, by tracefs, in an instance that is ours alone.
#
# `unshare --mount sh -c TEXT iotrial-record VERB NAME …` (recorder.py): tracefs is mounted for this
# very command where it is not mounted on the host.
#
#   make NAME KIB FILTER EVENT…   an instance with a buffer of so many KiB for each CPU, which records
#                                 these events of the block layer where the filter holds; the formats
#                                 of a page and of each event are said
#   read NAME PAGE MOST           the pages that are there, at most so many of each CPU
#   stop NAME                     nothing more is recorded
#   stats NAME                    what was lost, for each CPU
#   remove NAME                   the instance is gone
#
# Asks for POSIX sh, coreutils and unshare (util-linux).

verb=$1
name=$2
root=/sys/kernel/tracing
here=$root/instances/$name

fail() {
    printf '%s\n' "$*" >&2
    exit 1
}

[ -d $root/events ] || mount -t tracefs none $root 2>/dev/null ||
    fail "tracefs cannot be mounted at $root"

make() {
    [ -d $root/instances ] || fail 'the kernel has no instances of its trace buffer (CONFIG_TRACING)'
    mkdir "$here" || fail "$here cannot be made"
    cd "$here" || fail "$here cannot be entered"
    echo 0 >tracing_on
    kib=$1
    filter=$2
    shift 2
    # The same clock on all CPUs.
    { echo mono >trace_clock && echo "$kib" >buffer_size_kb; } ||
        fail "the buffer of $here cannot have $kib KiB for each CPU"
    # From completion back: what is seen to begin is seen to end.
    for event; do
        [ -d "events/block/$event" ] || fail "the kernel has no event $event (CONFIG_BLK_DEV_IO_TRACE)"
        { echo "$filter" >"events/block/$event/filter" && echo 1 >"events/block/$event/enable"; } ||
            fail "event $event cannot be recorded"
    done
    cat $root/events/header_page
    for event; do cat "events/block/$event/format"; done
    cat events/ftrace/print/format
    echo 1 >tracing_on
    echo iotrial >trace_marker
}

read_pages() {
    for each in "$here"/per_cpu/cpu*/trace_pipe_raw; do
        dd "if=$each" "bs=$1" "count=$2" iflag=nonblock 2>/dev/null
    done
    :
}

remove() {
    [ -d "$here" ] || return 0
    echo 0 >"$here/tracing_on"
    echo 0 >"$here/events/enable"
    rmdir "$here" || fail "$here cannot be removed"
}

case $verb in
    make) shift 2 && make "$@" ;;
    read) read_pages "$3" "$4" ;;
    stop) echo iotrial >"$here/trace_marker" && echo 0 >"$here/tracing_on" ;;
    stats) cat "$here"/per_cpu/cpu*/stats ;;
    remove) remove ;;
    *) fail "unknown verb $verb" ;;
esac
