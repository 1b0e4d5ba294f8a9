#!/bin/sh
# Hold what this pod sends to $MLBENCH_BANDWIDTH_MBIT Mbit/s: a token bucket with a small burst, so
# that short messages are held to it too. Needs the capability NET_ADMIN; runs before the worker.
set -u

# What Kubernetes shows of a container that failed; elsewhere there is no such file.
reason=/dev/termination-log

fail() {
    echo "cannot limit the bandwidth: $*" >&2
    [ ! -w $reason ] || echo "cannot limit the bandwidth: $*" >$reason
    exit 1
}

default_route_interface() {
    { ip route show default; ip -6 route show default; } | sed -n 's/.* dev \([^ ]*\).*/\1/p' | head -n 1
}

rate=${MLBENCH_BANDWIDTH_MBIT:-}
case $rate in
    '' | *[!0-9.]* | *.*.* | .) fail "\$MLBENCH_BANDWIDTH_MBIT must be a number of Mbit/s (not '$rate')" ;;
esac
command -v tc >/dev/null || fail "there is no tc: the image lacks iproute2"
interface=$(default_route_interface)
[ -n "$interface" ] || fail "this pod has no default route, so its interface is not known"

# What 4 ms take, and a few packets more: the kernel's timers need no larger one.
whole=${rate%%.*}
burst=$((${whole:-0} / 2 + 16))

if ! said=$(tc qdisc replace dev "$interface" root tbf \
        rate "${rate}mbit" burst "${burst}kb" latency 50ms 2>&1); then
    case $said in
        *"not permitted"*) fail "the capability NET_ADMIN is missing ($said)" ;;
        *nknown* | *"not found"* | *"No such file"*)
            fail "the node's kernel lacks the module sch_tbf: modprobe sch_tbf ($said)" ;;
        *) fail "$said" ;;
    esac
fi
echo "$interface sends at most $rate Mbit/s"
