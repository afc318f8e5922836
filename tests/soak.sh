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
    # A session of its own: what ends this script ends what is beside it last, by its number.
    # shellcheck disable=SC2016 # it is that shell that expands them
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

end() {
    trap - EXIT
    [[ -z $burden ]] || kill -TERM "$burden" 2>/dev/null
    rm -f -- "${output-}"
    exit "$1"
}
trap 'end $?' EXIT
trap 'echo "soak: stopped; the same command goes on" >&2; end 130' INT
trap 'end 143' TERM

# The lines that say what failed, in one; of a run without such lines, its last words.
first_words() {
    { grep -E '^(FAILED|ERROR) |^[a-z]+ +[0-9]+ s .*FAILED' "$1" | cut -c1-160 | head -n 8; } |
        grep . || tail -n 3 -- "$1" | cut -c1-160
}

run_once() {
    local number=$1 began load seconds status=0 words=''
    began=$(date +%Y-%m-%dT%H:%M:%S)
    load=$(cut -d' ' -f1 /proc/loadavg)
    seconds=$SECONDS
    output=$folder/running.txt
    timeout --foreground --kill-after=30 "$limit" "${command[@]}" >"$output" 2>&1 9>&- || status=$?
    seconds=$((SECONDS - seconds))
    if ((status)); then
        words=$(first_words "$output" | tr '\n\t' '; ')
        ((status != 124)) || words="no end within $limit s; $words"
        mv -- "$output" "$folder/$name-$head-$number.txt"
    fi
    printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$number" "$head" "$began" "$seconds" "$status" "$load" \
        "$words" >&9
    echo "soak: $what $number of $many: exit $status after $seconds s${words:+: $words}"
}

begin_beside
number=$(done_before | wc -l)
((number == 0)) || echo "soak: $number of $many were done before; going on"
while ((number < many)); do
    number=$((number + 1))
    run_once "$number"
    [[ -z $burden ]] || kill -0 "$burden" 2>/dev/null || {
        echo "soak: what was to be beside it ($beside) has ended" >&2
        exit 2
    }
done

{
    printf 'n\thead\tbegan\tseconds\texit\tload\twhat failed\n'
    done_before
} | column -t -s $'\t' -n soak 2>/dev/null || done_before
failed=$(done_before | awk -F'\t' '$5 != 0' | wc -l)
echo "soak: $what$([[ -z $beside ]] || echo " beside $beside"): $((number - failed)) of $number ended well"
((failed == 0))
