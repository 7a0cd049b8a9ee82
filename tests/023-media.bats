#!/usr/bin/env bats
# Sources and destinations besides those of the other files: docker contexts, archives of several images, a full
# disk, a stopped engine. The image has one directory and a program that calls the vsyscall page.
load helpers

setup_file() {
	load helpers
	if (has_docker && has_oracle) >/dev/null; then
		start_dockerd "$novsyscall"
		tar -C "$build" -c callpage | docker import --change 'CMD ["/callpage"]' - tiny:1
	fi
}

teardown_file() {
	load helpers
	stop_services
}

setup() {
	requires docker oracle image_tools
	work=$BATS_TEST_TMPDIR/work # bats writes beside it
	mkdir "$work" "$BATS_TEST_TMPDIR/tmp"
	export TMPDIR=$BATS_TEST_TMPDIR/tmp
	cd "$work" || return
}

# nothing_left: no temporary file is in TMPDIR, and only the named files are in $work.
nothing_left() {
	expect 'left in TMPDIR' "$(ls -A "$TMPDIR")" ''
	expect 'left in the directory' "$(ls -A "$work")" "$*"
}

@test "scan: an image of the engine that docker's context names" {
	id=$(printf mine | sha256sum | cut -d ' ' -f 1)
	mkdir -p "$work/config/contexts/meta/$id"
	printf '{"Name": "mine", "Endpoints": {"docker": {"Host": "%s"}}}' "$DOCKER_HOST" >"config/contexts/meta/$id/meta.json"
	unset DOCKER_HOST
	export DOCKER_CONFIG=$work/config
	echo '{}' >config/config.json
	run_vfix 1 scan docker-daemon:tiny:1 # the positive control: nothing else leads there
	echo '{"currentContext": "mine"}' >config/config.json
	run_vfix 3 scan docker-daemon:tiny:1 --format json
	expect source "$(jq -r '.. | .source? // empty' <<<"$output" | head -n 1)" docker-daemon:tiny:1
	echo '{"currentContext": "gone"}' >config/config.json
	run_vfix 1 scan docker-daemon:tiny:1
	expect_match stderr "$stderr" 'docker context "gone"'
}

@test "rebuild: the image with the tag, out of an archive of two, packed or not" {
	run docker rmi tiny:2 other:1
	tar -C "$BATS_TEST_DIRNAME" -c helpers.bash | docker import - other:1
	docker tag tiny:1 tiny:2
	docker save --output two.tar tiny:2 other:1
	run --separate-stderr "$VFIX" scan - <two.tar
	expect 'two on stdin: status' "$status" 1
	expect_match 'two on stdin: error' "$stderr" 'stdin: docker archive stdin: 2 images: name one of them'
	expect_match 'two on stdin: hint' "$stderr" 'of stdin as docker-archive:-:TAG'
	gzip --keep two.tar
	for file in two.tar two.tar.gz; do
		run_vfix rebuild "docker-archive:$file:tiny:2" -o "oci:out-$file:x"
		run_vfix 1 rebuild "$file" -o oci:none:x
		expect_match stderr "$stderr" '2 images'
		expect_match stderr "$stderr" 'tiny:2'
	done
	expect digest "$(skopeo inspect -f '{{.Digest}}' "oci:out-two.tar:x")" "$(skopeo inspect -f '{{.Digest}}' "oci:out-two.tar.gz:x")"
	nothing_left $'out-two.tar\nout-two.tar.gz\nout-two.tar.gz.x.intoto.json\nout-two.tar.x.intoto.json\ntwo.tar\ntwo.tar.gz'
}

@test "rebuild: into a layout that has another image, which stays as it is" {
	run_vfix rebuild tiny:1 -o oci:out:first
	before=$(skopeo inspect --raw oci:out:first | sha256sum)
	skopeo copy --quiet --insecure-policy oci:out:first oci:out:second
	run_vfix rebuild oci:out:second -o oci:out:third
	run_vfix verify oci:out:third --against oci:out:first
	for tag in first second third; do
		expect "manifest of $tag" "$(skopeo inspect --raw "oci:out:$tag" | sha256sum)" "$before"
	done
	nothing_left $'out\nout.first.intoto.json'
}

@test "rebuild: a full disk is an error, and leaves nothing" {
	mkdir "$BATS_TEST_TMPDIR/root"
	for dest in oci:full/out:x oci-archive:full/out.tar docker-archive:full/out.tar; do
		# shellcheck disable=SC2016 # expanded by the inner shell
		run "$tree/tests/own-mounts" "$BATS_TEST_TMPDIR/root" sh -c 'mkdir -p full && mount -t tmpfs -o size=8k none full && "$@"; status=$?
			ls -A full >left; exit $status' sh "$VFIX" rebuild tiny:1 -o "$dest"
		echo "$output"
		expect status "$status" 1
		expect_match output "$output" 'no space left on device'
		expect left "$(cat left)" ''
	done
	rmdir full && rm left
	nothing_left ''
}

@test "rebuild: no room for temporary files is an error that names the directory" {
	mkdir "$BATS_TEST_TMPDIR/root"
	# shellcheck disable=SC2016 # expanded by the inner shell
	run "$tree/tests/own-mounts" "$BATS_TEST_TMPDIR/root" sh -c 'mount -t tmpfs -o size=8k none "$TMPDIR" && "$@"; status=$?
		ls -A "$TMPDIR" >left; exit $status' sh "$VFIX" rebuild tiny:1 -o oci:out:x
	echo "$output"
	expect status "$status" 1
	expect_match output "$output" "$TMPDIR"
	expect_match output "$output" 'no space left on device'
	expect left "$(cat left)" ''
	rm left
	nothing_left ''
}

@test "rebuild: what no engine and no file can be is refused before anything is read" {
	run_vfix 1 rebuild tiny:1 -o out.tar
	expect_match stderr "$stderr" 'oci-archive:out.tar'
	mkdir full && touch full/file
	run_vfix 1 rebuild tiny:1 -o dir:full
	expect_match stderr "$stderr" 'not empty'
	run_vfix 1 rebuild tiny:1 -o oci:full
	expect_match stderr "$stderr" 'not empty'
	run_vfix 1 rebuild tiny:1 -o oci-archive:/dev/null
	[ -c /dev/null ] || fail '/dev/null was replaced'
	nothing_left full
}

# The last test: it stops the engine.
@test "rebuild: an engine that is gone is an error that says which -o to type" {
	docker save --output tiny.tar tiny:1
	run_vfix rebuild docker-archive:tiny.tar
	stop_services
	: >"$BATS_FILE_TMPDIR/services"
	run_vfix 1 rebuild docker-archive:tiny.tar
	expect_match stderr "$stderr" 'no docker or podman daemon'
	expect_match stderr "$stderr" '-o oci-archive:tiny-1-vfix.tar'
	run_vfix 1 scan docker-daemon:tiny:1
	nothing_left tiny.tar
}
