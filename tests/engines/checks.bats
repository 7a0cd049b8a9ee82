#!/usr/bin/env bats
# The checks that each engine gets. It runs inside of the engine's root filesystem, in which each
# process that calls the vsyscall page is killed (tests/engines/enter); $ENGINE names the file beside
# this one that says how that engine is started and spoken to. The names are rows of README.md.
load ../helpers
load "$ENGINE"

image=docker.io/library/redis:legacy
fixed=docker.io/library/redis:legacy-vfix

setup_file() {
	start_engine
	echo "# version $(engine_version)" >&3
	engine load --quiet --input "$legacy_image/redis-legacy.tar"
	rebuilt "$image" "$fixed"
}

teardown_file() { stop_services; }

# The remains of a failed check must not fail the next.
setup() {
	local left
	mapfile -t left < <(engine ps --all --quiet)
	[ ${#left[@]} = 0 ] || engine rm --force "${left[@]}"
	"$VFIX" uninstall || true
}

teardown() { [ -n "${BATS_TEST_COMPLETED-}" ] || tail -n 3 /var/lib/vfix/starts.jsonl || true; }

# once OPTION... IMAGE COMMAND...: a container that runs and ends.
once() {
	run engine run --rm --network none "$@"
	echo "$output"
}

# serves OPTION... IMAGE: a container that runs redis-server, is asked, restarted and asked again.
serves() {
	engine run --detach --name served --network none "$@" redis-server --save ''
	poll engine exec served redis-cli PING
	expect 'exec' "$(engine exec served bash -c 'redis-cli PING')" PONG
	engine restart --time 5 served
	poll engine exec served redis-cli PING
	expect 'exec after a restart' "$(engine exec served bash -c 'redis-cli PING')" PONG
	engine rm --force served
}

@test "the unmodified image is killed" {
	once "$image" bash -c true
	expect status "$status" "$status_sigsys"
}

@test "rebuild in the engine: the result runs" {
	once "$fixed" redis-server --version
	expect status "$status" 0
	expect_match output "$output" 'Redis server v='
}

@test "the result serves; exec and restart" {
	serves "$fixed"
}

@test "the result with a read-only root, as an ordinary user" {
	once --read-only --user 1234:5678 "$fixed" bash -c 'id -u; clock && grep "^[^ ]* / [^ ]* ro[, ]" /proc/self/mounts'
	expect status "$status" 0
	expect_match output "$output" 1234
}

@test "scan and verify read the engine's images" {
	[ "$name" != containerd ] || skip 'not a source of vfix'
	run_vfix 3 scan "$image"
	run_vfix scan "$fixed"
	run_vfix verify "$fixed" --against "$image"
	run_vfix list
	expect_match images "$output" redis:legacy-vfix
}

@test "diagnose names the cause in a container that was killed" {
	[ "$name" != containerd ] || skip 'not a source of vfix'
	engine run --name killed --network none "$image" || true
	run "$VFIX" diagnose killed
	expect_match 'status (3 if the kernel logs which call the filter refused)' '0 3' "$status"
	expect_match stdout "$output" 'seccomp filter'
	engine rm killed
}

@test "an archive from the engine, and into it" {
	engine save --output "$BATS_TEST_TMPDIR/saved.tar" "$image"
	run_vfix rebuild "$BATS_TEST_TMPDIR/saved.tar" -o "oci-archive:$BATS_TEST_TMPDIR/fixed.tar:docker.io/library/redis:archive"
	run_vfix rebuild "$BATS_TEST_TMPDIR/saved.tar" -o "docker-archive:$BATS_TEST_TMPDIR/docker.tar:docker.io/library/redis:darchive"
	engine load --quiet --input "$BATS_TEST_TMPDIR/docker.tar"
	once docker.io/library/redis:darchive bash -c clock
	expect 'status of what a docker archive brings' "$status" 0
	# Docker reads OCI archives with its containerd image store only.
	[ "$ENGINE" != docker ] || return 0
	engine load --quiet --input "$BATS_TEST_TMPDIR/fixed.tar"
	once docker.io/library/redis:archive bash -c clock
	expect 'status of what an OCI archive brings' "$status" 0
}

# builds BUILDER: the example of the drop-in layer as it is, without the step that asks the network for
# upgrades, and with one that a builder without the page kills. The control is the same without the layer.
builds() {
	local dir=$BATS_TEST_TMPDIR
	has_builder "$1" || skip "no $1"
	run_vfix layer
	grep -v '^RUN if command' "$tree/images/base/Dockerfile" >"$dir/Dockerfile"
	echo "RUN clock && bash -c 'cat /etc/ld.so.preload && date && ls /vfix/x86_64'" >>"$dir/Dockerfile"
	build_with "$1" --build-arg "BASE=$image" -t "layered-$1" "$dir"
	once --entrypoint bash "layered-$1" -c 'grep -o "/vfix.*libvfix.so" /proc/self/maps | sort -u; date'
	expect status "$status" 0
	expect_match 'loaded into bash' "$output" /vfix/x86_64/libvfix.so
	run_vfix verify "layered-$1"
	printf 'FROM %s\nRUN bash -c true\n' "$image" >"$dir/Dockerfile"
	run build_with "$1" -t none "$dir"
	[ "$status" != 0 ] || fail 'the step without the layer is not killed'
	expect_match 'what the builder says' "$output" "$status_sigsys"
}

has_builder() { [[ " ${builders[*]} " == *" $1 "* ]]; }

@test "the drop-in layer in a build: classic builder" { builds classic; }
@test "the drop-in layer in a build: buildx" { builds buildx; }
@test "the drop-in layer in a build: podman build" { builds podman; }
@test "the drop-in layer in a build: buildah" { builds buildah; }

@test "hotfix: a container that died runs" {
	[ "$name" != containerd ] || skip 'not an engine of vfix hotfix'
	engine create --name hot --network none "$image" bash -c 'redis-server --version'
	run engine start --attach hot
	expect 'status before' "$status" "$status_sigsys"
	run_vfix hotfix hot
	run engine start --attach hot
	expect 'status after' "$status" 0
	expect_match output "$output" 'Redis server v='
	run_vfix scan container:hot
	engine rm hot
}

@test "compose: the rebuilt image" {
	[ "$name" = docker ] || skip 'docker only'
	cd "$BATS_TEST_TMPDIR"
	composed() {
		run docker compose --progress quiet -f compose.yaml up --exit-code-from redis
		echo "$output"
		docker compose -f compose.yaml down
	}
	printf 'services:\n  redis:\n    image: %s\n    network_mode: none\n    command: [bash, -c, redis-server --version]\n' "$image" >compose.yaml
	composed
	expect 'status of the unmodified image' "$status" "$status_sigsys"
	sed -i 's/redis:legacy/redis:legacy-vfix/' compose.yaml
	composed
	expect 'status of the rebuilt image' "$status" 0
}

# machine: what install may change and uninstall must restore: names, modes, owners, contents.
machine() {
	find /etc /usr/local /usr/share/containers /usr/bin /opt /root -xdev -type f -printf '%p %M %U:%G ' -exec sha256sum {} \; | sort
}

# installed: vfix install for this engine, and the lines that it prints in its configuration.
installed() {
	run_vfix install "$name"
	[ "$name" != containerd ] || grep -v '^systemctl' <<<"$output" >>/etc/containerd/config.toml
	apply_config
}

# select_runtime: the options by which a container gets vfix; with podman, each one does.
select_runtime() { [ "$name" = podman ] || echo '--runtime vfix'; }

@test "install, a container, uninstall: back to the byte" {
	local by
	mkdir -p /etc/containerd
	[ "$name" != containerd ] || : >/etc/containerd/config.toml
	machine >"$BATS_TEST_TMPDIR/before"
	installed
	read -ra by < <(select_runtime) || true
	once "${by[@]}" "$image" bash -c 'redis-server --version && clock'
	expect status "$status" 0
	expect_match output "$output" 'Redis server v='
	serves "${by[@]}" "$image"
	once "${by[@]}" --read-only --user 1234:5678 "$image" bash -c 'clock && grep "^[^ ]* / [^ ]* ro[, ]" /proc/self/mounts'
	expect 'status of a read-only root' "$status" 0
	expect 'the record' "$(jq -r .result /var/lib/vfix/starts.jsonl | sort -u)" patched
	if [ "$name" = podman ]; then
		once --annotation dev.vfix.enable=false "$image" bash -c clock
		expect 'status of one that opts out' "$status" "$status_sigsys"
	fi
	[ "$name" != containerd ] || : >/etc/containerd/config.toml
	run_vfix uninstall
	apply_config
	once "${by[@]}" "$image" bash -c clock
	[ "$status" != 0 ] || fail 'the runtime is still there'
	machine >"$BATS_TEST_TMPDIR/after"
	diff "$BATS_TEST_TMPDIR/before" "$BATS_TEST_TMPDIR/after"
}

# crun_path: crun. Docker gives every container limits, for which version 2 of the control groups lacks
# controllers where version 1 has them; runc does without them by itself, crun only without groups at
# all. Without groups, its "kill --all", by which ctr ends a container, does nothing.
crun_path() {
	if [ "$name" = docker ] && ! grep -qw io /sys/fs/cgroup/cgroup.controllers; then
		printf '#!/bin/sh\nexec crun --cgroup-manager=disabled "$@"\n' >/opt/crun
		chmod 755 /opt/crun
		echo /opt/crun
	else
		command -v crun
	fi
}

@test "vfix-runtime around crun" {
	local by
	mkdir -p /etc/vfix
	jq -n --arg path "$(crun_path)" '{runtime: $path, required: true}' >/etc/vfix/vfix.json
	installed
	read -ra by < <(select_runtime) || true
	once "${by[@]}" "$image" bash -c 'redis-server --version && clock'
	expect status "$status" 0
	expect_match output "$output" 'Redis server v='
	serves "${by[@]}" "$image"
	rm -r /etc/vfix
}

@test "containers with users of their own" {
	other_users
	engine load --quiet --input "$legacy_image/redis-legacy.tar"
	once "${own_users[@]}" "$image" bash -c true
	expect 'status of the unmodified image' "$status" "$status_sigsys"
	rebuilt "$image" "$fixed"
	once "${own_users[@]}" "$fixed" bash -c 'cat /proc/self/uid_map; clock'
	expect 'status of the result' "$status" 0
	expect_match output "$output" 200000
	# Docker's containerd store shows no setuid bit in such containers, with and without vfix.
	once "${own_users[@]}" --entrypoint stat "$image" -c %a:%u:%g /usr/local/bin/clock
	local owner=${output##*$'\n'} # behind warnings
	expect_match 'owner as the engine shows it' "$owner" 755:0:0
	installed
	local by
	read -ra by < <(select_runtime) || true
	for option in --read-only --read-only=false; do
		once "${own_users[@]}" "${by[@]}" "$option" --user 1234 "$image" bash -c 'cat /proc/self/uid_map; stat -c %a:%u:%g /usr/local/bin/clock; clock'
		expect "status of the unmodified image with vfix-runtime, $option" "$status" 0
		expect_match output "$output" 200000
		expect_match owners "$output" "$owner"
	done
}

@test "rootless: an ordinary user's engine" {
	declare -F start_rootless >/dev/null || skip 'has none'
	useradd --create-home user
	install -d -o user "/run/user/$(id -u user)"
	cp "$legacy_image/redis-legacy.tar" "$VFIX" /home/user/
	cd /home/user
	start_rootless
	users() {
		run as_user "$name" run --rm --network none "$@"
		echo "$output"
	}
	as_user "$name" load --quiet --input redis-legacy.tar
	users "$image" bash -c true
	expect 'status of the unmodified image' "$status" "$status_sigsys"
	as_user ./vfix rebuild redis-legacy.tar -o "docker-archive:fixed.tar:$fixed"
	as_user "$name" load --quiet --input fixed.tar
	users "$fixed" bash -c 'clock && redis-server --version'
	expect 'status of the result' "$status" 0
	if [ "$name" = docker ]; then # podman has no socket without a service of the user
		as_user docker create --name hot --network none "$image" bash -c clock
		as_user ./vfix hotfix hot
		run as_user docker start --attach hot
		expect 'status after hotfix' "$status" 0
	else
		run_vfix install podman
		for option in --userns=host --read-only --userns=keep-id; do
			users "$option" "$image" bash -c clock
			expect "status with the hook, $option" "$status" 0
		done
	fi
}

# quadlet FILE-LINE...: runs what podman's generator makes of the unit, as systemd would, without
# systemd's own control group.
quadlet() {
	local dir=$BATS_TEST_TMPDIR/units line
	rm -rf "$dir"
	mkdir "$dir"
	printf '%s\n' '[Container]' ContainerName=quadlet Network=none "$@" >"$dir/q.container"
	line=$(QUADLET_UNIT_DIRS=$dir /usr/libexec/podman/quadlet -dryrun | sed -n 's/^ExecStart=//p')
	echo "$line"
	line=${line/--cgroups=split/} line=${line//%t//run} line=${line//%N/q}
	run bash -c "${line/ -d / }"
	echo "$output"
	ended=$status
}

@test "quadlet: the unmodified image, the rebuilt one, the hook" {
	[ "$name" = podman ] || skip 'podman only'
	quadlet "Image=$image" 'Exec=bash -c clock'
	expect 'status of the unmodified image' "$ended" "$status_sigsys"
	quadlet "Image=$fixed" 'Exec=bash -c clock'
	expect 'status of the rebuilt image' "$ended" 0
	run_vfix install podman
	quadlet "Image=$image" 'Exec=bash -c clock'
	expect 'status with the hook' "$ended" 0
}
