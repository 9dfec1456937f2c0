# SPDX-License-Identifier: Apache-2.0
# The guest's hosts: host I has the network device hI, the address 10.9.0.I and the Soft-RoCE device rxeI. One host needs no network;
# several are joined by a switch, and what goes from one address to another passes it, as between machines: `tc qdisc ... netem` and
# `ip link set hI down` do to the traffic what they say. Run once by init.sh, with `hosts` set; writes /run/guest/hosts, which the
# command's shell reads.
#
# They are not network namespaces: in Debian's 6.1 a Soft-RoCE device can be made in a namespace, but its driver sends and receives by
# the first namespace's sockets and routes, so that no queue pair there reaches another.
# shellcheck shell=sh
set -eu
: "${hosts:?}"

# The driver's largest transfer unit is 4096; packets that fit it are a quarter of the work.
mtu=4500

if [ "$hosts" -eq 1 ]; then
  switched=
else
  switched=yes
  echo 1 >/proc/sys/net/ipv4/conf/all/accept_local
  echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
  echo 0 >/proc/sys/net/ipv4/conf/default/rp_filter
fi

# One process for all of it: under emulation each one takes a tenth of a second.
{
  if [ -z "$switched" ]; then
    echo "link add h1 mtu $mtu type dummy"
  else
    echo "link add switch mtu $mtu type bridge forward_delay 0 mcast_snooping 0"
    echo "link set switch up"
    # After the rules below: the kernel's own table of local addresses, which would otherwise send everything by \`lo\`.
    echo "rule add pref 100 lookup local"
    echo "rule del pref 0"
  fi
  host=1
  while [ "$host" -le "$hosts" ]; do
    address=10.9.0.$host
    table=$((100 + host))
    if [ -n "$switched" ]; then
      echo "link add h$host mtu $mtu type veth peer name port$host mtu $mtu"
      echo "link set port$host master switch up"
    fi
    echo "addr add $address/24 dev h$host ${switched:+noprefixroute}"
    echo "link set h$host up"
    if [ -n "$switched" ]; then
      # What arrived for this host is its own; what it sends goes out of its device, unless it is for itself.
      echo "rule add pref 10 iif h$host to $address lookup local"
      echo "rule add pref 20 from $address lookup $table"
      echo "route add local $address dev h$host table $table"
      echo "route add 10.9.0.0/24 dev h$host src $address table $table"
    fi
    host=$((host + 1))
  done
} >/run/guest/network
ip -b /run/guest/network

host=1
while [ "$host" -le "$hosts" ]; do
  echo "link add rxe$host type rxe netdev h$host"
  host=$((host + 1))
done >/run/guest/devices
rdma -b /run/guest/devices

if [ "$hosts" -gt 1 ]; then
  echo "note $hosts hosts in one network namespace (this kernel's Soft-RoCE works in no other): devices rxe1 to rxe$hosts at 10.9.0.1 to 10.9.0.$hosts, joined by a switch"
fi
cat >/run/guest/hosts <<END
export GUEST_HOSTS=$hosts GUEST_DEVICE=rxe1 GUEST_ADDRESS=10.9.0.1
END
