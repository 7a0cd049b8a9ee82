#!/usr/bin/env bats
# bats file_tags=long
# Errors that no start may make: say that a container is patched while a program in it calls the page, and with fail_closed
# start such a container at all. Each case is a bundle in which some program calls the page, at a place where a look
# at the root filesystem, or at config.json, does not show it. Each is started with runc under the seccomp oracle:
# by vfix-runtime in runc's place and with vfix-runtime as a hook, with fail_closed and without.
#
# The bundles are the table of tests/hostile/starts, which knows what must become of each. Tests that need a bundle more
# than once are here.
# shellcheck disable=SC2034,SC2154
load helpers

has_crun() {
	fresh && legacy "$root/usr/bin/clock" && (cd "$b" && runc spec && jq 'del(.linux.resources)|.process.terminal=false|.process.args=["/bin/busybox", "true"]' config.json >c && mv c config.json)
	one_hierarchy crun run --bundle "$b" "$id" 2>&1 || { echo ' (crun starts no container here)' && return 1; }
}

# one_hierarchy COMMAND...: with control groups of version 2 alone: crun knows no hybrid of both.
one_hierarchy() {
	# shellcheck disable=SC2016 # expanded by the inner shell
	unshare --mount --propagation private sh -ec 'umount -R /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; exec "$@"' sh "$@"
}
has_runc() { has_commands runc jq busybox && has_own_root; }

setup_file() {
	legacy_program "$BATS_FILE_TMPDIR/clock"
	go -C "$BATS_TEST_DIRNAME/.." build -o "$BATS_FILE_TMPDIR/starts" ./tests/hostile/starts
}

setup() {
	requires root oracle runc
	work=$BATS_TEST_TMPDIR
	cache=$work/cache
	id=vfix-starts-$$
	b=$work/b
}

teardown() {
	[ -z "${id-}" ] || runc delete --force "$id" 2>/dev/null || true
}

legacy() { install -D "$BATS_FILE_TMPDIR/clock" "$1"; }

# fresh: an empty root filesystem with a shell, and none of the copies and indexes of earlier cases.
fresh() {
	rm -rf "$b" "$cache" "$work/host" "$work/files"
	root=$b/rootfs filter=. program=/usr/bin/clock want=patched
	mkdir -p "$root"/{bin,proc,dev,sys,usr/bin,data,tmp} "$work/host"
	cp "$(command -v busybox)" "$root/bin/"
}

bind() { echo ".mounts += [{destination: \"$1\", type: \"bind\", source: \"$2\", options: [\"${3:-bind}\"]}]"; }

# start DOOR CLOSED: leaves the status, the outcome on record, and what was said.
start() {
	echo "{\"record\": \"$work/starts.jsonl\", \"cache_dir\": \"$cache\", \"fail_closed\": $2, \"limits\": ${limits:-{\}}}" >"$work/runtime.json"
	: >"$work/starts.jsonl"
	(cd "$b" && rm -f config.json && runc spec)
	jq --arg program "$program" '.process.terminal = false | .process.args = [$program] | del(.linux.resources) | .root.readonly = true' "$b/config.json" |
		jq "$filter" >"$work/config.json"
	case $1 in
	none) cp "$work/config.json" "$b/" && run "$novsyscall" runc run --bundle "$b" "$id" ;;
	wrapper) cp "$work/config.json" "$b/" && run "$novsyscall" "$VFIX_RUNTIME" --vfix-config "$work/runtime.json" --runtime "$(command -v runc)" run --bundle "$b" "$id" ;;
	created) # and started, as engines do
		cp "$work/config.json" "$b/"
		# shellcheck disable=SC2016 # expanded by the inner bash
		run "$novsyscall" bash -c '
			runtime=("$1" --vfix-config "$2" --runtime "$(command -v runc)" --root "$3")
			"${runtime[@]}" create --bundle "$4" "$5" && "${runtime[@]}" start "$5"
			status=$?
			until "${runtime[@]}" delete "$5" || ((status)); do sleep 0.1; done
			"${runtime[@]}" delete --force "$5"
			exit "$status"' bash "$VFIX_RUNTIME" "$work/runtime.json" "$work/root" "$b" "$id"
		;;
	hook | killed)
		local hook=$VFIX_RUNTIME
		[ "$1" = hook ] || hook=$work/killed
		jq --arg hook "$hook" --arg config "$work/runtime.json" '.hooks.createRuntime += [{path: $hook, args: ["vfix-runtime", "--vfix-config", $config, "hook"]}]' \
			"$work/config.json" >"$b/config.json"
		run "$novsyscall" runc run --bundle "$b" "$id"
		;;
	esac
	recorded=$(jq -r .outcome "$work/starts.jsonl" | tail -n 1)
	echo "$1, fail_closed $2: status $status, recorded as $recorded: $output: $(cat "$work/starts.jsonl")"
}

# holds GROUP: the bundles of a group, each way.
holds() {
	mkdir "$work/bundles"
	chmod go+x "$BATS_RUN_TMPDIR"{,/test} "$work"
	run --separate-stderr "${in[@]}" "$BATS_FILE_TMPDIR/starts" -runtime "$VFIX_RUNTIME" -nri "${VFIX%/*}/vfix-nri" -oracle "$novsyscall" -work "$work/bundles" -real "${real-runc}" "$@"
	echo "$output"
	expect "status: $stderr" "$status" 0
}

@test "starts: what is in the root is patched [control]" { holds root; }
@test "starts: a mount whose source has the name of a copy" { holds forged; }
@test "starts: overlays that show a layer's files at another place" { holds overlays; }
@test "starts: a layer that was moved away after it was mounted" { holds stale; }
@test "starts: programs of volumes" { holds volumes; }
@test "starts: a root in the machine's own overlay" { holds 'own overlay'; }
@test "starts: programs that the runtime copies into a file system in memory" { holds tmpcopyup; }
@test "starts: what other hooks mount" { holds hooks; }
@test "starts: what mounts cover, and what the runtime does behind the hooks" { holds mounts; }
@test "starts: roots, and ways to them" { holds roots; }
@test "starts: programs that cannot be examined, and ways to start one" { holds programs; }
@test "starts: libraries that only the loader finds" { holds libraries; }
@test "starts: config.json and annotations" { holds config; }
@test "starts: command lines" { holds commands; }

@test "starts: with crun" {
	requires crun
	real=crun in=(one_hierarchy)
	holds root volumes tmpcopyup hooks mounts
}

# The fallback, where an image or the engine is in its way: no such container fails to start for it, none is said to
# have it, and nothing is made in a volume.
@test "starts: the fallback and symlinks at its place, or a volume" {
	local closed way
	for way in '/proc' '..' 'volume'; do
		for closed in false true; do
			fresh
			legacy "$root/usr/bin/clock"
			case $way in
			volume) mkdir "$root/etc" && filter=$(bind /etc "$work/host") ;;
			*) ln -s "$way" "$root/vfix" ;;
			esac
			filter+=' | .annotations = {"dev.vfix.fallback": "always"}'
			start wrapper "$closed"
			if [ "$closed" = true ]; then
				expect "$way, fail_closed" "$status $recorded" '1 refused'
			else
				expect "$way" "$status $recorded" '0 partial'
			fi
			expect_match 'the reason' "$(cat "$work/starts.jsonl")" 'fallback'
			expect 'files in the volume' "$(find "$work/host" -type f)" ''
		done
	done
}

@test "starts: a volume beyond the limits is said to be, and the root is patched" {
	local closed
	for closed in false true; do
		fresh
		legacy "$root/usr/bin/clock"
		legacy "$work/host/clock"
		mkdir -p "$work"/host/{1..60}
		filter=$(bind /data "$work/host")
		limits='{"names": 50}'
		start wrapper "$closed"
		if [ "$closed" = true ]; then
			expect 'fail_closed' "$status $recorded" '1 refused'
		else
			expect 'open' "$status $recorded" '0 partial'
		fi
		expect_match 'the reason' "$(cat "$work/starts.jsonl")" 'limits.names'
	done
}

# The runtime refuses a container after vfix has done its part: before the hooks, between them, and when it looks for the program.
@test "starts: a container that the runtime does not make is recorded as not started" {
	local way refused door waits
	for way in direct volume; do for door in wrapper created; do
		while read -r refused; do
			fresh
			legacy "$root/usr/bin/clock"
			legacy "$work/host/clock"
			[ "$way" = direct ] || filter=$(bind /data "$work/host")
			filter+=" | $refused"
			start $door false
			[ "$status" != 0 ] && [ "$status" != "$status_sigsys" ] || fail "$refused: status $status"
			expect "$way, $door, $refused" "$recorded" 'not started'
			expect 'patched files on record' "$(jq -s '[.[].files[]] | length' "$work/starts.jsonl")" 0
			waits=/run/vfix-start-$(printf '%s\0%s' "$work/root" "$id" | sha256sum | cut -d ' ' -f 1).json
			[ "$door" != created ] || [ ! -e "$waits" ] || fail "$waits"
			run_vfix runtime status --record "$work/starts.jsonl" --format json --vfix-config "$work/runtime.json"
			expect summary "$(jq -c '[.summary.starts, .summary.results["not started"], .summary.results.patched, (.starts | length)]' <<<"$output")" '[1,1,0,1]'
		done <<-'END'
			.process.rlimits += [{type: "RLIMIT_NONE", soft: 1, hard: 1}]
			.process.args = ["/usr/bin/none"]
			.process.cwd = "/usr/bin/clock"
			.hooks.createContainer = [{path: "/bin/false"}]
			.mounts += [{destination: "/tmp/x", type: "bind", source: "/none", options: ["bind"]}]
		END
		# The same bundle starts when its fault is gone, and is recorded once.
		start $door false
		program=/usr/bin/clock filter=.
		start $door false
		expect "$way, $door: status and record" "$status $recorded" '0 patched'
		run_vfix runtime status --record "$work/starts.jsonl" --format json --vfix-config "$work/runtime.json"
		expect summary "$(jq -c '[.summary.starts, .summary.results["not started"], .summary.results.patched, (.starts | length)]' <<<"$output")" '[1,0,1,1]'
		expect 'what stays in the bundle' "$(find "$b" -name '.vfix*')" ''
	done; done
}

# A record that a container which was never made has left counts for no other of its name, and users without root have none.
@test "starts: the record that waits is that of the start itself" {
	local waits
	fresh
	program=/bin/busybox filter='.process.args = ["/bin/busybox", "true"]'
	waits=/run/vfix-start-$(printf '%s\0%s' "$work/root" "$id" | sha256sum | cut -d ' ' -f 1).json
	echo '{"schema": 1, "outcome": "patched", "start": "stale"}' >"$waits"
	start created true
	expect "status and record: $output" "$status $(jq -r .outcome "$work/starts.jsonl" | xargs)" '0 clean'
	[ ! -e "$waits" ] || fail "$waits stays"
	chmod go+x "$BATS_RUN_TMPDIR"{,/test} "$work"
	waits=/run/vfix-start-$(printf '\0%s' "$id" | sha256sum | cut -d ' ' -f 1).json
	echo '{}' >"$waits" && chmod 600 "$waits"
	run setpriv --reuid 65534 --regid 65534 --clear-groups "$VFIX_RUNTIME" --runtime "$(command -v true)" start "$id"
	rm "$waits"
	expect 'the start of a container by another user' "$status $output" '0 '
}

# A hook that is killed: the container does not start, and nothing is left that harms the next start.
@test "starts: a hook that is killed anywhere" {
	local call n killed=0
	for call in unshare setns mount open_tree move_mount mount_setattr fsmount renameat unlinkat flock; do
		for n in 1 2 3; do
			fresh
			legacy "$root/usr/bin/clock"
			legacy "$work/host/clock"
			filter="$(bind /data "$work/host") | .annotations = {\"dev.vfix.fallback\": \"always\"}"
			program=/data/clock
			printf '#!/bin/sh\nexec %s %s %s %s "$@"\n' "$build/killat" "$call" "$n" "$VFIX_RUNTIME" >"$work/killed"
			chmod 755 "$work/killed"
			start "killed" true
			[ "$status" != 0 ] || break
			expect "killed at $call $n" "$status" 1
			killed=$((killed + 1))
			expect 'mounts that stay' "$(grep -c "$cache" /proc/self/mountinfo)" 0
			expect 'files in the volume' "$(find "$work/host" -type f)" "$work/host/clock"
			start hook true
			expect "the next start, after a kill at $call $n" "$status $recorded" '0 patched'
			expect 'left in tmp' "$(ls "$cache/v1/tmp")" ''
		done
	done
	echo "# killed $killed times" >&3
	[ "$killed" -ge 10 ] || fail "killed $killed times only"
}
