# shellcheck shell=sh disable=SC2154 # pick_* are in picks.sh
# Guard: restores the host it runs on when the controller dies or goes out of reach.
#
# A text, not a program: behind hosts/picks.sh and debris.sh it is what `sh -c TEXT iotrial-guard
# JOURNAL LOCK LEASE` runs (execute/guard.py).  It says `ready`, then reads lines: `.` is a sign of
# life, `done` ends it.  At the end of its input, or when LEASE seconds pass without a line (0: no
# lease), it pays what JOURNAL says is owed, as execute/restore.py would, and leaves beside it a
# report for whoever comes next.  What it reads is data: nothing of it is ever evaluated.
#
# Asks for POSIX sh with sed, coreutils (8.24: sync FILE), flock, and for loop devices losetup with perl or
# python3.  In the environment IOTRIAL_FENCE may be a word: processes that have IOTRIAL_AGENT=WORD in
# theirs must be dead before anything is put back.  They are the controller's shell on this host and
# whatever it forked.  Without it, the controller is the parent of this guard.  IOTRIAL_OUTSIDE: they
# are in a container, and this guard is not; the numbers of processes in there are others than here.

journal=$1
lock=$2
lease=$3
folder=${journal%/*}
token=${journal##*/}
token=${token%.journal}
nl=$pick_nl
blanks=$pick_blanks

within=60 # seconds that a command may take, and that the lock is waited for
tries='1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30'
told=     # lines of the report: KIND: WORDS
owed=     # not empty: something is still owed

umask 077
set -f
IFS=$blanks
LC_ALL=C
for each in /usr/local/sbin /usr/sbin /sbin; do
    case :$PATH: in *:"$each":*) ;; *) PATH=$PATH:$each ;; esac
done
export LC_ALL PATH

# --- watching -----------------------------------------------------------------------------------

# Signs of life come as USR1.  Whole seconds are counted, and no clock is asked: a clock that jumps,
# or a machine that stands still, counts for one second.
watch() {
    missed=0
    trap 'missed=0' USR1
    while [ "$missed" -lt "$lease" ]; do
        sleep 1 && missed=$((missed + 1))
    done
    trap '' USR1 USR2
    fire "no sign of life from the controller in $lease s"
    kill -s USR2 "$$"
}

# A session, a job or a service that is killed whole is so by its control group (cgroup.kill;
# KillUserProcesses of logind.conf(5); ProctrackType=proctrack/cgroup of slurm.conf(5)): root leaves
# those of its caller for the root's.
leave() {
    set +f
    set -- /sys/fs/cgroup/cgroup.procs
    [ -e "$1" ] || set -- /sys/fs/cgroup/*/cgroup.procs # version 1: a hierarchy each
    set -f
    for each; do
        [ ! -w "$each" ] || printf '%s' "$$" >"$each"
    done 2>/dev/null
}

guard() {
    for each in cat chmod chown date dd flock head id mkdir mv readlink rm rmdir sed sha256sum sleep \
        stat sync timeout tr; do
        command -v "$each" >/dev/null || {
            echo "$each is not installed" >&2
            exit 1
        }
    done
    cd /                          # keeps no file system busy
    [ -n "${IOTRIAL_OUTSIDE-}" ] || leave # the groups that are to be seen are the container's
    trap '' HUP INT TERM PIPE USR1 # a host that goes down takes the controller first, not us
    know_controller
    if [ "$lease" -gt 0 ]; then
        watch </dev/null >/dev/null 2>&1 &
        watcher=$!
    fi
    echo ready
    exec >/dev/null 2>&1
    while read -r each; do
        if [ "$each" = 'done' ]; then
            [ "$lease" -eq 0 ] || kill -s USR2 "$watcher"
            exit 0
        fi
        [ "$lease" -eq 0 ] || kill -s USR1 "$watcher"
    done
    exec </dev/null
    [ "$lease" -eq 0 ] || kill -s USR2 "$watcher" # which ignores it where it fires already
    fire 'the controller died'
}

# Its addresses, unless it has them from its own parent: they would be those of others, too.
know_controller() {
    controller=
    [ -z "${IOTRIAL_FENCE-}" ] && addresses "$PPID" || return 0
    controller=$FOUND
    ! addresses "$PARENT" || [ "$FOUND" != "$controller" ] || controller=
}

fire() {
    # Caught, not ignored: what is run from here has the signals that any program has.
    trap : HUP INT TERM PIPE
    fence
    end_loads
    if ! take_lock; then
        [ ! -f "$journal" ] || {
            tell owed "everything: another iotrial holds $lock"
            report "$1"
        }
    elif [ -f "$journal" ]; then # else somebody has paid
        if ours "$journal"; then pay; else tell owed "everything: $journal is not ours"; fi
        report "$1"
        [ -n "$owed" ] || drop "$journal"
        run rm -f -- "$folder/.${journal##*/}.new" # what a death in the middle of a write leaves
        printf '' >"$lock"
    fi
    [ -n "${IOTRIAL_OUTSIDE-}" ] || sweep # last: a process that was killed has a number until its parent looks
}

# ours FILE: no link, and of this user or root.
ours() {
    [ ! -h "$1" ] && case $(run stat -c %u -- "$1") in 0 | "$(run id -u)") ;; *) false ;; esac
}

# --- before anything is put back ----------------------------------------------------------------

# Nothing that the controller asked for may come late: not its shell, and not a command that the
# shell, or the controller itself, had just begun.
fence() {
    if [ -n "${IOTRIAL_FENCE-}" ]; then
        kill_all "IOTRIAL_AGENT=$IOTRIAL_FENCE" 'of the lost controller'
    elif [ -n "$controller" ]; then
        # A parent that lives is a caller of another kind, such as an epilog.
        ! addresses "$PPID" || [ "$FOUND" != "$controller" ] || return
        kill_all '' 'of the lost controller'
    fi
}

end_loads() {
    kill_all "IOTRIAL_LOAD=$token" 'of the load'
}

# kill_all MARK WHOSE: the processes that carry the mark in their environment, and those they become.
# Without a mark: those that the controller forked and that are no program of their own yet.
kill_all() {
    mark=$1
    ended=' '
    for _ in $tries; do
        if [ -n "$mark" ]; then left=$(marked); else left=$(forked); fi
        [ -n "$left" ] || return
        for pid in ${left#starting}; do
            kill -s KILL "$pid"
            case $ended in *" $pid "*) continue ;; esac
            ended="$ended$pid "
            tell process "$pid $2"
        done
        nap
    done
    left=${left#starting}
    [ -z "$left" ] || tell owed "processes $2 do not terminate: $left"
}

# addresses PID: PARENT is its parent, FOUND where its arguments and its environment lie
# (proc_pid_stat(5), fields 48 to 51): by chance at each execve(2), and as in its parent until then.
# 1: nowhere.  It is gone, or the kernel's, or in the middle of an execve(2), without environment.
addresses() {
    FOUND=
    read -r line <"/proc/$1/stat" || return
    # shellcheck disable=SC2086 # these are words
    set -- ${line##*) }
    [ $# -ge 49 ] || return
    PARENT=$2
    shift 45
    FOUND="$1 $2 $3 $4"
    [ "$4" != 0 ]
} 2>/dev/null

# Not where addresses are no chance: there, they say nothing.  (The kernel ends a number after the
# first read(2), which some shells make for each byte.)
forked() {
    read -r line </proc/sys/kernel/randomize_va_space || :
    [ "$line" != 0 ] || return
    set +f
    run cat /proc/[0-9]*/stat | run sed -n "s/ .* $controller .*//p"
    set -f
}

# The folders of shells and loads of controllers that are dead, as the shell itself sweeps them when
# it starts (settle in hosts/agent.sh).
sweep() {
    set +f
    for each in "${lock%/*}"/agent-*[0-9] "${folder%/*}"/files/load-*[0-9]; do
        [ -d "/proc/${each##*-}" ] || [ ! -d "$each" ] || rm -rf -- "$each" "$each.pid"
    done
    set -f
}

# The processes that carry the mark; before them `starting` where one may, which is in the middle of
# an execve(2): nothing can be read of its environment then.
marked() {
    set +f
    seen=$(run head -v -c 4194304 /proc/[0-9]*/environ | tr '\0' '\n' | read_marks)
    set -f
    ours=
    starting=
    for each in $seen; do
        case $each in
            e*) set -- "$@" "/proc/${each#e}/stat" ;;
            *) ours="$ours $each" ;;
        esac
    done
    # Of those that have none: neither dead nor the kernel's.
    [ $# -eq 0 ] || seen=$(run cat "$@" | run sed -n '/) [ZX] /d; /) [A-Z] [02] /d; s/ .*//p')
    [ $# -eq 0 ] || for pid in $seen; do
        addresses "$pid"
        before=$FOUND
        if carries "$pid"; then
            ours="$ours $pid"
        elif ! addresses "$pid" || [ "$FOUND" != "$before" ]; then
            [ ! -d "/proc/$pid" ] || starting=starting
        fi
    done
    printf '%s' "$starting$ours"
}

# The processes that carry the mark, and with an e before them those without any environment.
read_marks() {
    none=
    while IFS= read -r line; do
        case $line in
            '==> /proc/'*'/environ <==')
                [ -z "$none" ] || echo "e$none"
                pid=${line#'==> /proc/'}
                pid=${pid%%/*}
                none=$pid
                ;;
            '') ;;
            "$mark")
                none=
                ! carries "$pid" || echo "$pid"
                ;;
            *) none= ;;
        esac
    done
    [ -z "$none" ] || echo "e$none"
}

# The lines are entries here: one of another name whose value has a line like the mark has it after
# a \001.
carries() {
    case $nl$(run tr '\n\0' '\001\n' <"/proc/$1/environ")$nl in *"$nl$mark$nl"*) ;; *) false ;; esac
}

# Until the end of this process, which is how it is given back.
take_lock() {
    { command exec 9>>"$lock"; } 2>/dev/null || return
    timeout -s KILL "$within" flock 9 || return
    if [ -n "${IOTRIAL_OUTSIDE-}" ]; then
        printf '0 guard\n' >"$lock" # no number that anybody in the container could look for
    else
        printf '%s guard\n' "$$" >"$lock"
    fi
}

# --- running, reading, changing -----------------------------------------------------------------

# run ARGV: without the lock, which it might keep.
run() {
    timeout -s KILL "$within" "$@" 9>&-
}

nap() {
    sleep 0.1 || sleep 1
}

# take PATH ARGV…: RAW is what the command prints or, without one, what the file holds.
# 1: it cannot be read.  2: not there, or not now (NOT_HERE in model/step.py).
take() {
    if [ $# -gt 1 ]; then
        shift
        RAW=$(run "$@" 2>/dev/null && echo .) && RAW=${RAW%.} && return
        RAW=$(run "$@" 2>&1 >/dev/null)
    else
        RAW=$(run cat -- "$1" 2>&1 && echo .) && RAW=${RAW%.} && return
    fi
    case ${RAW##*: } in
        'No such file or directory' | 'No such device' | 'No such device or address') return 2 ;;
        'Operation not supported' | 'Invalid argument' | 'Not a directory') return 2 ;;
    esac
    return 1
}

# put PATH DATA: one write(2) into a file that is there.
put() {
    length=${#2}
    [ "$length" -gt 0 ] || length=1
    printf '%s' "$2" |
        run dd of="$1" bs="$length" count=1 iflag=fullblock conv=notrunc,nocreat status=none
}

# keep PATH DATA: the file has this content from now on, whole or not at all; owner and mode of one
# that is there stay.
keep() {
    new=${1%/*}/.${1##*/}.new
    mkdir -p -- "${1%/*}/" && rm -f -- "$new" || return
    if printf '%s' "$2" | run dd of="$new" bs=65536 iflag=fullblock conv=fsync status=none &&
        alike "$1" "$new" && run mv -fT -- "$new" "$1"; then
        run sync -- "${1%/*}/"
    else
        rm -f -- "$new"
        return 1
    fi
}

alike() {
    [ -e "$1" ] || {
        chmod 644 -- "$2"
        return
    }
    chown --reference="$1" -- "$2" && chmod --reference="$1" -- "$2"
}

drop() {
    run rm -f -- "$1" || return
    run sync -- "${1%/*}/" || :
}

# --- paying -------------------------------------------------------------------------------------

pay() {
    survey
    case $format in
        '' | 2 | 3) ;;
        *)
            tell owed "everything: a journal of format $format, which this guard does not know"
            return
            ;;
    esac
    read -r now </proc/sys/kernel/random/boot_id
    if [ -n "$boot" ] && [ "$boot" != "$now" ]; then
        tell note 'rebooted since: only settings that survive a reboot are restored'
        rebooted=1
    fi
    due=
    each_of "$devices" settle
    put_back
    each_of "$made" unmake
}

# each_of LINES VERB
each_of() {
    IFS=$nl
    for entry in $1; do
        IFS=$blanks
        apart "$2" "$entry"
    done
    IFS=$blanks
}

# apart VERB LINE: the verb gets the fields of the line, decoded, but for the `.` at its end.
apart() {
    verb=$1
    line=$2
    IFS='|'
    # shellcheck disable=SC2086 # this is the splitting
    set -- $line
    IFS=$blanks
    count=$#
    for word; do
        shift
        count=$((count - 1))
        [ "$count" -gt 0 ] || break
        case $word in
            *\\*)
                word=$(printf '%b.' "$word")
                word=${word%.}
                ;;
        esac
        set -- "$@" "$word"
    done
    "$verb" "$@"
}

# Sorts the lines of the journal: devices and values at their first mention, what was made from the
# last to the first.  It ends with a line that says of all before that they are whole (one of the
# format before this has none, and a torn last line in it is a change that never happened).
survey() {
    format=
    boot=
    rebooted=
    devices=
    values=
    made=
    known=$nl
    last=
    number=0
    while IFS= read -r text; do
        number=$((number + 1))
        last=$text
        case $text in
            '') continue ;;
            *'|.') apart sort_in "$text" && continue ;;
        esac
        tell owed "line $number of the journal cannot be read; a setting may be left to restore"
    done <"$journal"
    whole || tell owed "$journal is truncated or altered: more settings may have to be restored"
}

whole() {
    [ "$format" != 2 ] || return 0
    sum=$(run sed '$d' "$journal" | run sha256sum)
    [ "$last" = "whole|${sum%% *}|." ]
}

sort_in() {
    rest=${line#*|}
    case $1 in
        open)
            [ $# -ge 7 ] || return
            [ "$number" -gt 1 ] || {
                format=$2
                boot=$4
            }
            ;;
        device)
            [ $# -ge 3 ] && [ $(($# % 2)) -eq 1 ] || return
            ! first "device|${rest%%|*}" || devices=$devices$line$nl
            ;;
        value | durable)
            shift
            counted "$@" || return
            name=${rest%%|*}
            rest=${rest#*|}
            ! first "value|$name|${rest%%|*}" || values=$values$line$nl
            ;;
        made)
            [ $# -ge 2 ] || return
            made=$line$nl$made
            ;;
        whole) [ $# -eq 2 ] && [ "$format" = 3 ] ;;
        *) return 1 ;;
    esac
}

first() {
    case $known in *"$nl$1$nl"*) return 1 ;; esac
    known=$known$1$nl
}

# counted DEVICE TUNABLE VALUE PATH PICK KEY ABSENT N ARGV… N KIND PATH DATA N ARGV… …: as many
# fields as their numbers say.
counted() {
    [ $# -ge 9 ] && shift 7 && number "$@" && shift $(($1 + 1)) && number "$@" || return
    acts=$1
    shift
    while [ "$acts" -gt 0 ]; do
        case $1 in write | save | remove | run) ;; *) return 1 ;; esac
        [ $# -ge 4 ] && shift 3 && number "$@" && shift $(($1 + 1)) || return
        acts=$((acts - 1))
    done
    [ $# -eq 0 ]
}

# number N WORDS…: there are that many words, at least.
number() {
    case ${1-} in '' | *[!0-9]* | ?????*) return 1 ;; esac
    [ "$1" -lt $# ]
}

# --- settings -----------------------------------------------------------------------------------

# settle device NAME IDENTITY PATH CONTENT PATH CONTENT …: `due` gets the values of this device,
# unless it is gone, or another one.
settle() {
    rest=${line#*|}
    owner=${rest%%|*}
    mine=
    IFS=$nl
    for entry in $values; do
        case $entry in
            "value|$owner|"*) [ -n "$rebooted" ] || mine=$mine$entry$nl ;;
            "durable|$owner|"*) mine=$mine$entry$nl ;;
        esac
    done
    IFS=$blanks
    [ -n "$mine" ] || return
    name=$2
    gone=
    [ -z "$3" ] || [ -e "/sys/block/$name" ] || gone=yes
    [ -n "$3" ] || [ -z "${4-}" ] || [ -e "$4" ] || gone=yes
    if [ -n "$gone" ]; then
        tell note "$name no longer exists, and neither do its settings"
        return
    fi
    shift 3
    while [ $# -gt 1 ]; do
        take "$1" || RAW=
        pick text ''
        [ "$VALUE" = "$2" ] || {
            shown "$VALUE"
            stranger="$name is now another device: ${1##*/} was $2, is $SHOWN"
            each_of "$mine" refuse
            return
        }
        shift 2
    done
    due=$due$mine
}

# All devices together, in the order of the journal: what moves others goes back first.
put_back() {
    changed=
    refused=$nl
    for _ in 1 2 3; do # PASSES in execute/tuning.py
        each_of "$due" hold
        left=
        each_of "$due" check
        [ -n "$left" ] || break
    done
    each_of "$due" tidy
    conclude
}

refuse() {
    called "$3" "$4" "$2"
    tell owed "$setting ($stranger)"
}

# called TUNABLE VALUE DEVICE: what a setting is called in the report.
called() {
    shown "$2"
    setting="$1=$SHOWN${3:+ on $3}"
}

shown() {
    SHOWN=$1
    case $1 in *"$nl"*) SHOWN=… ;; esac
    [ "${#1}" -le 60 ] || SHOWN=…
}

# only N VERB WORDS…: the verb gets the first N words.
only() {
    some=$1
    verb=$2
    shift 2
    for word; do
        shift
        [ "$some" -le 0 ] || set -- "$@" "$word"
        some=$((some - 1))
    done
    "$verb" "$@"
}

# as_was value DEVICE TUNABLE VALUE PATH PICK KEY ABSENT N ARGV… …: does it read so?  VALUE is what
# it reads.
as_was() {
    called "$3" "$4" "$2"
    wanted=$4
    path=$5
    kind=$6
    key=$7
    absent=$8
    words=$9
    shift 9
    only "$words" observe "$@" && [ "$VALUE" = "$wanted" ]
}

# observe ARGV…
observe() {
    VALUE=
    take "$path" "$@"
    case $? in
        0) ! pick "$kind" "$key" || return 0 ;;
        1) return 1 ;;
    esac
    VALUE=$absent
    [ -n "$absent" ]
}

# hold value …: unless it reads as wanted, do its acts, up to the first that is refused.
hold() {
    as_was "$@" && return
    case $nl$changed in *"$nl$setting$nl"*) ;; *) changed=$changed$setting$nl ;; esac
    why=
    each_act act "$@" || refused="$refused$setting: ${why##*: }$nl"
}

# each_act VERB value …: the verb gets KIND PATH DATA N ARGV… of each act, and more words behind.
each_act() {
    doing=$1
    shift 9
    shift "$(($1 + 1))"
    acts=$1
    shift
    while [ "$acts" -gt 0 ]; do
        "$doing" "$@" || return
        words=$4
        shift 4
        shift "$words"
        acts=$((acts - 1))
    done
}

act() {
    case $1 in
        write) why=$(put "$2" "$3" 2>&1) ;;
        save) why=$(keep "$2" "$3" 2>&1) ;;
        remove) why=$(drop "$2" 2>&1) ;;
        run)
            words=$4
            shift 4
            only "$words" run "$@" >/dev/null 2>&1 || {
                why="$1 ends with exit status $?"
                return 1
            }
            ;;
    esac
}

# What a death in the middle of a save leaves.
tidy() {
    each_act tidy_act "$@"
}

tidy_act() {
    case $1 in save | remove) run rm -f -- "${2%/*}/.${2##*/}.new" ;; esac
}

check() {
    as_was "$@" && return
    left=$left$setting$nl
    shown "$VALUE"
    case $refused in *"$nl$setting: "*) ;; *) refused="$refused$setting: it reads $SHOWN$nl" ;; esac
}

conclude() {
    IFS=$nl
    for setting in $changed; do
        IFS=$blanks
        case $nl$left in *"$nl$setting$nl"*) ;; *) tell value "$setting" ;; esac
    done
    IFS=$nl
    for setting in $left; do
        IFS=$blanks
        why=${refused##*"$nl$setting: "}
        tell owed "$setting (${why%%"$nl"*})"
    done
    IFS=$blanks
}

# --- telling ------------------------------------------------------------------------------------

# tell KIND WORDS…
tell() {
    [ "$1" != owed ] || owed=1
    told="$told$1:"
    shift
    # shellcheck disable=SC2048,SC2086 # on one line, without its blanks
    for word in $*; do told="$told $word"; done
    told=$told$nl
}

# report WHY: on a full disk there is none, and what was put back is put back all the same.
report() {
    printf '%s, %s\n%s' "$(date '+%Y-%m-%d %H:%M:%S')" "$1" "$told" >"$folder/$token.restored"
}

guard
