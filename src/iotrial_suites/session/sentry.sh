# shellcheck shell=sh
# Sentry: runs one command of a check on the host, apart from whoever asked, and answers in bounded
# time also where the command never ends (a process that waits for a dead disk cannot be killed).
# session/evidence.py makes its words and reads its answers.
# Asks for POSIX sh, coreutils and util-linux (flock, setsid).  It starts few processes: where
# processors are emulated each takes long.
#
#   begin FOLDER NUMBER SECONDS MOST SIGN INPUT ARGV…
#                         INPUT: `in` where stdin is the command's; waits so long, then answers
#   look FOLDER NUMBER SECONDS MOST SIGN   waits again
#   end FOLDER NUMBER SECONDS MOST SIGN    says where it hangs, ends it, waits so long
#   close FOLDER                           removes the folder
#
# The answer is a line `STATE STATUS BEGAN ENDED` (STATE: done, running, gone; times since the boot),
# then stdout, SIGN, stderr, SIGN, where it hangs.  More than MOST bytes of one are cut off.
verb=$1
folder=$2
[ "$verb" != close ] || exec rm -rf -- "$folder"
file=$folder/$3
patience=$4
most=$5
sign=$6
shift 6
LC_ALL=C
export LC_ALL

tell() {
    [ ! -s "$file.$1" ] || head -c "$most" "$file.$1"
}

# answer STATE: STATE is what it is where it has not ended.
answer() {
    state=$1
    # It is there before its line is: then read(1) finds nothing, and it ends at this moment.
    [ -f "$file.exit" ] && read -r status began ended <"$file.exit" && state='done'
    [ "$state" = 'done' ] || status=0 began=0 ended=0
    echo "$state $status $began $ended"
    [ "$state" != running ] || [ "$verb" = end ] || return
    tell out
    printf %s "$sign"
    tell err
    printf %s "$sign"
    tell stacks
}

# The kernel frees the lock when the process that watches the command ends, however it does.
waits() {
    exec 8<"$file.lock"
    if flock -w "$1" 8; then answer gone; else answer running; fi
}

begin() {
    umask 077
    input=/dev/null
    [ "$1" != in ] || {
        input=$file.in
        cat >"$input"
    }
    shift
    exec 9>"$file.lock" || exit 125
    flock 9
    (
        read -r began _ </proc/uptime
        setsid "$@" <"$input" >"$file.out" 2>"$file.err" 9>&- &
        echo "$!" >"$file.pid"
        wait "$!"
        status=$?
        read -r ended _ </proc/uptime
        echo "$status $began $ended" >"$file.exit"
    ) </dev/null >/dev/null 2>&1 &
    exec 9>&-
    waits "$patience"
}

# Every process of the command's session: where it is in the kernel.
stacks() {
    for stat in /proc/[0-9]*/stat; do
        line=
        read -r line 2>/dev/null <"$stat" || continue
        number=${line%% *}
        name=${line#*\(}
        name=${name%)*}
        # shellcheck disable=SC2086 # fields: state, parent, group, session
        set -- ${line##*) }
        [ "${4:-}" = "$pid" ] || continue
        members="$members $number"
        where=
        read -r where 2>/dev/null <"/proc/$number/wchan" || :
        echo "$number $name: state $1, waits in ${where:-?}"
        cat "/proc/$number/stack" 2>/dev/null
    done
}

end() {
    [ -f "$file.pid" ] || {
        answer gone
        return
    }
    read -r pid <"$file.pid"
    members=
    [ -f "$file.exit" ] || stacks >"$file.stacks" 2>/dev/null
    exec 8<"$file.lock"
    for signal in TERM KILL; do
        # shellcheck disable=SC2086 # numbers
        kill -s "$signal" -- "-$pid" $members 2>/dev/null
        flock -w "$patience" 8 && {
            answer gone
            return
        }
    done
    answer running
}

case $verb in
    begin)
        [ -d "$folder" ] || mkdir -p -- "$folder" || exit 125
        begin "$@"
        ;;
    look) waits "$patience" ;;
    end) end ;;
esac
