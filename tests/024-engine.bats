#!/usr/bin/env bats
# bats file_tags=machine
# What vfix makes and reads, in one ordinary engine with its own seccomp profile: the fallback, the
# preload library, the drop-in layer in a docker build, the engine's tarballs.
# shellcheck disable=SC2154
load helpers

setup_file() {
	load helpers
	if (has_docker && has_legacy_image) >/dev/null; then
		start_dockerd
		docker load --quiet --input "$legacy_image/redis-legacy.tar"
	fi
}

teardown_file() {
	load helpers
	stop_services
}

setup() {
	requires docker image_tools legacy_image
	mkdir "$BATS_TEST_TMPDIR/work"
	cd "$BATS_TEST_TMPDIR/work" || return
}

@test "fallback: in an engine, by docker run, docker exec and docker stop" {
	requires own_root fallback
	printf 'FROM redis:legacy\nCOPY late late-static /usr/local/bin/\n' >Dockerfile
	cp "$build/fallback/late" "$build/fallback/late-static" .
	DOCKER_BUILDKIT=0 docker build -t late:base .
	run_vfix rebuild --fallback auto late:base -o docker-daemon:late:auto
	expect_match stderr "$stderr" 'covered by the fallback (libvfix.so, vfix-trace)'
	run docker run --rm --network none late:auto late-static
	expect 'docker run' "$status ${lines[-1]}" '0 late: ok'
	# Under ptrace, with the engine's own seccomp profile, as process 1.
	run docker run --rm --network none --entrypoint /vfix/vfix-trace late:auto --always bash -c 'late && late-static && exit 42'
	expect 'under ptrace' "$status $output" $'42 late: ok\nlate: ok'
	run docker run -d --network none --name redis --entrypoint /vfix/vfix-trace late:auto --always redis-server --save ''
	poll docker exec redis redis-cli PING
	run docker exec redis late
	expect 'docker exec' "$status $output" '0 late: ok'
	docker stop --time "$patience" redis
	expect 'status of what was stopped' "$(docker inspect --format '{{.State.ExitCode}}' redis)" 0
}

@test "preload: the default seccomp profile of a container lets it heal" {
	run docker run --rm --network none --read-only -v "$build/fallback:/fallback:ro" -e VFIX_LOG=1 --entrypoint sh redis:legacy \
		-c 'LD_PRELOAD=/fallback/libvfix-twin.so exec /fallback/survive-twin process-plain'
	echo "$output"
	expect status "$status" 0
	expect_match log "$output" 'survive-twin+0x'
	expect_match log "$output" 'time: healed'
}

@test "layer: docker build with FROM, COPY --from and RUN" {
	run_vfix layer
	expect stdout "$output" vfix:latest
	# The example as it is, without the step that asks the network for upgrades.
	grep -v '^RUN if command' "$tree/images/base/Dockerfile" >"$BATS_TEST_TMPDIR/Dockerfile"
	echo "RUN clock && bash -c 'cat /etc/ld.so.preload && ls /vfix/x86_64'" >>"$BATS_TEST_TMPDIR/Dockerfile"
	DOCKER_BUILDKIT=0 docker build --network none --build-arg BASE=redis:legacy -t layered "$BATS_TEST_TMPDIR"
	run docker run --rm --network none --entrypoint bash layered -c 'grep -o "/vfix.*libvfix.so" /proc/self/maps | sort -u'
	expect 'loaded into bash' "$output" /vfix/x86_64/libvfix.so
	run docker run --rm --network none vfix version
	expect 'status of the image itself' "$status" 0
	run_vfix verify docker-daemon:layered
}

diff_ids() { skopeo inspect --config "$1" | jq -c .rootfs.diff_ids; }

@test "docker save of old engines: an engine's own tarballs, save in both forms and export" {
	docker save -o mixed.tar redis:legacy
	container=$(docker create redis:legacy)
	docker export -o export.tar "$container"
	docker rm "$container"
	export DOCKER_HOST=unix://$BATS_TEST_TMPDIR/none.sock
	mkdir parts
	tar -xf mixed.tar -C parts
	[ -e parts/repositories ] || fail 'this engine writes no repositories'
	run_vfix rebuild mixed.tar -o oci:mixed:x
	same_files mixed
	# What the engines of before 1.10 did not write:
	rm parts/*.json
	tar -cf old.tar -C parts .
	run_vfix rebuild old.tar -o oci:out:x
	same_files out
	expect 'diff IDs' "$(diff_ids oci:out:x)" "$(diff_ids oci:mixed:x)"
	expect config "$(skopeo inspect --config oci:out:x | jq -cS '.config | del(.Labels)')" "$(skopeo inspect --config oci:mixed:x | jq -cS '.config | del(.Labels)')"
	# And what it exported, which has the files and nothing else.
	run_vfix rebuild export.tar -o oci:exported:x
	expect 'call sites left' "$(run_vfix scan oci:exported:x --format json >/dev/null && jq .results[0].summary.patched <<<"$output")" 0
}
