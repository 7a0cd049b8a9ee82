#!/usr/bin/env bats
# rebuild with a docker engine. The engine runs under the seccomp oracle, so each of its containers is killed when
# it calls the vsyscall page.
load helpers

setup_file() {
	load helpers
	start_legacy_docker
	[ -z "${DOCKER_HOST:-}" ] || docker load --quiet --input "$small_image/redis-legacy.tar" # small:legacy
}

teardown_file() {
	load helpers
	stop_services
}

setup() {
	requires docker oracle legacy_image
}

run_container() { run docker run --rm --network none "$@"; }

@test "rebuild: from daemon to daemon; the base is killed, the result runs" {
	run_container redis:legacy
	expect 'status of the base' "$status" "$status_sigsys"
	run_vfix rebuild redis:legacy
	expect reference "$output" redis:legacy-vfix
	run_container redis:legacy-vfix redis-server --version
	expect 'status of the result' "$status" 0
	expect_match output "$output" 'Redis server v='
	run_container redis:legacy
	expect 'status of the base afterwards' "$status" "$status_sigsys"
}

@test "rebuild: redis-server of the result answers PING" {
	run_vfix rebuild redis:legacy
	# shellcheck disable=SC2016 # for the shell in the container
	run_container "$output" sh -c 'redis-server --save "" & for i in $(seq 300); do redis-cli PING 2>/dev/null && exit; [ -e /proc/$!/exe ] || break; sleep 0.1; done; wait $!'
	expect status "$status" 0
	expect_match output "$output" PONG
}

@test "rebuild: docker exec works in the result" {
	requires own_root
	run_vfix rebuild redis:legacy
	container=$(docker run --detach --network none "$output")
	poll docker exec "$container" redis-cli PING
	expect answer "$(docker exec "$container" bash -c 'redis-cli PING')" PONG
	docker rm --force "$container"
}

@test "rebuild: -t names the result, and the configuration is the base's" {
	run_vfix rebuild docker-daemon:small:legacy -t redis:fixed
	expect reference "$output" redis:fixed
	config() { docker inspect "$1" | jq '.[0].Config | del(.Image, .Labels) | with_entries(select(.value != null and .value != "" and .value != []))'; }
	expect configuration "$(config redis:fixed)" "$(config small:legacy)"
	layers() { docker inspect "$1" | jq -c '.[0].RootFS.Layers'; }
	expect 'layers below the new one' "$(layers redis:fixed | jq -c '.[:-1]')" "$(layers small:legacy)"
}

@test "rebuild: the same image twice is the same image" {
	run_vfix rebuild small:legacy -t redis:one
	run_vfix rebuild small:legacy -t redis:two
	id() { docker inspect --format '{{.Id}}' "$1"; }
	expect id "$(id redis:two)" "$(id redis:one)"
}

@test "rebuild: with nothing to do the daemon keeps what it has, and stdout names the base" {
	run_vfix rebuild small:legacy
	images() { docker images --all --no-trunc --format '{{.ID}} {{.Repository}}:{{.Tag}}' | sort; }
	before=$(images)
	run_vfix rebuild small:legacy-vfix
	expect_match reference "$output" small:legacy-vfix
	expect images "$(images)" "$before"
	run_container "$output" clock
	expect 'status of what stdout names' "$status" 0
}

@test "rebuild: from the daemon to a layout" {
	requires image_tools
	run_vfix rebuild small:legacy -o "oci:$BATS_TEST_TMPDIR/out:x"
	"$build/validate" "$BATS_TEST_TMPDIR/out"
	run_vfix scan "oci:$BATS_TEST_TMPDIR/out:x"
}

@test "scan: an image of the daemon" {
	run_vfix 3 scan small:legacy
	expect_match stdout "$output" libc.so.6
	run_vfix rebuild small:legacy
	run_vfix scan small:legacy-vfix
}

@test "verify: the result in the daemon against its base" {
	run_vfix rebuild small:legacy
	run_vfix verify small:legacy-vfix --against small:legacy
	run_vfix 3 verify small:legacy
}

@test "rebuild: an image that the daemon has not is an error, and makes none" {
	images() { docker images --all --quiet --no-trunc | sort; }
	before=$(images)
	run_vfix 1 rebuild docker-daemon:nobody/nothing:0
	expect stdout "$output" ''
	expect_match stderr "$stderr" 'vfix: error: '
	expect_match stderr "$stderr" nobody/nothing:0
	expect images "$(images)" "$before"
}

@test "rebuild: a daemon that is not there is an error that says so" {
	DOCKER_HOST=unix://$BATS_TEST_TMPDIR/none.sock run_vfix 1 rebuild docker-daemon:redis:legacy
	expect stdout "$output" ''
	expect_match stderr "$stderr" none.sock
	expect_match stderr "$stderr" 'vfix: hint: '
}
