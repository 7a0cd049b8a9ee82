#!/usr/bin/env bats
# vfix-runtime as an OCI hook of runc: bundles with the root filesystem of the legacy image, which run under the
# seccomp oracle.
# Variables come from helpers.bash.
# shellcheck disable=SC2154
load helpers

legacy_image=$medium_image

has_runc() { has_commands runc jq && has_own_root; }

setup() {
	requires root oracle legacy_image runc
	work=$BATS_TEST_TMPDIR
	id=vfix-hook-$$
	echo "{\"record\": \"$work/starts.jsonl\", \"cache_dir\": \"$work/cache\"}" >"$work/runtime.json"
	cp -a "$legacy_image/rootfs" "$work/rootfs"
	rm -rf "$work/rootfs/proc" && mkdir "$work/rootfs/proc"
	(cd "$work" && runc spec)
	mv "$work/config.json" "$work/spec.json"
}

teardown() { [ -z "${id-}" ] || runc delete --force "$id" 2>/dev/null || true; }

# start JQ-FILTER COMMAND...: runs a container of the bundle with the hook.
start() {
	local filter=$1
	shift
	jq --arg hook "$VFIX_RUNTIME" --arg config "$work/runtime.json" '.process.terminal = false | .process.args = $ARGS.positional | del(.linux.resources) |
		.hooks = {createRuntime: [{path: $hook, args: ["vfix-runtime", "--vfix-config", $config, "hook"]}]}' "$work/spec.json" --args -- "$@" |
		jq "$filter" >"$work/config.json"
	run "$novsyscall" runc run --bundle "$work" "$id"
	echo "$output"
}

record() { tail -n 1 "$work/starts.jsonl" | jq -r "$1"; }

# Its mounts are read-only, as several containers may share the directory.
@test "hook: the container dies without it and runs with it; exec sees the copies; nothing stays mounted or cached for it" {
	start 'del(.hooks)' bash -c clock
	expect 'status without' "$status" "$status_sigsys"
	start . bash -c 'clock && redis-server --version && grep -c /cache/ /proc/self/mountinfo'
	expect 'status with' "$status" 0
	expect_match output "$output" 'Redis server v='
	expect 'what is recorded' "$(record '.outcome + " " + .runtime')" 'patched hook'
	expect 'files recorded' "$(record '.files | length')" "$(tail -n 1 <<<"$output")"
	expect 'left of its own copies' "$(find "$work/cache" -path '*/private/*' -o -path '*/leases/*')" ''
	run grep "$work" /proc/self/mountinfo
	expect 'mounts on this machine' "$output" ''
}

@test "hook: of a container that vfix-runtime started does nothing" {
	jq '. + {fallback: true}' "$work/runtime.json" >"$work/r" && mv "$work/r" "$work/runtime.json"
	start . true # writes config.json
	: >"$work/starts.jsonl"
	run "$novsyscall" "$VFIX_RUNTIME" --vfix-config "$work/runtime.json" --runtime "$(command -v runc)" run --bundle "$work" "$id"
	expect "status: $output" "$status" 0
	expect 'what is recorded' "$(jq -r '"\(.runtime | sub(".*/"; "")) \(.outcome) \(.problems | length)"' "$work/starts.jsonl")" $'runc not started 0\nhook clean 0\nrunc patched 0'
}

@test "hook: the fallback is attached, with a container's own users, too" {
	local users='.linux.namespaces += [{type: "user"}] | .linux.uidMappings = [{containerID: 0, hostID: 200000, size: 65536}] | .linux.gidMappings = .linux.uidMappings'
	chmod o+x "$BATS_RUN_TMPDIR" "$BATS_FILE_TMPDIR" "$BATS_TEST_TMPDIR" 2>/dev/null || true
	for filter in . "$users"; do
		start "$filter | .annotations = {\"dev.vfix.fallback\": \"always\"}" bash -c 'cat /etc/ld.so.preload && ls -n /vfix && clock && grep -c libvfix.so /proc/self/maps && ! : >/vfix/x'
		expect "status with $filter" "$status" 0
		expect_match output "$output" /vfix/x86_64/libvfix.so
		expect_match 'owner in the container' "$output" ' 0 0 '
	done
}

@test "hook: limits of the container do not hold for it" {
	start '.linux.resources = {memory: {limit: 8388608}, pids: {limit: 6}, devices: []}' bash -c clock
	[[ $output != *cgroup* ]] || skip 'requires controllers: this machine has none of memory and pids'
	expect status "$status" 0
	expect 'what is recorded' "$(record .outcome)" patched
}

@test "hook: a start that cannot be patched: open starts, closed does not and says why" {
	jq '. + {limits: {names: 1}}' "$work/runtime.json" >"$work/r" && mv "$work/r" "$work/runtime.json"
	start . bash -c clock
	expect 'status, open' "$status" "$status_sigsys"
	expect 'what is recorded' "$(record '.outcome + " " + .reason')" 'unpatched more than 1 files and directories (limits.names)'
	jq '. + {fail_closed: true}' "$work/runtime.json" >"$work/r" && mv "$work/r" "$work/runtime.json"
	start . bash -c clock
	expect 'status, closed' "$status" 1
	expect_match 'what runc says' "$output" 'container not started (fail-closed): more than 1 files and directories (limits.names)'
	expect 'what is recorded' "$(record .outcome)" refused
}

@test "hook: of a root that is not the container's, or no state at all" {
	local state
	: >"$work/starts.jsonl"
	for state in '' '{' '{"pid": 0, "bundle": "/"}' "{\"id\": \"x\", \"pid\": $$, \"bundle\": \"$work\"}"; do
		start '.' true
		run "$VFIX_RUNTIME" --vfix-config "$work/runtime.json" hook <<<"$state"
		expect "status for '$state': $output" "$status" 0
		expect "outcome for '$state'" "$(record .outcome)" unpatched
		run "$VFIX_RUNTIME" --vfix-config "$work/runtime.json" --fail-closed hook <<<"$state"
		expect "status for '$state', closed: $output" "$status" 1
		expect_match 'the error' "$output" 'container not started (fail-closed)'
	done
	expect_match 'of a process with the mounts of this machine' "$output" 'no mount namespace of its own'
	run grep "$work" /proc/self/mountinfo
	expect 'mounts on this machine' "$output" ''
}

@test "hook: vfix nri begins where files in memory are not executable unless they say so" {
	requires own_root
	# It fails at its directory, which cannot be created.
	# shellcheck disable=SC2016 # for the inner shell
	run unshare --pid --fork --mount-proc sh -c 'echo 1 >/proc/sys/vm/memfd_noexec || exit 0; exec "$1" nri --hook-dir /proc/nope' sh "$VFIX"
	[ "$status" != 0 ] || skip 'this kernel has no vm.memfd_noexec'
	expect_match 'the error' "$output" 'mkdir /proc/nope: no such file or directory'
}
