#!/usr/bin/env bats
# Images from and to engines. docker runs under the seccomp oracle, so each of its containers is killed when it calls
# the vsyscall page.
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
	cd "$BATS_TEST_TMPDIR" || return
}

run_container() { run docker run --rm --network none "$@"; }

@test "rebuild: from daemon to daemon; the base is killed, the result answers PING" {
	run_container redis:legacy
	expect 'status of the base' "$status" "$status_sigsys"
	run_vfix rebuild redis:legacy
	expect reference "$output" redis:legacy-vfix
	# shellcheck disable=SC2016 # for the shell in the container
	run_container "$output" sh -c 'redis-server --save "" & for i in $(seq 300); do redis-cli PING 2>/dev/null && exit; [ -e /proc/$!/exe ] || break; sleep 0.1; done; wait $!'
	expect status "$status" 0
	expect_match output "$output" PONG
	run_vfix verify redis:legacy-vfix --against redis:legacy
}

@test "rebuild: -t names the result; configuration, layers and ID are what they should be" {
	run_vfix rebuild docker-daemon:small:legacy -t small:one
	run_vfix rebuild small:legacy -t small:two
	inspect() { docker inspect "$1" | jq -c ".[0] | $2"; }
	expect id "$(inspect small:two .Id)" "$(inspect small:one .Id)"
	config='.Config | del(.Image, .Labels) | with_entries(select(.value != null and .value != "" and .value != []))'
	expect configuration "$(inspect small:one "$config")" "$(inspect small:legacy "$config")"
	expect 'layers below the new one' "$(inspect small:one '.RootFS.Layers[:-1]')" "$(inspect small:legacy .RootFS.Layers)"
	images() { docker images --all --no-trunc --format '{{.ID}} {{.Repository}}:{{.Tag}}' | sort; }
	before=$(images)
	run_vfix rebuild small:one
	expect_match 'nothing to do: reference' "$output" small:one
	expect 'nothing to do: images' "$(images)" "$before"
}

@test "scan: an image and a container, before and after" {
	run_vfix 3 scan small:legacy
	run_vfix rebuild small:legacy
	run_vfix scan small:legacy-vfix
	docker create --name before small:legacy
	docker create --name after small:legacy-vfix
	run_vfix 3 scan container:before
	run_vfix scan container:after
	run_vfix 1 scan container:nobody
	expect_match error "$stderr" 'no container nobody'
}

@test "rebuild: what the engine saves, in both forms, and what it exports" {
	requires image_tools
	docker save -o mixed.tar small:legacy
	container=$(docker create small:legacy)
	docker export -o export.tar "$container"
	export DOCKER_HOST=unix://$BATS_TEST_TMPDIR/none.sock
	mkdir parts
	tar -xf mixed.tar -C parts
	[ -e parts/repositories ] || fail 'this engine writes no repositories'
	rm parts/*.json # engines before 1.10 wrote none
	tar -cf old.tar -C parts .
	for from in mixed old export; do
		run_vfix rebuild $from.tar -o "oci:$from:x"
		[ $from = export ] || same_files $from "$small_image/rootfs" # an export has files of the engine
		run_vfix scan "oci:$from:x"
	done
	diff_ids() { skopeo inspect --config "oci:$1:x" | jq -c .rootfs.diff_ids; }
	expect 'diff IDs' "$(diff_ids old)" "$(diff_ids mixed)"
}

@test "rebuild: an archive without a tag of its own is loaded under a name, by docker and podman" {
	run_vfix rebuild small:legacy -o docker-archive:out.tar
	docker load --quiet --input out.tar
	run_container small:legacy-vfix clock
	expect 'status in docker' "$status" 0
	has_commands podman || return 0
	local own=(podman --root "$PWD/p" --runroot "$PWD/r" --storage-driver vfs)
	"${own[@]}" load --quiet --input out.tar
	expect 'names in podman' "$("${own[@]}" images --format '{{.Repository}}:{{.Tag}}')" localhost/small:legacy-vfix
	"${own[@]}" system service --time 0 "unix://$PWD/s" >podman.log 2>&1 3>&- &
	pid=$!
	poll [ -S s ]
	(unset DOCKER_HOST && CONTAINER_HOST=unix://$PWD/s run_vfix scan small:legacy-vfix)
	DOCKER_HOST=unix://$PWD/s run_vfix rebuild oci:"$small_image/oci:legacy" -o docker-daemon:small:again
	kill $pid
	expect_match 'images in podman' "$("${own[@]}" images --format '{{.Repository}}:{{.Tag}}')" localhost/small:again
}

@test "rebuild: an image or an engine that is not there is an error, and makes no image" {
	images() { docker images --all --quiet --no-trunc | sort; }
	before=$(images)
	run_vfix 1 rebuild docker-daemon:nobody/nothing:0
	expect stdout "$output" ''
	expect_match stderr "$stderr" 'no image nobody/nothing:0'
	expect images "$(images)" "$before"
	export DOCKER_HOST=unix://$BATS_TEST_TMPDIR/none.sock
	run_vfix 1 rebuild docker-daemon:redis:legacy
	expect_match stderr "$stderr" none.sock
	run_vfix 1 rebuild "oci:$small_image/oci:legacy"
	expect_match hint "$stderr" '-o oci:fixed'
}
