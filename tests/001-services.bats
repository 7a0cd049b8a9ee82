#!/usr/bin/env bats
# bats file_tags=machine
# The engine and the registry of other tests, and the features that those rely on.
load helpers

setup_file() {
	load helpers
	if (has_docker && has_oracle) >/dev/null; then
		start_dockerd "$novsyscall"
	fi
	if has_registry >/dev/null; then
		start_registry
	fi
}

teardown_file() {
	load helpers
	stop_services
}

@test "dockerd: under the oracle a container that calls the page is killed, another is not" {
	requires docker oracle
	mkdir "$BATS_TEST_TMPDIR/root"
	cp "$callpage" "$BATS_TEST_TMPDIR/root/"
	tar -C "$BATS_TEST_TMPDIR/root" -c . | docker import - callpage
	run docker run --rm --network none callpage /callpage time
	expect 'status of a caller' "$status" "$status_sigsys"
	run docker run --rm --network none callpage /callpage none
	expect 'status of another' "$status" 0
}

@test "registry: asks for the password, and takes an image with it" {
	requires registry image_tools
	layout=oci:$BATS_TEST_TMPDIR/layout:x
	umoci init --layout "$BATS_TEST_TMPDIR/layout"
	umoci new --image "$BATS_TEST_TMPDIR/layout:x"
	run skopeo copy --dest-tls-verify=false "$layout" "docker://$registry/x:x"
	echo "$output"
	[ "$status" -ne 0 ]
	expect_match message "$output" 'authentication required'
	login
	skopeo copy --dest-tls-verify=false --dest-authfile "$DOCKER_CONFIG/config.json" "$layout" "docker://$registry/x:x"
	skopeo inspect --tls-verify=false --authfile "$DOCKER_CONFIG/config.json" "docker://$registry/x:x"
}
