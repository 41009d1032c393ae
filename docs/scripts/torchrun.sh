#!/usr/bin/env bash
# Trains on several machines: start this on each of them, with NODE=0 on the first, NODE=1 on the next, and so on.
#
#   FIRST=10.0.0.1 NODES=2 NODE=0 PER_NODE=8 ./torchrun.sh language data.train=texts/ --out /shared/runs/large
#
# The folder of the run and the data have to be where all machines see them. If a process dies, all start again, up to
# RESTARTS times, and go on from the last checkpoint. Machines wait for each other for PATIENCE seconds.
set -euo pipefail

: "${FIRST:?the address of the first machine}" "${NODES:?the number of machines}" "${NODE:?the number of this machine}"
PER_NODE=${PER_NODE:-8}
PORT=${PORT:-29400}
PARALLEL=${PARALLEL:-data:$((NODES * PER_NODE))}
PATIENCE=${PATIENCE:-300}

# torchrun would end with a traceback.
until ((NODE == 0)) || timeout 5 bash -c "exec 3<> '/dev/tcp/$FIRST/$PORT'" 2> /dev/null; do
  if ((SECONDS >= PATIENCE)); then
    echo "headway: machine $NODE cannot reach the first one, $FIRST port $PORT: start it, or open the port" >&2
    exit 2
  fi
  sleep 1
done

exec torchrun \
  --nnodes="$NODES" --node-rank="$NODE" --nproc-per-node="$PER_NODE" --max-restarts="${RESTARTS:-3}" \
  --rdzv-backend=c10d --rdzv-endpoint="$FIRST:$PORT" --rdzv-conf="is_host=$((NODE == 0)),join_timeout=$PATIENCE" \
  -m headway train "$@" train.parallel="$PARALLEL" train.nodes="$NODES"
