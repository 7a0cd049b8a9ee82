#!/usr/bin/env bats
# bats file_tags=long
# vfix-runtime under container engines, which run under the seccomp oracle: each process of a container that calls the
# vsyscall page is killed. The image is the legacy one, unmodified.
# Variables come from helpers.bash.
# shellcheck disable=SC2154
load helpers

legacy_image=$medium_image

has_engines() { has_commands containerd ctr podman runc jq; }
# An overlay as the root of an engine needs layers on another file system than an overlay.
has_overlay() { can_overlay "$BATS_TEST_TMPDIR" || { echo 'overlays cannot be mounted here' && return 1; }; }

setup_file() {
	load helpers
	# The files of this node: this test file has a mount namespace of its own.
	export node=$BATS_FILE_TMPDIR/node
	mkdir -p /etc/vfix "$node"
	mount -t tmpfs -o mode=755 none /etc/vfix
	jq -n --arg state "$node" '{state: $state}' >/etc/vfix/vfix.json
	dockerd_config=$(jq -n --arg path "$VFIX_RUNTIME" '{runtimes: {vfix: {path: $path}}}') start_legacy_docker
}

teardown_file() {
	load helpers
	stop_services
	umount /etc/vfix
}

setup() { requires root oracle legacy_image own_root overlay; }

plain() { run docker run --rm --network none "$@"; }
fixed() { run docker run --rm --network none --runtime vfix "$@"; }
record() { tail -n 1 "$node/starts.jsonl" | jq -r "$1"; }

@test "vfix-runtime: docker: run, --read-only, --user, a setuid program" {
	requires docker
	plain redis:legacy bash -c 'echo up'
	expect 'status without' "$status" "$status_sigsys"
	fixed redis:legacy bash -c 'redis-server --version; clock'
	expect 'status with' "$status" 0
	expect_match output "$output" 'Redis server v='
	fixed --read-only --user 1234:5678 redis:legacy bash -c 'stat -c %a:%u:%g /usr/local/bin/clock && clock && ! echo >/file'
	expect 'status of --read-only' "$status" 0
	expect_match output "$output" 4755:0:0
	expect 'the cache' "$(record .cache)" hit
}

@test "vfix-runtime: docker: exec, restart, a package manager's new libc" {
	requires docker
	docker run --detach --name again --network none --runtime vfix redis:legacy redis-server --save ''
	poll docker exec again redis-cli PING
	docker restart --time 5 again
	poll docker exec again redis-cli PING
	expect 'the restart' "$(record '.result + " " + .cache + " " + (.examined // 0 | tostring)')" 'patched hit 0'
	docker cp "$legacy_image/rootfs/usr/lib/x86_64-linux-gnu/libc.so.6" again:/usr/lib/x86_64-linux-gnu/libc.so.6
	docker restart --time 5 again
	poll docker exec again redis-cli PING
	docker rm --force again
}

@test "vfix-runtime: docker: six cold starts at once examine the image once" {
	requires docker
	rm -rf "${node:?}"/*
	for n in 1 2 3 4 5 6; do
		docker run --rm --network none --runtime vfix redis:legacy bash -c "echo up $n" >"$BATS_TEST_TMPDIR/$n" &
	done
	wait
	for n in 1 2 3 4 5 6; do
		expect_match "container $n" "$(cat "$BATS_TEST_TMPDIR/$n")" "up $n"
	done
	expect 'misses' "$(jq -r .cache "$node/starts.jsonl" | grep -c miss)" 1
}

@test "vfix-runtime: docker commit includes the patched files" {
	requires docker
	docker run --name base --network none --runtime vfix redis:legacy bash -c 'echo up'
	docker commit base committed:1
	docker rm base
	plain committed:1 bash -c 'echo up'
	expect 'status of the committed image, without vfix' "$status" 0
}

@test "vfix-runtime: containerd: overlayfs and native snapshots" {
	requires engines
	local dir=$BATS_TEST_TMPDIR/c snapshotter
	mkdir "$dir"
	printf 'version = 2\nroot = "%s/root"\nstate = "%s/state"\n[grpc]\naddress = "%s/s"\n' "$dir" "$dir" "$dir" >"$dir/config.toml"
	BATS_FILE_TMPDIR=$dir start_service containerd "$novsyscall" containerd --config "$dir/config.toml"
	BATS_FILE_TMPDIR=$dir await_service containerd ctr --address "$dir/s" version
	for snapshotter in overlayfs native; do
		ctr --address "$dir/s" images import --snapshotter "$snapshotter" "$legacy_image/redis-legacy.tar"
		in_containerd() { run ctr --address "$dir/s" run --rm --snapshotter "$snapshotter" "$@" bash -c clock; }
		in_containerd docker.io/library/redis:legacy c1
		expect "status without, $snapshotter" "$status" "$status_sigsys"
		in_containerd --runc-binary "$VFIX_RUNTIME" --read-only docker.io/library/redis:legacy c1
		expect "status with, $snapshotter: $output" "$status" 0
	done
	BATS_FILE_TMPDIR=$dir stop_services
}

@test "vfix-runtime: podman: runtime and hook, with users of its own, the fallback, --rootfs" {
	requires engines
	local hooks=$BATS_TEST_TMPDIR/hooks
	mkdir "$hooks"
	jq -n --arg path "$VFIX_RUNTIME" '{version: "1.0.0", hook: {path: $path, args: ["vfix-runtime", "hook"], timeout: 30}, when: {always: true}, stages: ["createRuntime"]}' >"$hooks/99-vfix.json"
	podman() {
		env -u DOCKER_CONFIG "$novsyscall" /usr/bin/podman --root "$BATS_TEST_TMPDIR/store" --runroot "$BATS_TEST_TMPDIR/runroot" \
			--storage-driver overlay --cgroup-manager cgroupfs --events-backend file "$@"
	}
	# The machine may allow fewer open files than podman asks for.
	in_podman() { run podman "${@:1:2}" run --rm --network none --pull never --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 "${@:3}"; }
	podman load --quiet --input "$legacy_image/redis-legacy.tar"
	local image=docker.io/library/redis:legacy
	in_podman --runtime runc "$image" bash -c clock
	expect 'status without' "$status" "$status_sigsys"
	in_podman --runtime "$VFIX_RUNTIME" --read-only --annotation dev.vfix.fallback=true "$image" bash -c 'clock && cat /etc/ld.so.preload'
	expect 'status of the runtime' "$status" 0
	expect_match output "$output" /vfix/x86_64/libvfix.so
	in_podman --hooks-dir "$hooks" --runtime runc "$image" bash -c clock
	expect 'status of the hook' "$status" 0
	expect 'the record' "$(record '.door + " " + .cache')" 'hook hit'
	in_podman --hooks-dir "$hooks" --runtime runc --uidmap 0:100000:65536 "$image" bash -c 'clock && stat -c %u:%g /usr/local/bin/clock'
	expect 'status with users of its own' "$status" 0
	expect_match output "$output" 0:0
	cp -a "$legacy_image/rootfs" "$BATS_TEST_TMPDIR/rootfs"
	in_podman --runtime "$VFIX_RUNTIME" --rootfs "$BATS_TEST_TMPDIR/rootfs" bash -c clock
	expect 'status of a directory' "$status" "$status_sigsys"
	expect_match 'the record' "$(record .reason)" 'no engine made'
	podman rmi --force --all
}
