#!/usr/bin/env bats
# Images from and to a registry that requires a name and a password, and one with certificates of its own. Registries
# that break are in the tests of images/source.
load helpers

legacy_image=$small_image

setup_file() {
	load helpers
	start_legacy_registry
	[ -z "${registry:-}" ] || start_tls_registry
}

teardown_file() {
	load helpers
	stop_services
}

setup() {
	requires registry image_tools legacy_image
	login
	enter_work
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
		"docker://$registry/$1" oci:fetched:x
	"$build/validate" fetched
}

# sign NAME USAGE: a key and a certificate of the file's own authority.
sign() {
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1.key" -out "$1.csr" -subj "/CN=$1" 2>/dev/null
	openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -out "$1.cert" \
		-extfile <(printf 'subjectAltName=IP:127.0.0.1\nextendedKeyUsage=%s\n' "$2") 2>/dev/null
}

# start_tls_registry: one with a private authority that requires a client certificate from it.
start_tls_registry() {
	local dir=$BATS_FILE_TMPDIR/tls
	mkdir -p "$dir/data"
	(
		cd "$dir" || exit
		openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.crt -days 2 -subj '/CN=an authority' 2>/dev/null
		sign server serverAuth
		sign client clientAuth
	)
	cat >"$dir/config.yml" <<-END
		version: 0.1
		log: {level: info, formatter: text}
		storage: {filesystem: {rootdirectory: $dir/data}}
		http: {addr: "127.0.0.1:0", tls: {certificate: $dir/server.cert, key: $dir/server.key, clientcas: [$dir/ca.crt]}}
	END
	start_service tls docker-registry serve "$dir/config.yml"
	await_service tls grep -q 'listening on 127' "$BATS_FILE_TMPDIR/tls.log"
	export tls_registry
	tls_registry=$(sed -n 's/.*listening on \(127[0-9.]*:[0-9]*\).*/\1/p' "$BATS_FILE_TMPDIR/tls.log")
}

@test "rebuild: from registry to registry: others read the result, the same digest every time" {
	run_vfix rebuild "docker://$registry/legacy:1" -o "docker://$registry/legacy:result"
	digest=$(remote inspect legacy:result --format '{{.Digest}}')
	expect reference "$output" "$registry/legacy:result@$digest"
	fetch "legacy@$digest"
	umoci raw unpack --image fetched:x rootfs
	layers() { remote inspect "$1" --raw | jq -c '[.layers[].digest]'; }
	expect 'layers below the new one' "$(layers legacy:result | jq -c '.[:-1]')" "$(layers legacy:1)"
	run_vfix rebuild "docker://$registry/legacy:1" --push
	expect 'digest of --push' "$output" "$registry/legacy:1-vfix@$digest"
	run_vfix rebuild "docker://$registry/legacy:result" -o "docker://$registry/legacy:copy"
	expect 'digest with nothing to do' "$output" "$registry/legacy:copy@$digest"
	run_vfix 3 scan "docker://$registry/legacy:1"
	run_vfix verify "docker://$registry/legacy:result" --against "docker://$registry/legacy:1"
}

@test "rebuild: a push sends the new layer and no other, and loads nothing into a local engine" {
	before=$(wc -l <"$BATS_FILE_TMPDIR/registry.log")
	run_vfix rebuild "docker://$registry/legacy:1" -o "docker://$registry/mounted/legacy:fixed"
	poll grep -q 'uri=/v2/mounted/legacy/manifests/fixed' "$BATS_FILE_TMPDIR/registry.log"
	requests=$(tail -n "+$((before + 1))" "$BATS_FILE_TMPDIR/registry.log" | grep 'response completed')
	count_of() { grep -c "$1" <<<"$requests" || true; }
	expect 'mounts' "$(count_of 'method=POST.*mount=')" "$(remote inspect legacy:1 --raw | jq '.layers | length')"
	expect 'uploads, of the layer and the config' "$(count_of 'method=PUT.*/blobs/')" 2
}

# push_index: legacy:index, the legacy image for linux/amd64 and another image for linux/arm64.
push_index() {
	cp -r "$small_image/oci" index
	umoci new --image index:arm
	umoci config --image index:arm --architecture arm64 --os linux
	jq -c '{schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json",
		annotations: {"org.example.kept": "yes"},
		manifests: [(.manifests[] | . + {platform: {os: "linux",
			architecture: (if .annotations["org.opencontainers.image.ref.name"] == "arm" then "arm64" else "amd64" end)}} | del(.annotations))]}' \
		index/index.json >both.json
	local sum
	sum=$(sha256sum both.json | cut -d' ' -f1)
	cp both.json "index/blobs/sha256/$sum"
	jq -nc --arg sum "sha256:$sum" --argjson size "$(stat -c %s both.json)" \
		'{schemaVersion: 2, manifests: [{mediaType: "application/vnd.oci.image.index.v1+json", digest: $sum, size: $size,
		annotations: {"org.opencontainers.image.ref.name": "both"}}]}' >index/index.json
	skopeo copy --quiet --all --preserve-digests --dest-tls-verify=false --dest-creds "$registry_user:$registry_password" \
		oci:index:both "docker://$registry/legacy:index"
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

@test "rebuild: without a password, and of an image that is not there, nothing is pushed" {
	before=$(tags)
	run_vfix 1 rebuild "docker://$registry/legacy:nothing" -o "docker://$registry/legacy:new"
	expect_match stderr "$stderr" 'legacy:nothing: not found'
	export DOCKER_CONFIG=$BATS_TEST_TMPDIR/empty
	run_vfix 1 rebuild "docker://$registry/legacy:1" -o "docker://$registry/legacy:forbidden"
	expect stdout "$output" ''
	expect_match hint "$stderr" "hint: docker login $registry"
	login
	expect tags "$(tags)" "$before"
}

@test "schema 1: from a registry, signed, and back into it" {
	skopeo copy --quiet --format v2s1 --dest-tls-verify=false --dest-creds "$registry_user:$registry_password" \
		"oci:$legacy_image/oci:legacy" "docker://$registry/old:1"
	expect 'schema and signatures' "$(remote inspect old:1 --raw | jq -c '[.schemaVersion, (.signatures | length)]')" '[1,1]'
	digest=$(remote inspect old:1 --format '{{.Digest}}')
	run_vfix rebuild "docker://$registry/old:1" -o oci:out:x
	expect 'label with the digest of the base' "$(skopeo inspect oci:out:x | jq -r '.Labels["dev.vfix.base.digest"]')" "$digest"
	same_files out
	run_vfix rebuild "docker://$registry/old@$digest" -o "docker://$registry/old:fixed"
	fetch old:fixed
	run_vfix verify "docker://$registry/old:fixed" --against "docker://$registry/old:1"
	run_vfix 3 scan "docker://$registry/old:1"
}

@test "rebuild: a registry with an authority of its own that requires a certificate" {
	export HOME=$BATS_TEST_TMPDIR DOCKER_CONFIG=$BATS_TEST_TMPDIR/empty
	unset XDG_CONFIG_HOME
	certs=$HOME/.config/docker/certs.d/$tls_registry
	mkdir -p "$certs"
	push() { run_vfix "$1" rebuild "oci:$legacy_image/oci:legacy" -o "docker://$tls_registry/legacy:fixed"; }
	push 1
	expect_match stderr "$stderr" "certs.d/$tls_registry"
	cp "$BATS_FILE_TMPDIR/tls/ca.crt" "$certs"
	push 1
	expect_match stderr "$stderr" 'certificate' # that of the client: none
	cp "$BATS_FILE_TMPDIR"/tls/client.{cert,key} "$certs"
	push 0
	run_vfix scan "docker://$tls_registry/legacy:fixed"
}
