#!/usr/bin/env bats
# Rules of a container's start that need the program itself; the others are Go tests of host/node.
# Variables come from helpers.bash.
# shellcheck disable=SC2154
load helpers

has_strace() { has_commands strace; }

setup() {
	requires root own_root fixtures
	work=$BATS_TEST_TMPDIR
	mkdir -p /etc/vfix "$work"/{lower/lib,upper,work,bundle/rootfs,state}
	chmod 700 "$work/state"
	mount -t tmpfs -o mode=755 none /etc/vfix
	printf '#!/bin/sh\necho started >>"%s"\n' "$work/started" >"$work/runtime"
	chmod 755 "$work/runtime"
	configure '{}'
	cp "$build/fixtures/libstubs.so" "$work/lower/lib/libc.so.6"
	mount_root
}

teardown() {
	umount "$work/bundle/rootfs" || true
	umount /etc/vfix
}

mount_root() {
	echo '{"root": {"path": "rootfs"}}' >"$work/bundle/config.json"
	mount -t overlay -o "lowerdir=$work/lower,upperdir=$work/upper,workdir=$work/work" none "$work/bundle/rootfs"
}

# fresh: another container of the same layers.
fresh() {
	umount "$work/bundle/rootfs"
	rm -rf "$work/upper" "$work/work"
	mkdir "$work/upper" "$work/work"
	mount_root
}

# sign: a file that vouches for its content stays as it is.
sign() {
	cp "$build/fixtures/libstubs.so" "$work/lower/lib/signed.so"
	python3 -c 'import os, sys; os.setxattr(sys.argv[1], "security.ima", b"\1hash")' "$work/lower/lib/signed.so"
	rm -rf "$work"/state/*
	fresh
}

# configure MEMBERS
configure() { jq -n --arg state "$work/state" --arg runtime "$work/runtime" "{state: \$state, runtime: \$runtime} + $1" >/etc/vfix/vfix.json; }

# start [COMMAND...]: runs vfix-runtime by the command.
start() { run "$@" "$VFIX_RUNTIME" --log "$work/log" --log-format json create --bundle "$work/bundle" c1; }

record() { tail -n 1 "$work/state/starts.jsonl" | jq -r "$1"; }

@test "vfix-runtime: each patched file is written to the disk before it has its name" {
	requires strace
	cp "$work/lower/lib/libc.so.6" "$work/lower/lib/other.so"
	start strace -f -qq -y -e trace=fsync,renameat -o "$work/trace"
	expect status "$status" 0
	expect 'the record' "$(record '.patched | length')" 2
	# Both fsyncs have ended before the first rename begins.
	run sed -n -E 's/^[0-9]+ +(<\.\.\. )?(fsync|renameat).*(\.vfix-staging|resumed).* = 0$/\2/p' "$work/trace"
	expect 'order of calls' "$(head -n 4 <<<"$output" | tr '\n' ' ')" 'fsync fsync renameat renameat '
}

@test "vfix-runtime: a directory of 100,000 entries takes little memory" {
	mount -t tmpfs none "$work/lower"
	mkdir "$work/lower/many"
	(cd "$work/lower/many" && seq -f 'a-file-with-a-long-name-%.0f' 100000 | xargs touch)
	fresh
	start /usr/bin/python3 -c 'import os, sys; pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ); print(os.wait4(pid, 0)[2].ru_maxrss)'
	umount "$work/bundle/rootfs" "$work/lower"
	mount_root
	expect status "$status" 0
	[ "$output" -lt $((20 << 10)) ] || fail "got $output KiB"
}

@test "vfix-runtime: only create and run are starts" {
	for arguments in 'exec c create' 'restore --bundle BUNDLE c1' 'state create' '--version' 'create --help'; do
		read -ra words <<<"${arguments//BUNDLE/$work/bundle}"
		run "$VFIX_RUNTIME" "${words[@]}"
		expect "status of $arguments" "$status" 0
	done
	expect 'calls of the runtime' "$(wc -l <"$work/started")" 5
	[ ! -e "$work/state/starts.jsonl" ] || fail "recorded: $(cat "$work/state/starts.jsonl")"
	start
	expect 'the record of a start' "$(record .result)" patched
}

@test "vfix-runtime: a broken configuration, no place for the record: the container starts, with a line in the log" {
	local lost='vfix: mkdir /dev/null: not a directory; no record: mkdir /dev/null: not a directory'
	echo '{"required": "yes"}' >/etc/vfix/vfix.json
	ln -s "$work/runtime" "$work/runc"
	PATH=$work:$PATH start
	expect status "$status" 0
	expect 'calls of the runtime' "$(wc -l <"$work/started")" 1
	expect_match 'the log' "$(cat "$work/log")" '"level":"warning","msg":"vfix: /etc/vfix/vfix.json: json: cannot unmarshal'
	configure '{state: "/dev/null/vfix"}'
	start
	expect_match 'the last line of the log' "$(tail -n 1 "$work/log")" "\"level\":\"warning\",\"msg\":\"$lost\""
	run "$VFIX_RUNTIME" create --bundle "$work/bundle" c1
	expect 'stderr without a log' "$output" "$lost"
	expect 'calls of the runtime' "$(wc -l <"$work/started")" 3
	expect 'files in the layer' "$(find "$work/upper" -type f)" ''
}

@test "vfix-runtime: required refuses a container in which something is left, and says what" {
	configure '{required: true}'
	start
	expect 'status of one that is patched' "$status" 0
	rm "$work/started"
	sign
	start
	expect status "$status" 1
	[ ! -e "$work/started" ] || fail 'the runtime was executed'
	expect_match 'the log' "$(cat "$work/log")" '/lib/signed.so: '
	expect 'the record' "$(record .result)" refused
	configure '{}'
	start
	expect 'status without it' "$status" 0
}

# hook [STATE]: runs the hook with the state of the container, or another text.
hook() { run "$VFIX_RUNTIME" hook <<<"${1-{\"id\": \"c1\", \"pid\": $$, \"bundle\": \"$work/bundle\"\}}"; }

@test "vfix-runtime: as a hook it patches, refuses what is required, and lets the rest start" {
	local state
	sign
	hook
	expect "status: $output" "$status" 0
	expect 'the record' "$(record '.door + " " + .container + " " + .result')" 'hook c1 partial'
	! cmp "$work/lower/lib/libc.so.6" "$work/bundle/rootfs/lib/libc.so.6" || fail 'the file is not patched'
	configure '{required: true}'
	hook
	expect 'status of what is required' "$status" 1
	expect_match 'the error' "$output" 'container not started'
	for state in '' '{' '{"bundle": "/none"}'; do
		hook "$state"
		expect "status for '$state': $output" "$status" 0
	done
}
