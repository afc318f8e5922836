# shellcheck shell=sh disable=SC2154,SC2034 # the rest of the guard is in guard.sh
# Debris: what iotrial made on a host, and how each kind of it is removed again.  The twin of
# execute/settings/debris.py, for sh; a part of the guard (guard.sh), with whose words it is written.

# unmake made KIND NAME=VALUE …
unmake() {
    kind=$2
    shift 2
    case $kind in
        file) unmake_file "$@" ;;
        loop) unmake_loop "$@" ;;
        folder) unmake_folder "$@" ;;
        tree) unmake_tree "$@" ;;
        mount) unmake_mount "$@" ;;
        command) numbered unmake_command "$@" ;;
        process) unmake_process "$@" ;;
        by-hand)
            given was "$@"
            was=$VALUE
            given name "$@"
            name=$VALUE
            numbered unmake_by_hand "$@"
            ;;
        *) tell owed "$kind: unknown kind of entry in this guard" ;;
    esac
}

# given NAME NAME=VALUE …: VALUE.
given() {
    name=$1
    shift
    VALUE=
    for word; do
        case $word in "$name="*)
            VALUE=${word#*=}
            return
            ;;
        esac
    done
    return 1
}

# need NAME NAME=VALUE …: the same, of what must be there.
need() {
    given "$@" && [ -n "$VALUE" ] && return
    tell owed "$kind: the journal does not name it: no $1"
    return 1
}

# numbered VERB NAME=VALUE …: the verb gets the values whose names are numbers.
numbered() {
    verb=$1
    shift
    for word; do
        shift
        case ${word%%=*} in '' | *[!0-9]*) ;; *) set -- "$@" "${word#*=}" ;; esac
    done
    "$verb" "$@"
}

# One in a folder of iotrial's own has no ground to say.
unmake_file() {
    need file "$@" || return
    file=$VALUE
    ground "$@"
    [ -z "$point" ] || grounded "file $file" || return
    [ -e "$file" ] || [ -h "$file" ] || return
    if drop "$file"; then tell file "$file"; else tell owed "file $file: it stays"; fi
}

# ground NAME=VALUE …: what a plan says of the folder that something was made in.
ground() {
    given below "$@"
    below=$VALUE
    given inode "$@"
    inode=$VALUE
    given on "$@"
    point=$VALUE
}

# grounded WHAT: is that folder the one that it was (execute/grounds.py)?  Else it is told; where the
# folder is gone, so is what was in it.  What had been mounted is not mounted again here: a restore
# does that.
grounded() {
    mounted
    if [ "$sources" = "$nl" ]; then
        tell owed "$1: $point, the mount point of it, is not mounted"
        return 1
    fi
    take '' stat -c %i -- "$below"
    case $? in
        0) ;;
        2) return 1 ;;
        *)
            tell owed "$1: $below cannot be read"
            return 1
            ;;
    esac
    now=$RAW
    if ! take '' readlink -e -- "$below" || [ "$RAW" != "$below$nl" ]; then
        tell owed "$1: the path of $below now contains a link"
        return 1
    fi
    [ -z "$inode" ] || [ "$now" = "$inode$nl" ] && return
    tell owed "$1: $below is now another folder"
    return 1
}

unmake_folder() {
    need folder "$@" || return
    place=$VALUE
    [ -d "$place" ] || return
    for _ in $tries; do
        run rmdir -- "$place" && break
        nap
    done
    if [ -d "$place" ]; then
        tell owed "folder $place: it is not empty, or in use"
    else
        tell folder "$place"
    fi
}

# A folder with contents: only one that is surely ours (execute/trees.py).
unmake_tree() {
    ground "$@"
    given mark "$@"
    meant=$VALUE
    given tree "$@"
    place=$VALUE
    if why=$(unsound); then
        tell owed "tree $place: $why"
        return
    fi
    grounded "tree $place" || return
    take '' stat -c %F -- "$place"
    case $? in
        0) remove_tree "$RAW" ;;
        2) ;;
        *) tell owed "tree $place: it cannot be read" ;;
    esac
}

unsound() {
    case $place/ in
        [!/]* | *//* | */./* | */../*) echo 'no plain absolute path' && return ;;
    esac
    case $below in /*) ;; *) echo 'not below anything' && return ;; esac
    case $place in "${below%/}"/?*) ;; *) echo "not below $below" && return ;; esac
    [ -z "$meant" ] || [ -z "$point" ] || return
    echo 'its kind is unknown'
}

# remove_tree KIND: the mark goes last but for the folder.
remove_tree() {
    if [ "$1" != "directory$nl" ] || ! take '' readlink -e -- "$place" ||
        [ "$RAW" != "$place$nl" ]; then
        tell owed "tree $place: no longer a folder, or its path contains a link"
        return
    fi
    if holds_mount; then
        tell owed "tree $place: it contains a mount point"
        return
    fi
    mark=$place/made-by-iotrial
    if [ -f "$mark" ] && [ ! -h "$mark" ] && take "$mark" && [ "$RAW" = "$meant" ]; then
        # Longer than other commands: it may hold millions.
        timeout -s KILL 3600 rm -rf --one-file-system -- "$place/data" 9>&-
        [ -e "$place/data" ] || [ -h "$place/data" ] || drop "$mark"
    else
        drop "$place/.made-by-iotrial.new"
    fi
    run rmdir -- "$place"
    if [ -d "$place" ]; then
        tell owed "tree $place: it is not empty, or in use"
    else
        tell folder "$place"
    fi
}

holds_mount() {
    while IFS= read -r line; do
        # shellcheck disable=SC2086 # proc_pid_mountinfo(5): fields, with blanks in them as \040
        set -- $line
        case $(printf '%b' "$5")/ in "$place"/*) return ;; esac
    done </proc/self/mountinfo
    return 1
}

unmake_command() {
    if run "$@"; then
        tell command "$*"
    else
        tell owed "command $*: exit status $?"
    fi
}

# Only a person can set it back; perhaps it stands as it was.
unmake_by_hand() {
    RAW=$(run "$@") && pick text '' && [ "$VALUE" = "$was" ] && return
    tell owed "by hand: $name: only an operator can set it back"
}

unmake_process() {
    given word "$@"
    meant=$VALUE
    need pidfile "$@" || return
    file=$VALUE
    if [ -z "$meant" ]; then
        tell owed "process of $file: no process id"
        return
    fi
    pid=
    read -r pid <"$file"
    case $pid in '' | *[!0-9]*) ;; *) end_process ;; esac
    drop "$file"
}

end_process() {
    is_meant || return
    for sign in TERM KILL; do
        kill -s "$sign" "$pid"
        for _ in $tries $tries; do
            is_meant || {
                tell process "$pid ($meant)"
                return
            }
            nap
        done
    done
    tell owed "process $pid ($meant): it does not terminate"
}

is_meant() {
    case $(run tr '\0' ' ' <"/proc/$pid/cmdline") in *"$meant"*) ;; *) false ;; esac
}

unmake_mount() {
    need point "$@" || return
    point=$VALUE
    need source "$@" || return
    from=$VALUE
    did=
    for _ in $tries; do
        mounted
        case $sources in
            *"$nl$from$nl"*) ;;
            *)
                [ -z "$did" ] || tell mount "$from on $point"
                return
                ;;
        esac
        [ "$top" = "$from" ] || break
        if run umount "$point"; then did=1; else nap; fi
    done
    tell owed "mount of $from on $point: in use, or mounted over"
}

# What is mounted on `point`: `sources`, and the `top` of them, which is no other's parent.
mounted() {
    sources=$nl
    over=' '
    top=
    while IFS= read -r line; do
        # shellcheck disable=SC2086 # proc_pid_mountinfo(5): fields, with blanks in them as \040
        set -- $line
        [ "$(printf '%b' "$5")" = "$point" ] || continue
        over="$over$2 "
    done </proc/self/mountinfo
    while IFS= read -r line; do
        # shellcheck disable=SC2086
        set -- $line
        [ "$(printf '%b' "$5")" = "$point" ] || continue
        id=$1
        while [ "${1--}" != - ]; do shift; done
        each_source=$(printf '%b' "${3-}")
        sources=$sources$each_source$nl
        case $over in *" $id "*) ;; *) top=$each_source ;; esac
    done </proc/self/mountinfo
}

unmake_loop() {
    need file "$@" || return
    file=$VALUE
    need number "$@" || return
    loop=$VALUE
    name=${file##*/}
    case $loop:$name in
        *[!0-9]*:*) name= ;;
        *:iotrial-*.img)
            name=${name#iotrial-}
            name=${name%.img}
            ;;
        *) name= ;;
    esac
    case $name in
        '' | *[!A-Za-z0-9_-]*)
            tell owed "loop $file: not a file created by iotrial"
            return
            ;;
    esac
    for number in $(attached); do
        run losetup -d "/dev/loop$number"
        tell 'loop device' "/dev/loop$number with $file"
    done
    for _ in $tries; do
        [ -n "$(attached)" ] || break
        nap
    done
    if [ -n "$(attached)" ]; then
        tell owed "loop $file: /dev/loop$(attached) is still open"
        return
    fi
    give_back
    if given on "$@"; then
        point=$VALUE
        mounted
        if [ "$sources" = "$nl" ]; then
            tell owed "loop $file: $point, the mount point of it, is not mounted"
            return
        fi
    fi
    [ ! -e "$file" ] || drop "$file" || tell owed "file $file: it stays"
    [ "${file%/*}" != "${folder%/*}/files" ] || run rmdir -- "${file%/*}"
}

# The numbers of the loop devices whose file is `file`.
attached() {
    set +f
    for each in /sys/block/loop*/loop/backing_file; do
        IFS= read -r line <"$each" || continue
        [ "${line%' (deleted)'}" = "$file" ] || continue
        each=${each#/sys/block/loop}
        echo "${each%%/*}"
    done
    set -f
}

# The number goes back to the kernel (LOOP_CTL_REMOVE), unless somebody uses it by now.
give_back() {
    [ -e "/sys/block/loop$loop" ] || return
    ! read -r line <"/sys/block/loop$loop/loop/backing_file" || return
    # shellcheck disable=SC2016 # Perl's variables
    run perl -e 'open(F,"+<","/dev/loop-control") or exit 1;
        defined(ioctl(F,0x4C81,$ARGV[0]+0)) or exit 1' "$loop" ||
        run python3 -c 'import fcntl,sys
fcntl.ioctl(open("/dev/loop-control","r+b",buffering=0),0x4C81,int(sys.argv[1]))' "$loop" ||
        tell note "left the unused node /dev/loop$loop"
}
