#!/bin/sh
# Runs after an installation and after an upgrade, of deb and rpm packages. An upgrade does not restart the agent, because that
# ends the machine's connections: `systemctl restart meshpilot-agent` does it when that suits.
set -e
if command -v systemd-sysusers >/dev/null 2>&1; then
  systemd-sysusers meshpilot-agent.conf
elif ! getent passwd istio-proxy >/dev/null; then
  useradd --system --user-group --home-dir /var/lib/istio --shell /usr/sbin/nologin istio-proxy
fi
if command -v systemd-tmpfiles >/dev/null 2>&1; then
  systemd-tmpfiles --create meshpilot-agent.conf
else
  grep '^d ' /usr/lib/tmpfiles.d/meshpilot-agent.conf | while read -r _ path mode user group; do
    install -d -m "$mode" -o "$user" -g "$group" "$path"
  done
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
