#!/bin/sh
# Runs after a removal. The files of the machine stay: its certificate and those of `pilotctl workload entry configure`.
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
