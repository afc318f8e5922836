#!/bin/sh
# Record the fio outputs of this folder again: one sub-folder per case, each with what fio wrote
# (fio.json, and stdout/stderr/exit) and source.txt (kernel, fio version, command, date).
#
#   sh tests/data/fio/record.sh [CASE]...      as root; makes one loop device and removes it
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
number=$((200 + $$ % 700))
disk=/dev/loop$number
cleanup() {
    losetup -d "$disk" 2>/dev/null || true
    perl -e 'open(F, "+<", "/dev/loop-control"); ioctl(F, 0x4C81, shift() + 0)' "$number" || true
    rm -rf "$work"
}
trap cleanup EXIT
truncate -s 64M "$work/disk.img"
dd if=/dev/urandom of="$work/disk.img" bs=1M count=64 conv=notrunc status=none
losetup --direct-io=on "$disk" "$work/disk.img"
cd "$work"
truncate -s 16M data

note() {  # note FOLDER COMMAND
    printf 'kernel %s\n%s\ndate %s\ncommand %s\n' \
        "$(uname -r)" "$(fio --version)" "$(date -u +%Y-%m-%d)" "$2" > "$1/source.txt"
}

want=" $* "
record() {  # record CASE ARGUMENT...
    name=$1
    shift
    case $want in "  " | *" $name "*) ;; *) return 0 ;; esac
    mkdir -p "$here/$name"
    status=0
    fio --eta=never --output=fio.json "$@" > stdout 2> stderr || status=$?
    for file in fio.json stdout stderr; do
        cp "$file" "$here/$name/$file"
    done
    echo "$status" > "$here/$name/exit"
    note "$here/$name" "fio --eta=never --output=fio.json $*"
    rm -f fio.json
}

plus=--output-format=json+
load="--filename=$disk --direct=1 --runtime=1 --time_based=1"

# shellcheck disable=SC2086  # $load is a list of words
{
    record randread $plus --name=randread $load --rw=randread --bs=4k --iodepth=32 --ioengine=io_uring
    record mix $plus --name=mix $load --rw=randrw --rwmixread=70 --bs=4k --iodepth=16 --ioengine=libaio
    record write $plus --name=write $load --rw=write --bs=64k --iodepth=8 --ioengine=io_uring
    record trim $plus --name=trim $load --rw=randtrim --bs=64k --iodepth=1 --ioengine=psync
    record two-jobs $plus --name=pair $load --rw=randread --bs=4k --iodepth=8 --ioengine=libaio --numjobs=2
    record grouped $plus --name=pair $load --rw=randread --bs=4k --iodepth=8 --ioengine=libaio --numjobs=2 --group_reporting=1
    record two-jobs-without-bins --output-format=json --name=pair $load --rw=randread --bs=4k --iodepth=8 --ioengine=libaio --numjobs=2
    record several-documents $plus --status-interval=1 --name=randread --filename=$disk --direct=1 --runtime=3 --time_based=1 --rw=randread --bs=4k --ioengine=psync
    record text-and-json --output-format=normal,json+ --name=randread $load --rw=randread --bs=4k --iodepth=4 --ioengine=libaio
    record not-steady $plus --name=unsteady --filename=$disk --direct=1 --runtime=3 --time_based=1 --rw=randread --bs=4k --ioengine=psync --steadystate=iops:0.0001% --steadystate_duration=2
    record steady $plus --name=steady --filename=$disk --direct=1 --runtime=10 --time_based=1 --rw=randread --bs=4k --ioengine=psync --steadystate=iops:90% --steadystate_duration=2
    record no-space $plus --name=full --filename=/dev/full --rw=write --size=1M --ioengine=psync
    record fraction-of-a-second $plus --name=half --filename=data --rw=read --runtime=0.5 --time_based=1
    record short $plus --name=short --filename=$disk --direct=1 --runtime=200ms --time_based=1 --rw=randread --bs=4k --iodepth=4 --ioengine=libaio
    record no-latencies $plus --name=quick $load --rw=randread --bs=4k --iodepth=4 --ioengine=libaio --gtod_reduce=1 --disk_util=0
    record lat-percentiles $plus --name=lat $load --rw=randread --bs=4k --iodepth=4 --ioengine=libaio --lat_percentiles=1 --slat_percentiles=1
    record unified $plus --name=both $load --rw=randrw --bs=4k --iodepth=4 --ioengine=libaio --unified_rw_reporting=both
    record generator-bound $plus --name=null --size=1G --runtime=1 --time_based=1 --rw=randread --bs=4k --ioengine=null
    record rate-limited $plus --name=limited $load --rw=randread --bs=4k --iodepth=4 --ioengine=libaio --rate_iops=200
}

cat > stages.fio <<EOF
; two sections with one name, one after the other, then two at a time
[global]
filename=$disk
direct=1
ioengine=libaio
iodepth=4
runtime=1
time_based
[mixed-read-4k]
rw=randrw
rwmixread=70
bs=4k
[mixed-read-4k]
stonewall
rw=randrw
rwmixread=40
bs=4k
[reader]
stonewall
rw=randread
bs=8k
[writer]
rw=write
bs=64k
EOF
record stonewall $plus stages.fio
case $want in "  " | *" stonewall "*) cp stages.fio "$here/stonewall/job.fio" ;; esac

cat > rates.fio <<'EOF'
[global]
rate_process=poisson
thread=1
group_reporting=1
lat_percentiles=1
clat_percentiles=0
description=offered rates: response p99 within 20000 us
ioengine=psync
ramp_time=400ms
[500]
numjobs=50
rate_iops=10
[2000]
numjobs=250
rate_iops=8
stonewall=1
[8000]
numjobs=250
rate_iops=32
stonewall=1
[100000]
numjobs=250
rate_iops=400
stonewall=1
EOF
record offered $plus --filename="$disk" --rw=randread --bs=4k --runtime=2s --direct=1 \
    --time_based=1 --randrepeat=0 --norandommap=1 rates.fio
case $want in "  " | *" offered "*) cp rates.fio "$here/offered/job.fio" ;; esac

interrupted() {  # interrupted CASE SIGNAL SECONDS ARGUMENT...
    name=$1 signal=$2 seconds=$3
    shift 3
    case $want in "  " | *" $name "*) ;; *) return 0 ;; esac
    mkdir -p "$here/$name"
    setsid fio --eta=never --output=fio.json "$@" > stdout 2> stderr &
    load=$!
    sleep "$seconds"
    kill "-$signal" "$load"
    status=0
    wait "$load" || status=$?
    cp fio.json stdout stderr "$here/$name/"
    echo "$status" > "$here/$name/exit"
    note "$here/$name" "fio --eta=never --output=fio.json $*   # SIG$signal after $seconds s"
    rm -f fio.json
}
interrupted interrupted-in-ramp INT 1 $plus --name=ramp --filename="$disk" --direct=1 \
    --ramp_time=5 --runtime=5 --time_based=1 --rw=randread --bs=4k --ioengine=psync
interrupted interrupted INT 1.5 $plus --name=cut --filename="$disk" --direct=1 \
    --runtime=5 --time_based=1 --rw=randread --bs=4k --iodepth=4 --ioengine=libaio

clients() {
    case $want in "  " | *" two-clients "*) ;; *) return 0 ;; esac
    mkdir -p "$here/two-clients"
    fio --server=ip:127.0.0.1,8701 > /dev/null 2>&1 & first=$!
    fio --server=ip:127.0.0.1,8702 > /dev/null 2>&1 & second=$!
    sleep 1
    printf '[remote]\nfilename=%s\ndirect=1\nrw=randread\nbs=4k\niodepth=4\nioengine=libaio\nruntime=1\ntime_based\n' "$disk" > remote.fio
    status=0
    fio --eta=never --output=fio.json $plus --client=ip:127.0.0.1,8701 remote.fio \
        --client=ip:127.0.0.1,8702 remote.fio > stdout 2> stderr || status=$?
    kill "$first" "$second"
    wait "$first" "$second" || true
    cp fio.json stdout stderr "$here/two-clients/"
    cp remote.fio "$here/two-clients/job.fio"
    echo "$status" > "$here/two-clients/exit"
    note "$here/two-clients" "fio --eta=never --output=fio.json $plus --client=ip:127.0.0.1,8701 job.fio --client=ip:127.0.0.1,8702 job.fio"
}
clients
