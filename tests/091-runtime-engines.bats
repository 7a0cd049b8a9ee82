#!/usr/bin/env bats
# bats file_tags=long
# vfix-runtime under container engines, which run under the seccomp oracle: each process of a container that calls
# the vsyscall page is killed. The image is the legacy one, unmodified.
load helpers

setup_file() {
	load helpers
	export bin=$BATS_FILE_TMPDIR/bin cache=$BATS_FILE_TMPDIR/cache
	mkdir "$bin"
	ln -s "$VFIX_RUNTIME" "$bin/vfix-runtime"
	# For engines that cannot pass arguments to a runtime.
	printf '#!/bin/sh\nexec %q --cache-dir %q --fail-closed "$@"\n' "$bin/vfix-runtime" "$cache" >"$bin/wrapped"
	chmod 755 "$bin/wrapped"
	# Roots that are directories, which are copied for each container; one test has overlays.
	dockerd_storage=vfs dockerd_config=$(runtime_config) start_legacy_docker "$legacy_image" # with dpkg
	[ -z "${DOCKER_HOST:-}" ] || docker load --quiet --input "$small_image/redis-legacy.tar" # small:legacy
}

teardown_file() {
	load helpers
	stop_services
}

setup() {
	requires docker oracle legacy_image
}

# An engine of a single test keeps its data in the test's directory.
teardown() {
	BATS_FILE_TMPDIR=$BATS_TEST_TMPDIR stop_services
	chattr -R -f -i "$BATS_TEST_TMPDIR" || true # hotfix's copies
}

# own_dockerd CONFIG STORAGE [WRAPPER...]: an engine for one test, with the small image.
own_dockerd() {
	# shellcheck disable=SC2034 # start_dockerd looks at them
	local dockerd_config=$1 dockerd_storage=$2 BATS_FILE_TMPDIR=$BATS_TEST_TMPDIR
	shift 2
	mkdir -p "$BATS_FILE_TMPDIR/dockerd/data"
	start_dockerd "$novsyscall" "$@"
	docker load --quiet --input "$small_image/redis-legacy.tar"
}

# Whether overlays can be mounted here.
has_overlay() {
	# shellcheck disable=SC2016 # for the shell in there
	unshare --mount sh -c 'mount -t tmpfs none "$1" && mkdir "$1/l" "$1/u" "$1/w" "$1/m" && mount -t overlay -o "lowerdir=$1/l,upperdir=$1/u,workdir=$1/w" none "$1/m"' - "$BATS_TEST_TMPDIR" ||
		{ echo 'overlays cannot be mounted here' && return 1; }
}
has_podman() { has_commands podman; }

# runtime_config: a daemon.json with the runtime in it.
runtime_config() {
	jq -n --arg path "$bin/vfix-runtime" --arg cache "$cache" \
		'{runtimes: {vfix: {path: $path, runtimeArgs: ["--cache-dir", $cache, "--fail-closed"]}}}'
}

plain() { run docker run --rm --network none "$@"; }
fixed() { run docker run --rm --network none --runtime vfix "$@"; }

@test "vfix-runtime: docker run dies without it and runs with it; nothing calls the page" {
	plain redis:legacy bash -c 'echo up'
	expect 'status without' "$status" "$status_sigsys"
	fixed redis:legacy bash -c 'echo up; redis-server --version; callrate 20'
	expect 'status with' "$status" 0
	expect_match output "$output" 'Redis server v='
}

@test "vfix-runtime: docker exec and docker restart" {
	requires own_root
	docker run --detach --name again --network none --runtime vfix redis:legacy redis-server --save ''
	poll docker exec again redis-cli PING
	expect exec "$(docker exec again bash -c 'redis-cli PING')" PONG
	docker restart --time 5 again
	poll docker exec again redis-cli PING
	expect 'exec after a restart' "$(docker exec again bash -c 'redis-cli PING')" PONG
	docker rm --force again
}

@test "vfix-runtime: --read-only, --user and a setuid program" {
	fixed --read-only redis:legacy bash -c 'echo up; ! echo >/file'
	expect 'status of --read-only' "$status" 0
	expect_match output "$output" 'Read-only file system'
	fixed --user 1234:5678 redis:legacy bash -c 'id -u; stat -c %a:%u:%g /usr/local/bin/clock && clock'
	expect 'status of --user' "$status" 0
	expect_match output "$output" $'1234\n4755:0:0'
	fixed --read-only --user 1234:5678 redis:legacy bash -c 'stat -c %a:%u:%g /usr/local/bin/clock && clock'
	expect 'status of both' "$status" 0
	expect_match output "$output" 4755:0:0
}

# make_package FILE: a package, for dpkg, with the image's own old libc.
make_package() {
	local root=$BATS_TEST_TMPDIR/package
	mkdir -p "$root/DEBIAN" "$root/usr/lib/x86_64-linux-gnu"
	cp "$legacy_image/rootfs/usr/lib/x86_64-linux-gnu/libc.so.6" "$root/usr/lib/x86_64-linux-gnu/"
	printf 'Package: old-libc\nVersion: 1\nArchitecture: amd64\nMaintainer: nobody <nobody@localhost>\nDescription: a test\n' >"$root/DEBIAN/control"
	dpkg-deb --root-owner-group --build "$root" "$1"
}

@test "vfix-runtime: dpkg replaces libc inside, and the next start patches it again" {
	make_package "$BATS_TEST_TMPDIR/old.deb"
	# From then on, no program that reads the time runs in this container until its next start.
	docker create --name upgrade --network none --runtime vfix --entrypoint sh redis:legacy -c '
		[ -e /upgraded ] && exec bash -c "echo up again"
		dpkg --force-all -i /old.deb && touch /upgraded'
	docker cp "$BATS_TEST_TMPDIR/old.deb" upgrade:/old.deb
	run docker start --attach upgrade
	echo "$output"
	expect_match 'what dpkg says' "$output" 'Setting up old-libc'
	[[ $output != *'busy'* ]] || fail 'the file is busy'
	expect status "$status" 0
	run docker start --attach upgrade
	expect 'status of the next start' "$status" 0
	expect output "$output" 'up again'
	docker rm upgrade
}

@test "vfix-runtime: a program on a volume is fixed for its container, and the volume is left alone" {
	mkdir "$BATS_TEST_TMPDIR/volume"
	gcc -O1 -o "$BATS_TEST_TMPDIR/volume/callpage" "$tree/tests/oracle/callpage.c"
	before=$(sha256sum "$BATS_TEST_TMPDIR"/volume/*)
	fixed --volume "$BATS_TEST_TMPDIR/volume:/mnt" small:legacy /mnt/callpage none
	expect 'status without a call' "$status" 0
	fixed --volume "$BATS_TEST_TMPDIR/volume:/mnt" small:legacy /mnt/callpage time
	expect status "$status" 0
	# A fresh volume, which the engine fills with the image's files.
	fixed --volume fresh:/usr/lib small:legacy bash -c clock
	expect 'status with a fresh volume' "$status" 0
	docker volume rm fresh
	expect 'the volume' "$(sha256sum "$BATS_TEST_TMPDIR"/volume/*)" "$before"
	id=$(docker create --runtime vfix --network none small:legacy /callpage time)
	docker cp "$BATS_TEST_TMPDIR/volume/callpage" "$id:/callpage"
	run docker start --attach "$id"
	expect 'status of the same file in the container itself' "$status" 0
	docker rm "$id"
}

@test "vfix-runtime: ten containers at once" {
	for n in $(seq 10); do
		docker run --rm --network none --runtime vfix small:legacy bash -c "echo up $n" >"$BATS_TEST_TMPDIR/$n" &
	done
	wait
	for n in $(seq 10); do
		expect_match "container $n" "$(cat "$BATS_TEST_TMPDIR/$n")" "up $n"
	done
}

@test "vfix-runtime: the image is as it was" {
	id=$(docker create redis:legacy)
	docker export "$id" | tar -x -C "$BATS_TEST_TMPDIR" usr/lib/x86_64-linux-gnu/libc.so.6 usr/local/bin/clock opt/legacy/libc.so.6
	docker rm "$id"
	for file in usr/lib/x86_64-linux-gnu/libc.so.6 usr/local/bin/clock; do
		cmp "$BATS_TEST_TMPDIR/$file" "$legacy_image/rootfs/$file"
	done
}

@test "vfix-runtime: docker's overlay2; the patched files are in the container's own layer" {
	requires overlay
	# shellcheck disable=SC2016 # for the shell in there
	own_dockerd "$(runtime_config)" overlay2 sh -c 'mount -t tmpfs none "$0" && exec "$@"' "$BATS_TEST_TMPDIR/dockerd/data"
	docker load --quiet --input "$legacy_image/redis-legacy.tar" # dpkg is in it
	expect driver "$(docker info --format '{{.Driver}}')" overlay2
	plain redis:legacy bash -c 'echo up'
	expect 'status without' "$status" "$status_sigsys"
	make_package "$BATS_TEST_TMPDIR/old.deb"
	docker create --name upgrade --network none --runtime vfix --entrypoint sh redis:legacy -c '
		[ -e /upgraded ] && exec bash -c "echo up again"
		bash -c true && dpkg --force-all -i /old.deb && touch /upgraded'
	docker cp "$BATS_TEST_TMPDIR/old.deb" upgrade:/old.deb
	run docker start --attach upgrade
	echo "$output"
	expect 'status of the first start' "$status" 0
	docker diff upgrade | grep -q '^[AC] /usr/lib/x86_64-linux-gnu/libc.so.6$' || fail 'libc is not in its layer'
	run docker start --attach upgrade
	expect 'status of the next start' "$status" 0
	fixed --read-only redis:legacy bash -c 'echo up'
	expect 'status of --read-only' "$status" 0
	for n in 1 2 3 4 5; do
		docker run --rm --network none --runtime vfix redis:legacy bash -c "echo up $n" >"$BATS_TEST_TMPDIR/$n" &
		pids[n]=$!
	done
	wait "${pids[@]}"
	for n in 1 2 3 4 5; do
		expect_match "container $n" "$(cat "$BATS_TEST_TMPDIR/$n")" "up $n"
	done
}

# first_start: the number of files that the first recorded start examined.
first_start() { jq -s '.[0].examined // 0' "$BATS_TEST_TMPDIR/starts.jsonl"; }

@test "index: the first start of an image examines nothing; --watch" {
	requires overlay
	local cache=$BATS_TEST_TMPDIR/cache config
	jq -n --arg record "$BATS_TEST_TMPDIR/starts.jsonl" '{record: $record, fail_closed: true}' >"$BATS_TEST_TMPDIR/runtime.json"
	config=$(runtime_config | jq --arg config "$BATS_TEST_TMPDIR/runtime.json" '.runtimes.vfix.runtimeArgs += ["--vfix-config", $config]')
	# shellcheck disable=SC2016 # for the shell in there
	own_dockerd "$config" overlay2 sh -c 'mount -t tmpfs none "$0" && exec "$@"' "$BATS_TEST_TMPDIR/dockerd/data"
	# Only the engine's own files are mounted there.
	index() { exec nsenter --mount --target "$(cat "$BATS_TEST_TMPDIR/dockerd/pid")" env PATH="/usr/bin:$PATH" "$VFIX" index --cache-dir "$cache" --engine docker "$@"; }
	run index none:none
	expect 'status for an image that is not there' "$status" 1
	expect_match 'an image that is not there' "$output" 'none:none'
	run index small:legacy
	[[ $output =~ ^small:legacy:\ ([1-9][0-9]*)\ of\ ([0-9]+)\ layers ]] || fail "got $output"
	run index small:legacy
	expect_match 'the second time' "$output" 'small:legacy: 0 of '
	fixed small:legacy bash -c 'echo up; callrate 20'
	expect status "$status" 0
	expect 'examined at the start' "$(first_start)" 0

	# The same as soon as it is there.
	rm -r "$cache" "$BATS_TEST_TMPDIR/starts.jsonl"
	docker rmi --force small:legacy
	index --watch >"$BATS_TEST_TMPDIR/watch" 2>&1 3>&- &
	local watcher=$!
	# shellcheck disable=SC2009,SC2046 # of this engine, not of another test's
	following() { grep -lsz "^DOCKER_HOST=$DOCKER_HOST$" $(pgrep --full 'docker events .*load' | sed 's|.*|/proc/&/environ|'); }
	poll following
	docker load --quiet --input "$small_image/redis-legacy.tar"
	poll grep -q ' layers examined now' "$BATS_TEST_TMPDIR/watch" || { cat "$BATS_TEST_TMPDIR/watch" && fail 'nothing was examined'; }
	kill -TERM "$watcher"
	wait "$watcher" || true
	fixed small:legacy bash -c 'echo up'
	expect status "$status" 0
	expect 'examined at the start' "$(first_start)" 0
}

@test "vfix-runtime: docker's userns-remap: owners are shown as they are in the image" {
	# From a chroot the kernel makes no user namespace (user_namespaces(7), EPERM).
	requires own_root
	# The containers' root must reach the image's files, but tests' directories are only for root.
	for dir in "$BATS_RUN_TMPDIR" "$(dirname "$BATS_TEST_TMPDIR")" "$BATS_TEST_TMPDIR" "$(dirname "$BATS_FILE_TMPDIR")" "$BATS_FILE_TMPDIR"; do
		chmod o+x "$dir"
	done
	echo nobody:200000:65536 >"$BATS_TEST_TMPDIR/subids"
	# shellcheck disable=SC2016 # for the shell in there
	own_dockerd "$(runtime_config | jq '."userns-remap" = "nobody:nogroup"')" vfs \
		sh -c 'for f in /etc/subuid /etc/subgid; do [ -e $f ] || : >$f; mount --bind "$0" $f; done; exec "$@"' "$BATS_TEST_TMPDIR/subids"
	plain small:legacy bash -c 'echo up'
	expect 'status without' "$status" "$status_sigsys"
	for option in --read-only --read-only=false; do
		fixed "$option" --user 1234 --volume /bin/busybox:/busybox:ro small:legacy bash -c '/busybox cat /proc/self/uid_map
			/busybox stat -c %a:%u:%g /usr/local/bin/clock /opt/legacy/libc.so.6 && clock'
		echo "$output"
		expect "status with $option" "$status" 0
		expect_match output "$output" 200000
		expect_match output "$output" $'4755:0:0\n755:0:0'
	done
}

@test "vfix-runtime: containerd, with ctr --runc-binary" {
	local BATS_FILE_TMPDIR=$BATS_TEST_TMPDIR
	cat >"$BATS_TEST_TMPDIR/config.toml" <<-END
		version = 2
		root = "$BATS_TEST_TMPDIR/containerd"
		state = "$BATS_TEST_TMPDIR/state"
		disabled_plugins = ["io.containerd.grpc.v1.cri"]
		[grpc]
		address = "$BATS_TEST_TMPDIR/c.sock"
	END
	mkdir "$BATS_TEST_TMPDIR/root"
	start_service containerd "$tree/tests/own-mounts" "$BATS_TEST_TMPDIR/root" "$novsyscall" containerd --config "$BATS_TEST_TMPDIR/config.toml"
	ctr() { command ctr --address "$BATS_TEST_TMPDIR/c.sock" "$@"; }
	await_service containerd ctr version
	ctr images import --snapshotter native "$small_image/redis-legacy.tar"
	run ctr run --rm --snapshotter native docker.io/library/small:legacy without bash -c 'echo up'
	expect 'status without' "$status" "$status_sigsys"
	run ctr run --rm --snapshotter native --runc-binary "$bin/wrapped" docker.io/library/small:legacy with bash -c 'echo up'
	expect 'status with' "$status" 0
	expect output "$output" up
	run ctr run --rm --snapshotter native --read-only --runc-binary "$bin/wrapped" docker.io/library/small:legacy ro bash -c 'echo up'
	expect 'status with a read-only root' "$status" 0
}

@test "vfix-runtime, hotfix: podman, with its runc" {
	requires podman
	mkdir "$BATS_TEST_TMPDIR/root"
	# The machine may allow fewer open files than podman asks for.
	podman() {
		env -u DOCKER_CONFIG "$tree/tests/own-mounts" "$BATS_TEST_TMPDIR/root" "$novsyscall" /usr/bin/podman --root "$BATS_TEST_TMPDIR/store" \
			--runroot "$BATS_TEST_TMPDIR/runroot" --storage-driver vfs --cgroup-manager cgroupfs --events-backend file "$@"
	}
	limits=(--ulimit nofile=1024:1024 --ulimit nproc=1024:1024)
	podman load --quiet --input "$small_image/redis-legacy.tar"
	run podman --runtime runc run --rm --network none --pull never "${limits[@]}" docker.io/library/small:legacy bash -c 'echo up'
	echo "$output"
	expect 'status without' "$status" "$status_sigsys"
	run podman --runtime "$bin/wrapped" run --rm --network none --pull never "${limits[@]}" docker.io/library/small:legacy bash -c 'echo up; clock'
	expect 'status with vfix-runtime' "$status" 0
	expect_match output "$output" up
	run_vfix hotfix --for podman -o "$BATS_TEST_TMPDIR/copies" small:legacy
	printed=${output/podman run/podman --runtime runc run --rm --network none --pull never ${limits[*]}}
	run eval "${printed/small:legacy/docker.io/library/small:legacy} bash -c 'echo up; clock'"
	expect 'status with what hotfix prints' "$status" 0
	expect_match output "$output" up
}
