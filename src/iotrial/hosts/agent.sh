# shellcheck shell=sh
# Agent: what acts on the far side of an SSH host.  hosts/agent.py sends it to a shell there, behind
# picks.sh, and then requests; each is one compound command, so half a request does nothing, and
# each has one answer on stdout.  Asks for POSIX sh, coreutils (8.24: sync FILE) and util-linux.
#
# An answer is made of texts (`STATUS LENGTH`, a line end, as many bytes, a line end) and of bytes
# (base64 in one line).  Words are those of strerror(3), in the C locale: Python makes errno of them.
#
# Its stdin is for requests: nothing it starts may read that.  File descriptors 4 to 9 are locks:
# nothing that could outlive it may hold them.
# shellcheck disable=SC2154 # pick_… is set by picks.sh

umask 077
set -f
LC_ALL=C
export LC_ALL
for FOLDER in /usr/local/sbin /usr/sbin /sbin; do
    case :$PATH: in *:"$FOLDER":*) ;; *) PATH=$PATH:$FOLDER ;; esac
done
export PATH

NONE='No such file or directory'
SCRATCH=
COUNT=0
HOW=${2:-login}

# text STATUS WORDS
text() {
    printf '%s %s\n%s\n' "$1" "${#2}" "$2"
}

findable() {
    case $1 in
        */*)
            [ -f "$1" ] && [ -x "$1" ]
            return
            ;;
    esac
    IFS=:
    for FOLDER in $PATH; do
        IFS=$pick_blanks
        [ -f "$FOLDER/$1" ] && [ -x "$FOLDER/$1" ] && return
    done
    IFS=$pick_blanks
    return 1
}

# hello NONCE: who we are; the first thing said.
# shellcheck disable=SC2086
hello() {
    WHY=
    for WORD in base64 cat chmod chown dd flock id ls mkdir mv rm setsid stat sync timeout unlink; do
        findable "$WORD" || WHY="$WHY $WORD"
    done
    printf '\n%s\n' "$1"
    text 0 "${WHY# }"
    text 0 "$(id -u) $HOW"
    text 0 "${IOTRIAL_SUDO-}"
    text 0 "${HOME-}"
    text 0 "${XDG_RUNTIME_DIR-}"
    text 0 "${XDG_STATE_HOME-}"
    text 0 "${IOTRIAL_STATE-}"
    WHY=
    read -r WHY </proc/sys/kernel/random/boot_id
    WORD=$(readlink /proc/self/ns/pid 2>/dev/null)
    text 0 "$WORD $(readlink /proc/self/ns/mnt 2>/dev/null) $WHY"
    unset IOTRIAL_SUDO
}

# state FOLDER: iotrial keeps its state there from now on.
state() {
    IOTRIAL_STATE=$1
    export IOTRIAL_STATE
    text 0 ''
}

# settle VOLATILE LASTING SIGN: a folder of our own for what commands say; those of agents and loads
# that were killed go.  SIGN is what parts one file from the next.
settle() {
    if ! folders "$1" || ! folders "$2"; then
        text 1 "$WHY"
        return
    fi
    ours "$1" && ours "$2" || return
    SCRATCH=$1/agent-$$
    set +f
    for FOLDER in "$1"/agent-*[0-9] "$2"/load-*[0-9]; do
        [ -d "/proc/${FOLDER##*-}" ] || [ ! -d "$FOLDER" ] || rm -rf -- "$FOLDER" "$FOLDER.pid"
    done
    set -f
    rm -rf -- "$SCRATCH"
    SIGN=$SCRATCH/sign
    if ! WHY=$(mkdir -- "$SCRATCH" 2>&1) || ! printf %s "$3" >"$SIGN"; then
        text 1 "${WHY##*: }"
        return
    fi
    printf . >"$SCRATCH/end"
    trap 'rm -rf -- "$SCRATCH"' EXIT
    text 0 ''
}

# ours FOLDER: else answers whose it is.  One that is empty a guard may remove at any time, when it
# has put everything back: it is made anew.
ours() {
    WORD=$(stat -c '%u %04a %F' -- "$1" 2>/dev/null) ||
        WORD=$(folders "$1" && stat -c '%u %04a %F' -- "$1")
    case $WORD in
        "$(id -u)"' '*'00 directory') above "$1" && return ;;
        *) WORD="$WORD $1" ;;
    esac
    text 3 "$WORD"
    return 1
}

# above FOLDER: whether nobody but this user and root could put another one in its place
# (hosts/places.py); else WORD says which folder lets them.
above() {
    UP=$(cd -P -- "$1" && pwd -P) || {
        WORD="$WORD $1"
        return 1
    }
    while :; do
        UP=${UP%/*}
        UP=${UP:-/}
        WORD=$(stat -c '%u %04a %F' -- "$UP")
        case $WORD in
            "0 "* | "$(id -u) "*) ;;
            *) break ;;
        esac
        case ${WORD#* } in
            [1357]* | ??[!2367][!2367]*) ;; # sticky, or closed to group and others
            *) break ;;
        esac
        [ "$UP" != / ] || return 0
    done
    WORD="$WORD $UP"
    return 1
}

# --- reading ------------------------------------------------------------------------------------

# take PATH: RAW is what it holds, without NUL, and TAKEN is 0; or RAW says why not, and it is 1.
# A file in /sys is read without a fork: kernfs shows a value once and gives it out byte by byte.
# /proc/sys does not (a second read(2) is the end there), so that cat reads it in one.
take() {
    TAKEN=0
    case $1 in
        /sys/kernel/debug/* | /sys/kernel/tracing/*) ;;
        /sys/*) slurp "$1" && [ -n "$RAW" ] && return ;;
        "$SCRATCH"/*)
            slurp "$1"
            return
            ;;
    esac
    if [ ! -e "$1" ] && [ -d "${1%/*}" ] && [ -x "${1%/*}" ]; then
        TAKEN=1
        RAW=$NONE
        return
    fi
    RAW=$(cat -- "$1" "$SCRATCH/end" 2>&1) || TAKEN=1
    RAW=${RAW%.}
    [ "$TAKEN" = 0 ] && return
    RAW=${RAW%"$pick_nl"}
    RAW=${RAW##*: }
}

slurp() {
    RAW=
    LINE=
    [ -f "$1" ] && [ -r "$1" ] || return
    while IFS= read -r LINE; do
        RAW=$RAW$LINE$pick_nl
    done <"$1"
    RAW=$RAW$LINE
}

# looks PATH SIGN PATH SIGN …: the content of every file, exactly, by one process; then what it
# complained of.
looks() {
    cat -- "$@" 2>"$SCRATCH/why"
    STATUS=$?
    slurp "$SCRATCH/why"
    text "$STATUS" "$RAW"
}

# exact PATH: as take, but RAW is base64, so that a NUL stays one.
exact() {
    TAKEN=0
    RAW=$(base64 -w0 -- "$1" 2>&1) && return
    TAKEN=1
    RAW=${RAW##*: }
}

# asked SECONDS ARGV: runs a command; its words lie in OUT and ERR.
asked() {
    COUNT=$((COUNT + 1))
    OUT=$SCRATCH/out-$COUNT
    ERR=$SCRATCH/err-$COUNT
    timeout -s KILL "$@" <"${IN-/dev/null}" >"$OUT" 2>"$ERR" \
        4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
}

# last STATUS: WHY is the last line of ERR that is not blank.
last() {
    WHY="exit status $1"
    [ "$1" -le 128 ] || WHY="exit status -$(($1 - 128))"
    while IFS= read -r LINE || [ -n "$LINE" ]; do
        case $LINE in *[!$pick_blanks]*) WHY=$LINE ;; esac
    done <"$ERR"
}

# taken HOW SECONDS ARGV: take or exact of what a command prints.
taken() {
    HOW=$1
    shift
    asked "$@"
    STATUS=$?
    if [ "$STATUS" = 0 ]; then
        "$HOW" "$OUT"
    else
        last "$STATUS"
        TAKEN=1
        RAW=$WHY
        WHY=
    fi
    rm -f -- "$OUT" "$ERR"
}

# differs PICK KEY ABSENT VALUE: does what was taken read as another value than VALUE?
differs() {
    if [ "$TAKEN" = 0 ]; then
        if pick "$1" "$2"; then
            [ "$VALUE" != "$4" ]
            return
        fi
    else
        pick_line=${RAW##*: }
        pick_strip
        case ${pick_line%.} in
            "$NONE" | 'No such device' | 'No such device or address' | 'Operation not supported') ;;
            'Invalid argument' | 'Not a directory') ;;
            *) return 0 ;;
        esac
    fi
    [ -z "$3" ] || [ "$3" != "$4" ]
}

# tell: the answer of one step: what was taken, and which of its acts was refused (0: none) and why.
tell() {
    text "$TAKEN" "$RAW"
    text "$FAILED" "$WHY"
}

show() {
    WHY=
    base64 -w0 -- "$1" 2>"$SCRATCH/why" || because
    STATUS=$?
    printf '\n'
    text "$STATUS" "$WHY"
}

# names FOLDER: each with a slash behind it, which no name holds.
names() {
    TOLD=/
    COUNTED=0
    set +f
    for LINE in "${1%/}"/* "${1%/}"/.[!.]* "${1%/}"/..?*; do
        LINE=${LINE##*/}
        case $LINE in
            '*' | '.[!.]*' | '..?*') [ -e "$1/$LINE" ] || [ -h "$1/$LINE" ] || continue ;;
        esac
        TOLD=$TOLD$LINE/
        [ "$COUNTED" = 0 ] && text 0 ''
        COUNTED=1
        [ "${#TOLD}" -lt 8000 ] && continue
        printf '%s' "$TOLD"
        TOLD=
    done
    set -f
    if [ "$COUNTED" = 0 ]; then
        words ls -- "${1%/}/." || {
            text 1 "$WHY"
            return
        }
        text 0 ''
    fi
    printf '%s/\n' "$TOLD"
}

# --- changing: each says in WHY what was refused ------------------------------------------------

# words ARGV: runs a command of ours; WHY is the errno it names.
words() {
    "$@" >/dev/null 2>"$SCRATCH/why" </dev/null || because
}

because() {
    WHY=
    [ -z "$SCRATCH" ] || while IFS= read -r LINE || [ -n "$LINE" ]; do
        WHY=${LINE##*: }
    done <"$SCRATCH/why"
    WHY=${WHY:-Input/output error}
    return 1
}

# put PATH DATA: one write(2) into a file that is there.
put() {
    printf '%s' "$2" | overlay "$1" "${#2}" || because
}

put_bytes() {
    printf '%s' "$3" | base64 -d | overlay "$1" "$2" || because
}

overlay() {
    LENGTH=$2
    [ "$LENGTH" -gt 0 ] || LENGTH=1
    dd of="$1" bs="$LENGTH" count=1 iflag=fullblock conv=notrunc,nocreat status=none \
        2>"$SCRATCH/why"
}

folder_of() {
    FOLDER=${1%/*}
    FOLDER=${FOLDER:-/}
}

# folders PATH: made with their missing parents, durable.
folders() {
    [ -d "$1" ] && return
    folder_of "$1"
    [ "$FOLDER" = "$1" ] || folders "$FOLDER" || return
    if ! WHY=$(mkdir -m 700 -- "$1" 2>&1); then
        WHY=${WHY##*: }
        [ -e "$1" ] || return 1
    fi
    folder_of "$1"
    WHY=$(sync -- "$FOLDER" 2>&1) && return
    WHY=${WHY##*: }
    return 1
}

# keep PATH MODE BASE64: the file has this content from now on, whole or not at all.  MODE is
# `private`, or `public`: owner and mode of the former stay.
keep() {
    folder_of "$1"
    BESIDE=${1%/*}/.${1##*/}.new
    folders "$FOLDER" || return
    words rm -f -- "$BESIDE" || return
    printf '%s' "$3" | base64 -d | dd of="$BESIDE" bs=65536 iflag=fullblock oflag=nofollow \
        conv=fsync status=none 2>"$SCRATCH/why" || because && renamed "$@" && return
    rm -f -- "$BESIDE"
    return 1
}

renamed() {
    if [ -d "$1" ] && [ ! -h "$1" ]; then
        WHY='Is a directory'
        return 1
    fi
    if [ "$2" = public ]; then
        if [ -e "$1" ]; then
            words chown --reference="$1" -- "$BESIDE" || return
            words chmod --reference="$1" -- "$BESIDE" || return
        else
            words chmod 644 -- "$BESIDE" || return
        fi
    fi
    folder_of "$1"
    words mv -fT -- "$BESIDE" "$1" && words sync -- "$FOLDER"
}

# add PATH LENGTH BASE64: at the end of a private file, durable.
add() {
    folder_of "$1"
    folders "$FOLDER" || return
    NEW=1
    [ ! -f "$1" ] || {
        NEW=0
        words chmod 600 -- "$1" || return
    }
    LENGTH=$2
    [ "$LENGTH" -gt 0 ] || LENGTH=1
    printf '%s' "$3" | base64 -d | dd of="$1" bs="$LENGTH" iflag=fullblock oflag=append,nofollow \
        conv=notrunc,fsync status=none 2>"$SCRATCH/why" || because || return
    folder_of "$1"
    [ "$NEW" = 0 ] || words sync -- "$FOLDER"
}

drop() {
    if ! words unlink -- "$1"; then
        [ "$WHY" = "$NONE" ]
        return
    fi
    folder_of "$1"
    words sync -- "$FOLDER"
}

# perform ARGV: an act that is a command.
perform() {
    asked "$@"
    STATUS=$?
    [ "$STATUS" = 0 ] || last "$STATUS"
    [ "$STATUS" != 137 ] || WHY="was killed by signal 9, or was still running after $1 s"
    rm -f -- "$OUT" "$ERR"
    return "$STATUS"
}

# did VERB ARGUMENTS: one of the above as an answer of its own.
did() {
    WHY=
    if "$@"; then text 0 ''; else text 1 "$WHY"; fi
}

# --- commands -----------------------------------------------------------------------------------

# ran BASE64 MOST SECONDS ARGV: of a command that says more than MOST bytes, only how many.
ran() {
    unset IN
    if [ -n "$1" ]; then
        IN=$SCRATCH/in
        printf '%s' "$1" | base64 -d >"$IN"
    fi
    MOST=$2
    shift 2
    asked "$@"
    STATUS=$?
    unset IN
    LENGTH=$(stat -c %s -- "$OUT" "$ERR")
    LENGTH=$((${LENGTH%"$pick_nl"*} + ${LENGTH#*"$pick_nl"}))
    if [ "$LENGTH" -gt "$MOST" ]; then
        text "$STATUS" "$LENGTH"
        : >"$OUT"
        : >"$ERR"
    else
        text "$STATUS" ''
    fi
    base64 -w0 -- "$OUT"
    printf '\n'
    [ ! -s "$ERR" ] || base64 -w0 -- "$ERR"
    printf '\n'
    rm -f -- "$OUT" "$ERR" "$SCRATCH/in"
}

group() {
    kill -s "$1" -- "-$2" 2>/dev/null
    text 0 ''
}

# --- the lock -----------------------------------------------------------------------------------

# lock DESCRIPTOR PATH PURPOSE.  0: ours; 1: refused; 2: held, by whom; 3: its folder is not ours.
lock() {
    WHY=
    folder_of "$2"
    folders "$FOLDER" || {
        text 1 "$WHY"
        return
    }
    folder_of "$2"
    ours "$FOLDER" || return
    dd of="$2" count=0 oflag=nofollow conv=notrunc status=none </dev/null 2>"$SCRATCH/why" ||
        because || {
        text 1 "$WHY"
        return
    }
    eval "command exec $1<>\"\$2\""
    if flock -n "$1"; then
        printf '%s %s\n' "$$" "$3" >"$2"
        text 0 ''
    else
        eval "exec $1>&-"
        take "$2"
        text 2 "$RAW"
    fi
}

# unlock DESCRIPTOR PATH.  Emptied, not unlinked: another iotrial may have opened it already.
unlock() {
    : >"$2"
    eval "exec $1>&-"
    text 0 ''
}

# --- loads: in a session of their own -----------------------------------------------------------

# begin FOLDER: makes the folder of the load.
begin() {
    LOAD=$1/load-$$
    folders "$LOAD"
}

supply() {
    folder_of "$LOAD/$1"
    folders "$FOLDER" && printf '%s' "$2" | base64 -d >"$LOAD/$1"
}

# load ARGV: says the number of its process, then, when it ended, its status and every file.
# Its group is its session's, and what is left of it ends with it.
load() {
    if ! cd -- "$LOAD" || ! findable "$1"; then
        text 2 ''
        cd / && rm -rf -- "$LOAD"
        return
    fi
    # shellcheck disable=SC2016 # for the shell that becomes the load
    setsid sh -c 'p=$$; echo "$p" >"$0"; printf "0 %s\n%s\n" "${#p}" "$p"; exec "$@" >stdout 2>stderr' \
        "$LOAD.pid" "$@" </dev/null
    STATUS=$?
    trap '' PIPE
    read -r WORD <"$LOAD.pid" && kill -s KILL -- "-$WORD"
    text "$STATUS" ''
    walk "$LOAD"
    printf 'end\n'
    cd / && rm -rf -- "$LOAD" "$LOAD.pid"
} 2>/dev/null

walk() {
    set +f
    for ENTRY in "$1"/* "$1"/.[!.]* "$1"/..?*; do
        if [ -h "$ENTRY" ]; then
            continue
        elif [ -d "$ENTRY" ]; then
            walk "$ENTRY"
        elif [ -f "$ENTRY" ]; then
            WORD=${ENTRY#"$LOAD"/}
            printf 'file %s\n%s\n' "${#WORD}" "$WORD"
            base64 -w0 -- "$ENTRY"
            printf '\n'
        fi
    done
}
