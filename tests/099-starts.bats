#!/usr/bin/env bats
# bats file_tags=long
# Two errors that no start may make: to report that a container is patched while a program in it calls the page,
# and with fail_closed to start such a container at all. Each case is a bundle in which some program calls the
# page, in a place that the root filesystem and config.json do not show. Each is started with runc under the
# seccomp oracle: by vfix-runtime in place of runc and with vfix-runtime as a hook, with fail_closed and without.
#
# The bundles are the table of tests/hostile/starts, which has the expected result of each.
# shellcheck disable=SC2034,SC2154
load helpers

has_crun() {
	local b=$work/b
	mkdir -p "$b"/rootfs/{bin,proc,dev,sys} && cp "$(command -v busybox)" "$b/rootfs/bin/" && (cd "$b" && runc spec &&
		jq 'del(.linux.resources)|.process.terminal=false|.process.args=["/bin/busybox", "true"]' config.json >c && mv c config.json)
	one_hierarchy crun run --bundle "$b" "vfix-crun-$$" 2>&1 || { echo ' (crun starts no container here)' && return 1; }
}

# one_hierarchy COMMAND...: with only control groups of version 2, as crun does not support a hybrid of both.
one_hierarchy() {
	# shellcheck disable=SC2016 # expanded by the inner shell
	unshare --mount --propagation private sh -ec 'umount -R /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; exec "$@"' sh "$@"
}
has_erofs() { has_commands mkfs.erofs && { grep -qw erofs /proc/filesystems || modprobe erofs 2>/dev/null || { echo "this kernel has no EROFS" && return 1; }; }; }
has_fuse() { [ -e /dev/fuse ] || { echo "no /dev/fuse" && return 1; }; }
has_runc() { has_commands runc jq busybox && has_own_root; }

setup_file() {
	go -C "$BATS_TEST_DIRNAME/.." build -o "$BATS_FILE_TMPDIR/starts" ./tests/hostile/starts
	"$BATS_FILE_TMPDIR/starts" -programs "$BATS_FILE_TMPDIR/programs"
}

setup() {
	requires root oracle runc
	work=$BATS_TEST_TMPDIR
}

# holds GROUP: runs the bundles of a group in each way.
holds() {
	mkdir "$work/bundles"
	chmod go+x "$BATS_RUN_TMPDIR"{,/test} "$work"
	run --separate-stderr "${in[@]}" "$BATS_FILE_TMPDIR/starts" -programs "$BATS_FILE_TMPDIR/programs" -runtime "$VFIX_RUNTIME" -nri "${VFIX%/*}/vfix-nri" -oracle "$novsyscall" -killat "$build/killat" -work "$work/bundles" -real "${real-runc}" "$@"
	echo "$output"
	expect "status: $stderr" "$status" 0
}

@test "starts: what is in the root is patched [control]" { holds root; }
@test "starts: a mount whose source has the name of a copy" { holds forged; }
@test "starts: overlays that show a layer's files at another place" { holds overlays; }
@test "starts: a layer that was moved away after it was mounted" { holds stale; }
@test "starts: programs of volumes" { holds volumes; }
@test "starts: what an automounter mounts" { holds automounter; }
@test "starts: a root in the machine's own overlay" { holds 'own overlay'; }
@test "starts: programs that the runtime copies into a file system in memory" { holds tmpcopyup; }
@test "starts: what other hooks mount" { holds hooks; }
@test "starts: what mounts cover, and what the runtime does behind the hooks" { holds mounts; }
@test "starts: roots, and ways to them" { holds roots; }
@test "starts: servers of files that lie to vfix" { requires fuse && holds servers; }
@test "starts: images of file systems that no mkfs makes" { holds images; }
@test "starts: EROFS, as a volume, a root and a layer" { requires erofs && holds erofs; }
@test "starts: programs that cannot be examined, and ways to start one" { holds programs; }
@test "starts: libraries that only the loader finds" { holds libraries; }
@test "starts: config.json and annotations" { holds config; }
@test "starts: command lines" { holds commands; }

@test "starts: the fallback and symlinks at its place, or a volume" { holds fallback; }
@test "starts: a volume beyond the limits is said to be, and the root is patched" { holds limits; }
@test "starts: a container that the runtime does not make is recorded as not started" { holds 'not started'; }
@test "starts: the record that waits is that of the start itself" { holds waits; }
@test "starts: a hook that is killed anywhere" { holds killed; }

@test "starts: with today's runc" {
	real=$("$BATS_TEST_DIRNAME/engines/proxied" runc)/runc
	holds root tmpcopyup hooks mounts programs destinations
}

@test "starts: with crun" {
	requires crun
	real=crun in=(one_hierarchy)
	holds root volumes tmpcopyup hooks mounts crun
}
