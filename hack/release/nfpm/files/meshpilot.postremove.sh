#!/bin/sh
# Runs after a removal. The authority's key and the configuration stay, also with `apt purge`: a lost key would end the mesh.
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
