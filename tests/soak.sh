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
flock --timeout 120 9 || {
    echo "soak: another one is at it: $log" >&2
    exit 2
}
done_before() { awk -F'\t' -v head="$head" '$2 == head' "$log"; }

# Whatever ends this script, also kill -9, closes its end of a pipe.  What reads the other end then
# ends the run and what is beside it, by their numbers, and holds the lock until that is done.
running='' burden='' scratch=$(mktemp -d) || exit
ending() {
    local pid signal
    trap '' INT TERM HUP
    cat >/dev/null
    for signal in INT TERM; do # pytest tidies up after the first
        pid=$(cat -- "$scratch/$signal" 2>/dev/null) || continue
        kill "-$signal" -- "-$pid" 2>/dev/null || continue
        for _ in {1..60}; do
            kill -0 -- "-$pid" 2>/dev/null || break
            sleep 0.5
        done
        kill -KILL -- "-$pid" 2>/dev/null
    done
    rm -rf -- "$scratch"
}
exec 8> >(ending)
trap 'echo "soak: stopped; the same command goes on" >&2; exit 130' INT
trap 'exit 143' TERM HUP
set -m # each in a process group of its own, and Ctrl-C is not ignored there

begin_beside() {
    case $beside in
        cpu) (trap - INT TERM HUP && while :; do :; done) 8>&- 9>&- & ;;
        stress)
            command -v stress-ng >/dev/null ||
                apt-get -qq -y install --no-install-recommends stress-ng >"$folder/apt.txt" 2>&1 || {
                echo "soak: there is no stress-ng, and it could not be installed: $folder/apt.txt" >&2
                exit 2
            }
            stress-ng --cpu 2 --hdd 1 --timeout 0 --temp-path "$scratch" \
                8>&- 9>&- </dev/null >/dev/null 2>&1 &
            ;;
        *) return ;;
    esac
    burden=$!
    echo "$burden" >"$scratch/TERM"
}

# The lines that say what failed, in one; of a run without such lines, its last words.
first_words() {
    { grep -E '^(FAILED|ERROR) |^[a-z]+ +[0-9]+ s .*FAILED' "$1" | cut -c1-160 | head -n 8; } |
        grep . || tail -n 3 -- "$1" | cut -c1-160
}

# What the demo of a run that began at $1 (seconds) told: "worse 2; same 1; cannot-tell 1".  Not good
# enough: no difference, or nothing that is the same.
verdicts() {
    local file words
    file=$(find results -name findings.json -newermt "@$1" 2>/dev/null | sort | tail -n 1)
    [[ $file ]] || { echo "no findings" && return 1; }
    words=$(.venv/bin/python - "$file" <<'END'
import collections, json, sys
with open(sys.argv[1]) as file:
    found = collections.Counter(f["verdict"] for f in json.load(file)["findings"] if f["primary"])
print("; ".join(f"{verdict} {number}" for verdict, number in found.most_common()))
END
    )
    echo "$words"
    [[ $words == *same* && ($words == *worse* || $words == *better*) ]]
}

run_once() {
    local number=$1 began epoch load seconds status=0 words='' output
    began=$(date +%Y-%m-%dT%H:%M:%S)
    epoch=$(date +%s)
    load=$(cut -d' ' -f1 /proc/loadavg)
    seconds=$SECONDS
    output=$scratch/said.txt
    timeout --signal=INT --kill-after=60 "$limit" "${command[@]}" >"$output" 2>&1 </dev/null \
        8>&- 9>&- &
    running=$!
    echo "$running" >"$scratch/INT"
    wait "$running" || status=$?
    rm -f -- "$scratch/INT"
    seconds=$((SECONDS - seconds))
    [[ -z $burden ]] || kill -0 "$burden" 2>/dev/null || {
        echo "soak: what was to be beside it ($beside) has ended" >&2
        exit 2
    }
    if ((status == 0)) && [[ $what == demos && ${command[*]} == "./dev demo" ]]; then
        words=$(verdicts "$epoch") || status=1
    fi
    if ((status)); then
        words=${words:+$words: }$(first_words "$output" | tr '\n\t' '; ')
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
done

{
    printf 'n\thead\tbegan\tseconds\texit\tload\twhat it said\n'
    done_before
} | column -t -s $'\t' || done_before
failed=$(done_before | awk -F'\t' '$5 != 0' | wc -l)
echo "soak: $what$([[ -z $beside ]] || echo " beside $beside"): $((number - failed)) of $number ended well"
((failed == 0))
