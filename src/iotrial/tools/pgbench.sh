#!/bin/sh
# One execution of iotrial's load `pgbench`: a PostgreSQL cluster of its own in a folder that iotrial
# has made for it (and removes), started, loaded by pgbench, and stopped.  POSIX sh, coreutils,
# util-linux, PostgreSQL.
#
#   pgbench.sh FOLDER SCALE CLIENTS THREADS SECONDS RATE SCRIPTS [NAME=VALUE…]
#
# SECONDS 0: the cluster is made, and no more.  RATE 0: as fast as it goes.  SCRIPTS are words of
# pgbench's --builtin, separated by commas.  NAME=VALUE are settings of the server.
# pgbench's result goes to standard output, its log of every transaction to files in this folder.
set -eu

folder=$1 scale=$2 clients=$3 threads=$4 seconds=$5 rate=$6 scripts=$7
shift 7
data=$folder/cluster
socket=@iotrial-pgbench-$$ # abstract: a path would be too long for one, or somebody's

say() { printf '%s\n' "pgbench: $*" >&2; }
fail() {
    case $* in
    *"No space left on device"*) say "$*, below $folder: make the target larger, or scale smaller" ;;
    *) say "$*" ;;
    esac
    exit 1
}
# The first complaint in a file: the last words are of the end that it led to.
complaint() { grep -m 1 -oE "($1): .*" "$2" || tail -n 1 "$2"; }

bin=
for each in $(printf "%s\n" /usr/lib/postgresql/*/bin /usr/pgsql-*/bin | sort -V); do
    [ ! -x "$each/initdb" ] || bin=$each/
done
[ -n "$bin" ] || command -v initdb >/dev/null || fail "no PostgreSQL server is here (Debian: postgresql)"

mine=$(pwd)
# The server refuses root.  $as are words.
# shellcheck disable=SC2086
if [ "$(id -u)" = 0 ]; then
    id postgres >/dev/null 2>&1 || fail "no user postgres is here, as whom the server would run"
    # It may look into folders that only root may enter, such as iotrial's own; change, only its own.
    as="setpriv --reuid=postgres --regid=postgres --clear-groups
        --inh-caps=+dac_read_search --ambient-caps=+dac_read_search --"
    [ -d "$data" ] || { mkdir -- "$data" && chown postgres:postgres -- "$data"; }
    cd -- "$folder"
    $as stat -- "$data/." >/dev/null || fail "user postgres cannot reach $data: make the folders above it searchable"
else
    as=
    mkdir -p -- "$data"
    cd -- "$folder"
fi

if [ ! -f "$data/PG_VERSION" ]; then
    # shellcheck disable=SC2086
    $as "${bin}initdb" -D "$data" -A peer -U postgres --no-locale -E UTF8 --no-instructions \
        >"$mine/initdb.out" 2>&1 || fail "initdb: $(complaint 'PANIC|FATAL|ERROR|error' "$mine/initdb.out")"
fi
# Whoever executes this may connect, and nobody else.
echo 'local all all peer map=own' >"$data/pg_hba.conf"
echo "own $(id -un) postgres" >"$data/pg_ident.conf"

settings=
for each; do
    shift
    set -- "$@" -c "$each"
    settings=yes
done
[ -n "$settings" ] || set --
# Nothing listens on the network.  What is killed is the server itself: a shell between would not
# hear an INT.
# shellcheck disable=SC2086
$as "${bin}postgres" -D "$data" -c listen_addresses= -c "unix_socket_directories=$socket" "$@" \
    >"$mine/server.log" 2>&1 &
server=$!
# A server that recovers from a full disk may not hear an INT; in a minute it is killed by a QUIT.
stop() {
    kill -INT "$server" 2>/dev/null || :
    left=300
    while [ "$left" -gt 0 ] && kill -0 "$server" 2>/dev/null; do
        left=$((left - 1))
        sleep 0.2
    done
    [ "$left" -gt 0 ] || kill -QUIT "$server" 2>/dev/null || :
    wait "$server" || :
}
trap stop EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
trap 'exit 129' HUP

tries=600
until "${bin}pg_isready" -q -h "$socket" -U postgres; do
    kill -0 "$server" 2>/dev/null ||
        fail "the server did not start: $(complaint 'PANIC|FATAL' "$mine/server.log")"
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || fail "the server was not ready within a minute"
    sleep 0.1
done

# A FATAL may be of our own question whether it is ready.
refused() { grep -m 1 -oE '(PANIC|ERROR): .*' "$mine/server.log"; }
ask() { "${bin}psql" -h "$socket" -U postgres -d postgres -qAt "$@"; }

if [ "$(ask -c "select count(*) from pg_class where relname = 'pgbench_branches'")" = 0 ] ||
    [ "$(ask -c 'select count(*) from pgbench_branches')" != "$scale" ]; then
    "${bin}pgbench" -h "$socket" -U postgres -i -q -s "$scale" postgres >"$mine/init.out" 2>&1 ||
        fail "pgbench -i: $(refused || tail -n 1 "$mine/init.out")"
fi
ask -c checkpoint
[ "$seconds" != 0 ] || exit 0

set -- -c "$clients" -j "$threads" -T "$seconds" --log "--log-prefix=$mine/transactions"
[ "$rate" = 0 ] || set -- "$@" -R "$rate"
rest=$scripts,
while [ -n "$rest" ]; do
    set -- "$@" -b "${rest%%,*}"
    rest=${rest#*,}
done
"${bin}pgbench" -h "$socket" -U postgres "$@" postgres || {
    code=$?
    why=$(refused) && fail "$why"
    exit "$code"
}
