#!/usr/bin/env bats
# bats file_tags=machine
# hotfix with docker and podman. The engines run under the seccomp oracle, so each of their containers is killed when it
# calls the vsyscall page.
load helpers

setup_file() {
	load helpers
	start_legacy_docker
}

teardown_file() {
	load helpers
	[ -z "${DOCKER_HOST:-}" ] || docker ps --all --quiet | xargs -r docker rm --force --volumes || true
	stop_services
}

setup() { requires docker oracle legacy_image; }

has_podman() { has_commands podman curl jq; }

# import_image NAME PATH...: an image with busybox, and a static program that calls the page at each path.
import_image() {
	local name=$1 root path
	shift
	root=$(mktemp -d "$BATS_TEST_TMPDIR/root.XXXXXX")
	cp /bin/busybox "$root/"
	legacy_program "$BATS_TEST_TMPDIR/program" -Wl,--build-id
	for path in "$@"; do
		mkdir -p "$root/$(dirname "$path")"
		cp "$BATS_TEST_TMPDIR/program" "$root/$path"
	done
	tar -C "$root" -c . | docker import - "$name" >/dev/null
}

state_of() { docker inspect --format '{{.State.Status}} {{.State.ExitCode}}' "$1"; }

@test "hotfix: a container that died runs, with the owners, modes, times and links of its files" {
	local targets
	docker create --name db --network none --volume /data redis:legacy sh -c 'echo kept >/data/file; exec redis-server --version' >/dev/null
	run docker start --attach db
	expect 'status before' "$(state_of db)" "exited $status_sigsys"
	run_vfix 3 scan container:db
	expect_match 'what to type' "$output" 'vfix hotfix container:db'
	id=$(docker inspect --format '{{.Id}}' db)
	mkdir "$BATS_TEST_TMPDIR/before" "$BATS_TEST_TMPDIR/after"
	docker export db | tar -C "$BATS_TEST_TMPDIR/before" -xp --same-owner --xattrs --xattrs-include='*'
	run_vfix hotfix container:db
	expect stdout "$output" db
	expect_match 'what to type' "$stderr" 'docker start db'
	run docker start --attach db
	expect 'status after' "$(state_of db)" 'exited 0'
	expect_match output "$output" 'Redis server v='
	expect 'the container' "$(docker inspect --format '{{.Id}}' db)" "$id"
	run_vfix scan container:db
	expect_match scan "$output" 'NOT AFFECTED'
	docker export db | tar -C "$BATS_TEST_TMPDIR/after" -xp --same-owner --xattrs --xattrs-include='*'
	mapfile -t targets < <(docker diff db | sed -n 's,^C /,,p' | while read -r f; do [ ! -f "$BATS_TEST_TMPDIR/after/$f" ] || echo "$f"; done)
	[ ${#targets[@]} -gt 1 ] || fail "only ${targets[*]} is changed"
	listing() { (cd "$BATS_TEST_TMPDIR/$1" && stat -c '%n %u:%g %a %Y %h' "${targets[@]}"); }
	expect 'owner, mode, time and links' "$(listing after)" "$(listing before)"
	run_vfix hotfix db
	expect_match 'a second time' "$stderr" 'nothing to do'
	expect 'stdout of it' "$output" ''
}

@test "hotfix --start: a container that crashes again and again runs then" {
	docker create --name loop --network none --restart always redis:legacy sh -c 'redis-server --version && sleep 1000' >/dev/null
	docker start loop
	crashed() { [ "$(docker inspect --format '{{.RestartCount}}' loop)" -gt 4 ]; } # docker then waits for seconds
	poll crashed
	restarting() { [[ $(state_of loop) == restarting* ]]; }
	poll restarting
	run_vfix hotfix --start --format json loop
	expect 'what was done' "$(jq -c '[.name, .engine, .started, .result.verdict]' <<<"$output")" '["loop","docker",true,"not-affected"]'
	runs() { [[ $(state_of loop) == running* ]] && docker logs loop 2>&1 | grep -q 'Redis server v='; }
	poll runs
	docker rm --force loop
}

@test "hotfix: names with spaces, quotes, control characters, and setuid and capabilities stay" {
	local names=('opt/with space' "opt/it's" $'opt/new\nline' $'opt/esc\e[31m' 'opt/ümläut' opt/setuid) name i=0
	import_image odd "${names[@]}"
	docker create --name prepare --network none odd /busybox sh -c 'chmod 4755 /opt/setuid' >/dev/null
	docker start --attach prepare
	docker commit prepare odd2 >/dev/null
	for name in "${names[@]}"; do
		i=$((i + 1))
		docker create --name "odd$i" --network none odd2 "/$name" >/dev/null
		run docker start --attach "odd$i"
		expect "status of $name before" "$(state_of "odd$i")" "exited $status_sigsys"
		run_vfix hotfix --start "odd$i"
		[[ $stderr != *$'\e'* ]] || fail 'an escape sequence on stderr'
		# shellcheck disable=SC2317 # poll calls it
		ended() { [[ $(state_of "odd$i") == exited* ]]; }
		poll ended
		expect "status of $name after" "$(state_of "odd$i")" 'exited 0'
	done
	docker cp odd6:/opt/setuid "$BATS_TEST_TMPDIR/setuid"
	expect 'mode of the setuid program' "$(stat -c %a "$BATS_TEST_TMPDIR/setuid")" 4755
}

@test "hotfix: a volume gets no file, also one at a symlink" {
	local root=$BATS_TEST_TMPDIR/root volume=$BATS_TEST_TMPDIR/volume
	mkdir -p "$root/opt/bin" "$volume"
	legacy_program "$root/other" -Wl,--build-id
	cp "$root/other" "$root/opt/bin/clock"
	ln -s opt/bin "$root/link"
	tar -C "$root" -c . | docker import - linked >/dev/null
	docker create --name linked --network none --volume "$volume:/link" linked /other >/dev/null
	run_vfix hotfix --format json --start linked
	expect 'what is covered' "$(jq -c .covered_by <<<"$output")" '["/link"]'
	expect 'what is written' "$(jq -c .written <<<"$output")" '["/other"]'
	expect 'files in the volume' "$(ls "$volume")" ''
}

@test "hotfix --fix java-cgroups: the JDK's library and the file that it reads" {
	local root=$BATS_TEST_TMPDIR/root
	mkdir -p "$root/opt/lib"
	gcc -O1 -shared -fPIC -Wl,-soname,libjvm.so -o "$root/opt/lib/libjvm.so" -x c - <<-'END'
		#include <stdio.h>
		FILE *mounts(void) { return fopen("/proc/self/mountinfo", "r"); }
		FILE *cgroups(void) { return fopen("/proc/cgroups", "r"); }
	END
	cp /bin/busybox "$root/"
	tar -C "$root" -c . | docker import - jdk >/dev/null
	run_vfix rebuild --fix java-cgroups "dir:$root" -o "dir:$BATS_TEST_TMPDIR/rebuilt"
	docker create --name jdk --network none jdk /busybox sha256sum /opt/lib/libjvm.so /vfix/cgroups >/dev/null
	run_vfix hotfix jdk
	expect_match 'without it' "$stderr" 'nothing to do'
	run_vfix hotfix --fix java-cgroups jdk
	run docker start --attach jdk
	expect 'what the container sees' "$output" "$(cd "$BATS_TEST_TMPDIR/rebuilt" && sha256sum opt/lib/libjvm.so vfix/cgroups | sed 's,  ,  /,')"
	docker create --name covered --network none --tmpfs /vfix jdk /busybox true >/dev/null
	run_vfix 1 hotfix --fix java-cgroups covered
	expect_match covered "$stderr" '/vfix/cgroups: a mount covers it'
}

@test "hotfix: what cannot be done is refused with the way, and stays as it is" {
	import_image plain program
	docker run --detach --name runs --network none --init=false plain /busybox sleep 1000 >/dev/null
	docker run --detach --name removes --rm --network none --init=false plain /busybox sleep 1000 >/dev/null
	docker create --name readonly --read-only --network none plain /program >/dev/null
	docker create --name pod --label io.kubernetes.pod.name=web --network none plain /program >/dev/null
	refused() {
		run_vfix 1 hotfix "$1"
		expect stdout "$output" ''
		expect_match error "$stderr" "$2"
		expect_match hint "${stderr#*hint: }" "$3"
	}
	refused runs 'it is running' 'docker stop runs && vfix hotfix --start runs'
	refused removes 'is removed when it stops' 'vfix rebuild -t plain plain'
	refused readonly 'read-only' 'vfix rebuild -t plain plain'
	refused pod 'belongs to a pod' "see 'vfix help nodes'"
	refused pod/web 'pod web' 'kubectl set image'
	refused none 'no container none' "docker ps --all"
	refused redis:legacy 'not the name of a container' 'vfix rebuild -t redis:legacy redis:legacy'
	for container in runs readonly pod; do
		expect "what is changed in $container" "$(docker diff "$container")" ''
	done
	docker rm --force runs removes
	# The way for an image.
	run_vfix rebuild -t redis:legacy redis:legacy
	run docker run --rm --network none redis:legacy redis-server --version
	expect_match 'the image under the same name' "$output" 'Redis server v='
}

@test "hotfix: a container of podman runs" {
	requires podman
	local dir=$BATS_FILE_TMPDIR/podman
	mkdir -p "$dir/mounts"
	tar -C "$small_image/rootfs" -c . >"$dir/rootfs.tar"
	start_service podman "$tree/tests/own-mounts" "$dir/mounts" "$novsyscall" podman --root "$dir/r" --runroot "$dir/rr" --storage-driver vfs \
		--cgroup-manager cgroupfs --runtime runc --log-level error system service --time 0 "unix://$dir/s"
	unset DOCKER_CONFIG
	export DOCKER_HOST=unix://$dir/s
	await_service podman curl -sf --unix-socket "$dir/s" http://d/_ping
	api() { curl -s --fail-with-body --unix-socket "$dir/s" -X "$1" -H 'Content-Type: application/json' "http://d/v1.40$2" "${@:3}"; }
	curl -sf --unix-socket "$dir/s" -X POST -T "$dir/rootfs.tar" "http://d/v1.40/images/create?fromSrc=-&repo=legacy" >/dev/null
	api POST '/containers/create?name=pdb' -d '{"Image":"legacy","Cmd":["/usr/bin/bash","-c","true"],"HostConfig":{"NetworkMode":"none","Ulimits":[{"Name":"nofile","Soft":1024,"Hard":1024},{"Name":"nproc","Soft":1024,"Hard":1024}]}}' >/dev/null
	exit_code() { api GET /containers/pdb/json | jq -r '.State | "\(.Status) \(.ExitCode)"'; }
	ended() { [[ $(exit_code) == exited* ]]; }
	api POST /containers/pdb/start
	poll ended
	expect 'status before' "$(exit_code)" "exited $status_sigsys"
	run_vfix hotfix --start pdb
	expect stdout "$output" pdb
	poll ended
	expect 'status after' "$(exit_code)" 'exited 0'
	run_vfix scan container:pdb
	expect_match scan "$output" 'NOT AFFECTED'
}
