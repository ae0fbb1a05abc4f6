#!/bin/sh
# Runs before a removal, and before an upgrade, which leaves the agent running. Without the agent, redirected traffic would be
# lost: the rules are removed too.
set -e
case "$1" in
upgrade | failed-upgrade | 1) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
  systemctl disable --now meshpilot-agent.service
  systemctl stop meshpilot-capture.service
fi
