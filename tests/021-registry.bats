#!/usr/bin/env bats
# rebuild with a registry that requires a name and a password.
load helpers

setup_file() {
	load helpers
	legacy_image=$small_image start_legacy_registry
}

teardown_file() {
	load helpers
	stop_services
}

setup() {
	requires registry image_tools legacy_image
	login
	# Without a daemon, as this tests the registry.
	export DOCKER_HOST=unix://$BATS_TEST_TMPDIR/none.sock
}

remote() { # VERB IMAGE [ARGUMENT...]: skopeo on an image of the registry
	local verb=$1 image=$2
	shift 2
	skopeo "$verb" --tls-verify=false --creds "$registry_user:$registry_password" "$@" "docker://$registry/$image"
}

tags() { remote list-tags legacy | jq -r '.Tags[]' | sort | tr '\n' ' '; }

# fetch IMAGE: copies it with skopeo, all platforms, and lets the oracle recompute it.
fetch() {
	skopeo copy --quiet --all --preserve-digests --src-tls-verify=false --src-creds "$registry_user:$registry_password" \
		"docker://$registry/$1" "oci:$BATS_TEST_TMPDIR/fetched:x"
	"$build/validate" "$BATS_TEST_TMPDIR/fetched"
}

@test "rebuild: from registry to registry, and others read it" {
	run_vfix rebuild "docker://$registry/legacy:1" -o "docker://$registry/legacy:result"
	digest=$(remote inspect legacy:result --format '{{.Digest}}')
	expect_match reference "$output" "$registry/legacy"
	expect_match reference "$output" "@$digest"
	fetch "legacy@$digest"
	umoci raw unpack --image "$BATS_TEST_TMPDIR/fetched:x" "$BATS_TEST_TMPDIR/rootfs"
}

@test "rebuild: what comes out of the registry runs where the base is killed" {
	requires root oracle
	run_vfix rebuild "docker://$registry/legacy:1" -o "docker://$registry/legacy:runs"
	fetch legacy:runs
	umoci raw unpack --image "$BATS_TEST_TMPDIR/fetched:x" "$BATS_TEST_TMPDIR/rootfs"
	run "$novsyscall" unshare --net chroot "$small_image/rootfs" /usr/local/bin/clock
	expect 'status of the base' "$status" "$status_sigsys"
	run "$novsyscall" unshare --net chroot "$BATS_TEST_TMPDIR/rootfs" /usr/local/bin/clock
	expect 'status of the result' "$status" 0
}

@test "rebuild: --push puts the result beside its base" {
	run_vfix rebuild "docker://$registry/legacy:1" --push
	expect_match reference "$output" "$registry/legacy"
	expect_match reference "$output" "@$(remote inspect legacy:1-vfix --format '{{.Digest}}')"
	fetch legacy:1-vfix
}

@test "rebuild: the layers of the base are not changed" {
	run_vfix rebuild "docker://$registry/legacy:1" -o "docker://$registry/legacy:layers"
	layers() { remote inspect "$1" --raw | jq -c '[.layers[].digest]'; }
	expect 'layers below the new one' "$(layers legacy:layers | jq -c '.[:-1]')" "$(layers legacy:1)"
}

@test "rebuild: the same digest every time, and nothing more to do for the result" {
	run_vfix rebuild "docker://$registry/legacy:1" -o "docker://$registry/legacy:twice"
	first=$output
	run_vfix rebuild "docker://$registry/legacy:1" -o "docker://$registry/legacy:twice"
	expect reference "$output" "$first"
	run_vfix rebuild "docker://$registry/legacy:twice" -o "docker://$registry/legacy:thrice"
	expect_match message "$stderr" 'nothing to do'
	expect 'reference of the copy' "$output" "${first/:twice@/:thrice@}"
	expect 'digest of its copy' "$(remote inspect legacy:thrice --format '{{.Digest}}')" "${first#*@}"
}

# push_index: legacy:index, the legacy image for linux/amd64 and another image for linux/arm64.
push_index() {
	local dir=$BATS_TEST_TMPDIR/index
	cp -r "$small_image/oci" "$dir"
	umoci new --image "$dir:arm"
	umoci config --image "$dir:arm" --architecture arm64 --os linux
	jq -c '{schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json",
		annotations: {"org.example.kept": "yes"},
		manifests: [(.manifests[] | . + {platform: {os: "linux",
			architecture: (if .annotations["org.opencontainers.image.ref.name"] == "arm" then "arm64" else "amd64" end)}} | del(.annotations))]}' \
		"$dir/index.json" >"$BATS_TEST_TMPDIR/both.json"
	local sum
	sum=$(sha256sum "$BATS_TEST_TMPDIR/both.json" | cut -d' ' -f1)
	cp "$BATS_TEST_TMPDIR/both.json" "$dir/blobs/sha256/$sum"
	jq -nc --arg sum "sha256:$sum" --argjson size "$(stat -c %s "$BATS_TEST_TMPDIR/both.json")" \
		'{schemaVersion: 2, manifests: [{mediaType: "application/vnd.oci.image.index.v1+json", digest: $sum, size: $size,
		annotations: {"org.opencontainers.image.ref.name": "both"}}]}' >"$dir/index.json"
	skopeo copy --quiet --all --preserve-digests --dest-tls-verify=false --dest-creds "$registry_user:$registry_password" \
		"oci:$dir:both" "docker://$registry/legacy:index"
}

@test "rebuild: an index keeps its other platforms as they are" {
	push_index
	run_vfix rebuild "docker://$registry/legacy:index" -o "docker://$registry/legacy:index-result"
	fetch legacy:index-result
	entry() { remote inspect "legacy:$1" --raw | jq -c ".manifests[] | select(.platform.architecture == \"$2\")"; }
	expect 'arm64 entry' "$(entry index-result arm64)" "$(entry index arm64)"
	[ "$(entry index-result amd64)" != "$(entry index amd64)" ] || fail 'the amd64 entry is the old one'
	expect 'annotation of the index' "$(remote inspect legacy:index-result --raw | jq -r '.annotations["org.example.kept"]')" yes
}

@test "rebuild: without the password it is an error, and nothing is pushed" {
	before=$(tags)
	export DOCKER_CONFIG=$BATS_TEST_TMPDIR/empty
	run_vfix 1 rebuild "docker://$registry/legacy:1" -o "docker://$registry/legacy:forbidden"
	expect stdout "$output" ''
	expect_match stderr "$stderr" "$registry"
	expect_match stderr "$stderr" 'vfix: hint: '
	expect tags "$(tags)" "$before"
}

@test "rebuild: an image that the registry has not is an error, and makes none" {
	before=$(tags)
	run_vfix 1 rebuild "docker://$registry/legacy:nothing" -o "docker://$registry/legacy:new"
	expect stdout "$output" ''
	expect_match stderr "$stderr" "$registry"
	expect_match stderr "$stderr" 'legacy, tag nothing: no such image'
	expect tags "$(tags)" "$before"
}

@test "scan, verify: images of the registry" {
	run_vfix rebuild "docker://$registry/legacy:1" -o "docker://$registry/legacy:checked"
	run_vfix 3 scan "docker://$registry/legacy:1"
	run_vfix scan "docker://$registry/legacy:checked"
	run_vfix verify "docker://$registry/legacy:checked" --against "docker://$registry/legacy:1"
}
