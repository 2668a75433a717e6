#!/bin/sh
# Lets runc change the cgroup of a container as often as the file /run/updates/ID has it, and then waits. Without that
# file nothing waits. /run/updates/ID.came has a line for each change that was asked for.
for id; do :; done
allowed=/run/updates/$id
case " $* " in
*" update "*)
	if [ -e "$allowed" ]; then
		echo >> "$allowed.came"
		came=$(wc -l < "$allowed.came")
		while [ -e "$allowed" ] && [ "$came" -gt "$(cat "$allowed")" ]; do sleep 0.05; done
	fi
	;;
esac
exec /usr/sbin/runc "$@"
