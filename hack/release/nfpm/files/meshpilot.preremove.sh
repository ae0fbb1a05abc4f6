#!/bin/sh
# Runs before a removal, and before an upgrade, which leaves the service running.
set -e
case "$1" in
upgrade | failed-upgrade | 1) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
  systemctl disable --now meshpilot.service
fi
