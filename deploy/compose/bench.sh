#!/bin/sh
# Runs inside the memtier_benchmark container of docker-compose.yml: the same load directly and
# through the proxy, taking turns, 4 threads of 50 connections, values of 32 bytes.
set -eu

SECONDS_PER_RUN=${SECONDS_PER_RUN:-10}
DIRECT=${DIRECT:-valkey:6379}
PROXY=${PROXY:-sluiced:6380}

# load NAME HOST:PORT PIPELINE RATIO prints memtier's line of totals.
load() {
	printf '%-22s ' "$1"
	memtier_benchmark --server="${2%:*}" --port="${2#*:}" --protocol=redis \
		--threads=4 --clients=50 --pipeline="$3" --ratio="$4" --data-size=32 \
		--key-maximum=100000 --key-pattern=R:R --test-time="$SECONDS_PER_RUN" \
		--print-percentiles=50,99,99.9 --hide-histogram 2>/dev/null |
		awk '/^Totals/ {print $0; found = 1} END {if (!found) print "no result: is the server there?"}'
}

echo "operations/s, hits/s, misses/s, mean, p50, p99 and p99.9 in milliseconds, KB/s"
for pipeline in 1 16; do
	for ratio in 1:0 0:1; do
		case $ratio in
		1:0) operation=SET ;;
		*) operation=GET ;;
		esac
		echo "-- $operation, pipeline $pipeline"
		load direct "$DIRECT" "$pipeline" "$ratio"
		load 'through the proxy' "$PROXY" "$pipeline" "$ratio"
	done
done
