#!/usr/bin/env bats
# The formats that vfix writes and reads, in one ordinary engine with its own seccomp profile: the fallback, the
# preload library, the drop-in layer in a docker build.
# shellcheck disable=SC2154
load helpers

legacy_image=$medium_image

setup_file() {
	load helpers
	if (has_docker && has_legacy_image) >/dev/null; then
		start_dockerd
		docker load --quiet --input "$legacy_image/redis-legacy.tar"
		docker load --quiet --input "$small_image/redis-legacy.tar" # small:legacy
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
	run_vfix rebuild --fallback always late:base -o docker-daemon:late:auto
	expect_match stderr "$stderr" 'caught at run time by vfix-trace'
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
	run docker run --rm --network none --read-only -v "$build/fallback:/fallback:ro" -e VFIX_LOG=1 --entrypoint sh small:legacy \
		-c 'LD_PRELOAD=/fallback/libvfix-twin.so exec /fallback/survive-twin process-plain'
	echo "$output"
	expect status "$status" 0
	expect_match log "$output" ': changed'
}

@test "layer: docker build with FROM, COPY --from and RUN" {
	run_vfix layer
	expect stdout "$output" vfix:latest
	# The unchanged example, without the step that downloads upgrades.
	grep -v '^RUN if command' "$tree/images/base/Dockerfile" >"$BATS_TEST_TMPDIR/Dockerfile"
	echo "RUN clock && bash -c 'echo \$(</etc/ld.so.preload) /vfix/x86_64/*'" >>"$BATS_TEST_TMPDIR/Dockerfile"
	DOCKER_BUILDKIT=0 docker build --network none --build-arg BASE=small:legacy -t layered "$BATS_TEST_TMPDIR"
	docker run --rm --network none --entrypoint bash layered -c 'mapfile -t lines </proc/self/maps; printf "%s\n" "${lines[@]}"' >maps
	expect 'loaded into bash' "$(grep -o '/vfix.*libvfix.so' maps | sort -u)" /vfix/x86_64/libvfix.so
	run docker run --rm --network none vfix version
	expect 'status of the image itself' "$status" 0
	run_vfix verify docker-daemon:layered
}
