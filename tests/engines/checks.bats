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
	"$VFIX" uninstall --force
}

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
	run_vfix 3 diagnose killed
	expect_match stdout "$output" 'vsyscall'
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

@test "hotfix: the printed options start the unmodified image" {
	[ "$name" != containerd ] || skip 'no options for it'
	run_vfix hotfix --for "$name" "$image"
	run bash -c "${output/ run/ run --rm --network none} bash -c 'redis-server --version && clock'"
	echo "$output"
	expect status "$status" 0
	expect_match output "$output" 'Redis server v='
	engine create --name own --network none "$image" bash -c 'redis-server --version'
	run_vfix hotfix --for "$name" own
	run bash -c "${output/ run/ run --rm --network none} bash -c clock"
	expect 'status with what is printed for a container' "$status" 0
	engine rm own
}

@test "hotfix --apply recreates a container" {
	[ "$name" = docker ] || skip 'docker only'
	# shellcheck disable=SC2016 # for the shell in the container
	engine create --name apply --network none --env X=1 "$image" bash -c 'redis-server --version; echo "X is $X"'
	run engine start --attach apply
	expect 'status before' "$status" "$status_sigsys"
	run_vfix hotfix --apply apply
	run engine start --attach apply
	echo "$output"
	expect 'status after' "$status" 0
	expect_match output "$output" 'X is 1'
	engine rm apply apply-vfix-old
}

@test "compose: the rebuilt image, and the unmodified one with hotfix's fragment" {
	[ "$name" = docker ] || skip 'docker only'
	cd "$BATS_TEST_TMPDIR"
	composed() {
		run docker compose --progress quiet -f compose.yaml "$@" up --exit-code-from redis
		echo "$output"
		docker compose -f compose.yaml down
	}
	printf 'services:\n  redis:\n    image: %s\n    network_mode: none\n    command: [bash, -c, redis-server --version]\n' "$image" >compose.yaml
	composed
	expect 'status without' "$status" "$status_sigsys"
	"$VFIX" hotfix --for compose "$image" >vfix.yaml
	composed -f vfix.yaml
	expect 'status with the fragment' "$status" 0
	expect_match output "$output" 'Redis server v='
	sed -i 's/redis:legacy/redis:legacy-vfix/' compose.yaml
	composed
	expect 'status with the rebuilt image' "$status" 0
}

# machine: what install may change and uninstall must restore: names, modes, owners, contents. The
# runtime's cache and its record of starts stay.
machine() {
	find /etc /usr/local /usr/bin /opt /root /var/lib /var/log -xdev \
		\( -path /var/lib/vfix -o -path /var/log/vfix \) -prune -o \( -type f -o -printf '%p %M %U:%G %l\n' \) \
		-a -type f -printf '%p %M %U:%G %T@ ' -a -exec sha256sum {} \; | sort
}

@test "install, the runtime, uninstall: back to the byte" {
	machine >"$BATS_TEST_TMPDIR/before"
	run_vfix install "$name"
	apply_config
	run_vfix install --check "$name"
	once --runtime vfix "$image" bash -c 'redis-server --version && clock'
	expect status "$status" 0
	expect_match output "$output" 'Redis server v='
	serves --runtime vfix "$image"
	once --runtime vfix --read-only --user 1234:5678 "$image" bash -c 'clock && grep "^[^ ]* / [^ ]* ro[, ]" /proc/self/mounts'
	expect 'status of a read-only root' "$status" 0
	run_vfix runtime status
	expect_match 'the record' "$output" patched
	run_vfix uninstall
	apply_config
	once --runtime vfix "$image" bash -c clock
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

@test "install --hook: each container is patched, without a runtime to select" {
	[ "$name" = podman ] || skip 'no directory of hooks'
	machine >"$BATS_TEST_TMPDIR/before"
	run_vfix install podman --hook
	for runtime in crun runc; do
		once --runtime "$runtime" "$image" bash -c 'redis-server --version && clock'
		expect "status with $runtime" "$status" 0
		expect_match output "$output" 'Redis server v='
		once --runtime "$runtime" --read-only --user 1234:5678 --annotation dev.vfix.fallback=always "$image" bash -c 'clock && cat /etc/ld.so.preload'
		expect "status of a read-only root with $runtime" "$status" 0
		expect_match 'the fallback' "$output" /vfix/x86_64/libvfix.so
		once --runtime "$runtime" "${own_users[@]}" "$image" bash -c clock
		expect "status with users of its own and $runtime" "$status" 0
		once --runtime "$runtime" --annotation dev.vfix.enable=false "$image" bash -c clock
		expect "status of one that opts out, with $runtime" "$status" "$status_sigsys"
	done
	serves "$image"
	run_vfix runtime status
	expect_match 'the record' "$output" patched
	run_vfix uninstall
	once "$image" bash -c clock
	expect 'status after uninstall' "$status" "$status_sigsys"
	machine >"$BATS_TEST_TMPDIR/after"
	diff "$BATS_TEST_TMPDIR/before" "$BATS_TEST_TMPDIR/after"
}

@test "vfix-runtime around crun" {
	run_vfix install "$name" --runtime "$(crun_path)" --fail-closed
	apply_config
	once --runtime vfix "$image" bash -c 'redis-server --version && clock'
	expect status "$status" 0
	expect_match output "$output" 'Redis server v='
	serves --runtime vfix "$image"
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
	run_vfix install "$name" --fail-closed
	apply_config
	for option in --read-only --read-only=false; do
		once "${own_users[@]}" --runtime vfix "$option" --user 1234 "$image" bash -c 'cat /proc/self/uid_map; stat -c %a:%u:%g /usr/local/bin/clock; clock'
		expect "status of the unmodified image with vfix-runtime, $option" "$status" 0
		expect_match output "$output" 200000
		expect_match owners "$output" "$owner"
	done
	run_vfix uninstall
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
	run --separate-stderr in_users_namespace ./vfix hotfix --for "$name" -o /home/user/copies redis-legacy.tar
	expect "status of hotfix: $stderr" "$status" 0
	printed=${output/IMAGE/$image}
	run as_user bash -c "${printed/ run/ run --rm --network none} bash -c clock"
	echo "$output"
	expect "status with hotfix's options" "$status" 0
	[ "$name" = docker ] || return 0 # podman has no socket without a service of the user
	as_user ./vfix rebuild "$image"
	users "$fixed" bash -c clock
	expect 'status of the result in the engine' "$status" 0
	run --separate-stderr as_user ./vfix hotfix --for "$name" -o /home/user/more-copies "$image"
	expect "status of hotfix: $stderr" "$status" 0
	run as_user bash -c "${output/ run/ run --rm --network none} bash -c clock"
	expect "status with hotfix's options for the engine's image" "$status" 0
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

@test "quadlet: the unmodified image, the rebuilt one, vfix-runtime" {
	[ "$name" = podman ] || skip 'podman only'
	quadlet "Image=$image" 'Exec=bash -c clock'
	expect 'status of the unmodified image' "$ended" "$status_sigsys"
	quadlet "Image=$fixed" 'Exec=bash -c clock'
	expect 'status of the rebuilt image' "$ended" 0
	run_vfix install podman
	quadlet "Image=$image" 'GlobalArgs=--runtime vfix' 'Exec=bash -c clock'
	expect 'status with vfix-runtime' "$ended" 0
}
