#!/usr/bin/env bash
# The tests, or the demo, many times in a row on one head: does it ever fail?
#
#   tests/soak.sh tests|demos [N] [--beside cpu|stress] [--limit SECONDS] [-- COMMAND…]
#
# N is 10.  COMMAND is run instead of ./dev test or ./dev demo.  A line a run goes to
# .pytest_cache/soak/NAME.tsv; of a run that failed, all that it said to NAME-HEAD-N.txt beside it.
# The same command goes on where it stopped: a run that was cut off is done again.
# Beside: one busy core, or `stress-ng --cpu 2 --hdd 1`, at normal priority.  Exit 1 if any failed.
set -uo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.." && pwd) || exit
cd -- "$root" || exit

usage() {
    sed -n '2,/^set/s/^# \{0,1\}//p' "$root/tests/soak.sh" >&2
    exit 2
}

what=${1-} many=10 beside='' limit='' command=()
case $what in
    tests) command=(./dev test) && limit=7200 ;;
    demos) command=(./dev demo) && limit=900 ;;
    *) usage ;;
esac
shift
while (($#)); do
    case $1 in
        --beside) beside=${2-} && shift ;;
        --limit) limit=${2-} && shift ;;
        --)
            shift
            command=("$@")
            break
            ;;
        *) many=$1 ;;
    esac
    shift || usage
done
[[ $many =~ ^[1-9][0-9]*$ && $limit =~ ^[1-9][0-9]*$ && $beside =~ ^(cpu|stress|)$ ]] || usage
((${#command[@]})) || usage

# Another head, another change of it, or another command begins anew.
head=$({ git rev-parse HEAD && git diff HEAD &&
    git ls-files --others --exclude-standard; } | sha256sum | cut -c1-6)
head=$(git rev-parse --short=8 HEAD)-$head
name=$what${beside:+-beside-$beside}
[[ ${command[*]} == "./dev ${what%s}" ]] ||
    name+=-$(printf '%s\0' "${command[@]}" | sha256sum | cut -c1-6)
folder=.pytest_cache/soak
log=$folder/$name.tsv
mkdir -p -- "$folder" || exit
exec 9>>"$log"
flock --nonblock 9 || {
    echo "soak: another one is at it: $log" >&2
    exit 2
}
done_before() { awk -F'\t' -v head="$head" '$2 == head' "$log"; }

# What is beside ends with this script: also when that is killed, for then nobody holds the pipe.
burden=''
begin_beside() {
    [[ -n $beside ]] || return 0
    if [[ $beside == stress ]] && ! command -v stress-ng >/dev/null; then
        apt-get -qq -y install --no-install-recommends stress-ng >"$folder/apt.txt" 2>&1
        command -v stress-ng >/dev/null || {
            echo "soak: there is no stress-ng (apt-get install stress-ng): $folder/apt.txt" >&2
            exit 2
        }
    fi
    # A process group of its own, so that all of it can be ended by its number.
    setsid bash -c '
        parent=$1 beside=$2 folder=$3
        cd -- "$folder" || exit
        if [[ $beside == cpu ]]; then
            while :; do :; done &
        else
            stress-ng --cpu 2 --hdd 1 --temp-path "$folder" --quiet &
        fi
        trap "kill -TERM $!; wait; rm -rf -- \"$folder\"; exit" TERM
        while kill -0 "$parent" 2>/dev/null && kill -0 $! 2>/dev/null; do
            sleep 0.5 & wait $! 2>/dev/null
        done
    ' soak "$$" "$beside" "$(mktemp -d)" 9>&- </dev/null >/dev/null 2>&1 &
    burden=$!
}
