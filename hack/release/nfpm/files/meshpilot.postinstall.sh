#!/bin/sh
# Runs after an installation and after an upgrade, of deb and rpm packages.
set -e
if command -v systemd-sysusers >/dev/null 2>&1; then
  systemd-sysusers meshpilot.conf
elif ! getent passwd meshpilot >/dev/null; then
  useradd --system --user-group --home-dir /var/lib/meshpilot --shell /usr/sbin/nologin meshpilot
fi
install -d -m 0700 -o meshpilot -g meshpilot /var/lib/meshpilot
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  systemctl try-restart meshpilot.service
fi
