# In a guest whose first program is systemd: its units have started, and new ones start and stop.
# shellcheck shell=bash disable=SC2154
. /guest/lib.sh
work=$(mktemp -d)
same "the first program" systemd "$(cat /proc/1/comm)"
same "units that failed" "" "$(systemctl --failed --plain --no-legend)"
same "what systemd has reached" active "$(systemctl is-active multi-user.target)"
printf '[Service]\nExecStart=/bin/sleep 1000\n' > /run/systemd/system/probe.service
systemctl daemon-reload
systemctl start probe
same "a new unit" active "$(systemctl is-active probe)"
systemctl stop probe
refused systemctl is-active probe
null_disk n0 size=16
patiently test -b "$device"
