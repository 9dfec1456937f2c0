#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# In the guest: a server that listens at the RDMA device's address, a file put and got over one mover, and what doctor says of
# it. `put_get.sh FOREBAY MOVER MIB`; the findings go to $GUEST_OUT/doctor.json. Ends with the first step that fails.
set -eu
forebay=$1 mover=$2 mib=$3
work=$(mktemp -d)
export HOME="$work" XDG_STATE_HOME="$work/state" FOREBAY_FABRIC="$mover"
cd "$work"

"$forebay" serve store --size 512MiB --memory 128MiB --fabric "$mover=$GUEST_ADDRESS:7401" --allow-plaintext >ready 2>server.log &
server=$!
until [ -s ready ] || ! kill -0 "$server" 2>/dev/null; do sleep 0.1; done
[ -s ready ] || { cat server.log >&2; exit 1; }

head -c "${mib}M" /dev/urandom >file
"$forebay" bucket create box
"$forebay" put file box/file --json
"$forebay" get box/file copy --json
sha256sum file copy
cmp file copy
"$forebay" doctor --json >"$GUEST_OUT/doctor.json"
kill -TERM "$server"
wait "$server"
