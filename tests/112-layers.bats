#!/usr/bin/env bats
# Layers of every kind from engines: whiteouts of aufs, gzip of several members, zstd, estargz, foreign layers,
# very many layers; and attestations beside images.
load helpers

legacy_image=$small_image

setup() {
	requires image_tools legacy_image
	enter_work
	clock=$legacy_image/rootfs/usr/local/bin/clock
	mkdir -p files/bin out/blobs/sha256
	cp "$clock" files/bin/clock
	tar --sort=name -cf plain.tar -C files bin
	layers=() diff_ids=()
}

# blob FILE: puts a file into the layout out and prints its digest.
blob() {
	local sum
	sum=$(sha256sum "$1")
	cp "$1" "out/blobs/sha256/${sum%% *}"
	echo "sha256:${sum%% *}"
}

# add TAR FILE TYPE [MEMBERS]: adds the layer FILE, which is TAR uncompressed; MEMBERS are additional members of
# its descriptor.
add() {
	local digest diff_id
	digest=$(blob "$2")
	diff_id=$(sha256sum "$1")
	layers+=("{\"mediaType\": \"$3\", \"digest\": \"$digest\", \"size\": $(stat -c %s "$2")${4-}}")
	diff_ids+=("\"sha256:${diff_id%% *}\"")
}

join() { local IFS=,; echo "[$*]"; }

# finish: the layout out with an image, tagged x, of the layers that were added.
finish() {
	local config manifest
	jq -nc --argjson ids "$(join "${diff_ids[@]}")" '{architecture: "amd64", os: "linux", config: {}, rootfs: {type: "layers", diff_ids: $ids}}' >config
	config=$(blob config)
	jq -nc --argjson layers "$(join "${layers[@]}")" --arg config "$config" --argjson size "$(stat -c %s config)" '{schemaVersion: 2,
		mediaType: "application/vnd.oci.image.manifest.v1+json",
		config: {mediaType: "application/vnd.oci.image.config.v1+json", digest: $config, size: $size}, layers: $layers}' >manifest
	manifest=$(blob manifest)
	jq -nc --arg digest "$manifest" --argjson size "$(stat -c %s manifest)" '{schemaVersion: 2, manifests: [{
		mediaType: "application/vnd.oci.image.manifest.v1+json", digest: $digest, size: $size,
		annotations: {"org.opencontainers.image.ref.name": "x"}}]}' >out/index.json
	echo '{"imageLayoutVersion":"1.0.0"}' >out/oci-layout
}

oci=application/vnd.oci.image.layer.v1.tar

below() { skopeo inspect --raw "$1" | jq -c '.layers[:-1]'; }

@test "layers: gzip of several members, and with zeros behind, by each decompressor" {
	head -c 100000 /dev/urandom >files/noise # a small layer starts no decompressor
	tar -cf plain.tar -C files bin noise
	head -c 5000 plain.tar | gzip -n >members.gz
	tail -c +5001 plain.tar | gzip -n >>members.gz
	{ cat members.gz && head -c 3000 /dev/zero; } >zeros.gz
	add plain.tar members.gz $oci+gzip
	add plain.tar zeros.gz $oci+gzip
	finish
	for off in none VFIX_DISABLE_IGZIP=1 'VFIX_DISABLE_IGZIP=1 VFIX_DISABLE_PIGZ=1'; do
		# shellcheck disable=SC2086 # several words are meant
		run env ${off/none/A=1} "$VFIX" scan oci:out:x --format json --progress quiet
		expect "status with $off" "$status" 3
	done
	run_vfix rebuild oci:out:x -o oci:fixed:x
	expect 'layers below' "$(below oci:fixed:x)" "$(skopeo inspect --raw oci:out:x | jq -c .layers)"
	run_vfix scan oci:fixed:x
	# The control: other data after the member are an error.
	{ cat members.gz && head -c 100 /dev/zero && echo x; } >bad.gz
	layers=() diff_ids=()
	add plain.tar bad.gz $oci+gzip
	finish
	VFIX_DISABLE_IGZIP=1 VFIX_DISABLE_PIGZ=1 run_vfix 1 scan oci:out:x
}

@test "layers: zstd of several frames and estargz keep every byte" {
	{ head -c 5000 plain.tar | zstd -q && tail -c +5001 plain.tar | zstd -q; } >frames.zst
	add plain.tar frames.zst $oci+zstd
	# The form of estargz: each file is a separate member, the last file is an index, and the footer is an empty
	# member with the index's offset in its header.
	echo '{"version": 1, "entries": []}' >stargz.index.json
	tar -cf index.tar stargz.index.json
	tar --concatenate -f both.tar plain.tar index.tar 2>/dev/null || { cp plain.tar both.tar && tar -rf both.tar stargz.index.json; }
	head -c 2048 both.tar | gzip -n >stargz.gz
	offset=$(stat -c %s stargz.gz)
	tail -c +2049 both.tar | gzip -n >>stargz.gz
	printf '\x1f\x8b\x08\x04\0\0\0\0\0\xff\x1a\0SG\x16\0%016xSTARGZ\x01\0\0\xff\xff\0\0\0\0\0\0\0\0' "$offset" >>stargz.gz
	add both.tar stargz.gz $oci+gzip ", \"annotations\": {\"containerd.io/snapshot/stargz/toc.digest\": \"$(blob stargz.index.json)\"}"
	finish
	gzip -t stargz.gz
	run_vfix rebuild oci:out:x -o oci:fixed:x
	skopeo copy --quiet oci:fixed:x dir:checked
	expect 'layers below, with their annotations' "$(below oci:fixed:x)" "$(skopeo inspect --raw oci:out:x | jq -c .layers)"
	run_vfix scan oci:fixed:x
}

@test "layers: aufs's own files are not files of the image" {
	mkdir -p aufs/bin aufs/.wh..wh.plnk aufs/.wh..wh.orph aufs/etc
	touch aufs/.wh..wh.aufs
	cp "$clock" aufs/.wh..wh.plnk/77.88
	ln aufs/.wh..wh.plnk/77.88 aufs/bin/clock
	cp "$clock" aufs/.wh..wh.orph/lost
	tar -cf aufs.tar -C aufs .wh..wh.aufs .wh..wh.orph .wh..wh.plnk bin etc
	gzip -nk aufs.tar
	add aufs.tar aufs.tar.gz $oci+gzip
	finish
	run_vfix 3 scan oci:out:x --format json
	expect files "$(jq -c '[.results[0].files[].path]' <<<"$output")" '["bin/clock"]'
	run_vfix rebuild oci:out:x -o oci:fixed:x
	added=$(skopeo inspect --raw oci:fixed:x | jq -r '.layers[-1].digest | sub(":"; "/")')
	expect 'files of the added layer' "$(tar -tzf "fixed/blobs/$added" | tr '\n' ' ')" 'bin/ bin/clock '
	run_vfix scan oci:fixed:x
}

@test "layers: a foreign layer that is not there is passed over, and stays as it is" {
	gzip -nk plain.tar
	cp plain.tar foreign.tar
	tar -rf foreign.tar config 2>/dev/null || { echo more >config && tar -rf foreign.tar config; }
	gzip -nk foreign.tar
	add foreign.tar foreign.tar.gz application/vnd.oci.image.layer.nondistributable.v1.tar+gzip ', "urls": ["http://127.0.0.1:9/never-asked"]'
	add plain.tar plain.tar.gz $oci+gzip
	finish
	rm "out/blobs/sha256/$(sha256sum foreign.tar.gz | cut -d' ' -f1)"
	run_vfix 4 rebuild oci:out:x -o oci:fixed:x
	expect_match stderr "$stderr" 'foreign, and not with the image'
	# A file that was not read may call the page: no verb clears the image.
	run_vfix 4 scan oci:out:x
	expect_match verdict "$output" 'INCOMPLETE: 1 layer could not be read'
	run_vfix 4 scan --format json oci:fixed:x
	expect JSON "$(jq -c '.results[0] | [.verdict, .complete, (.not_examined | length), .not_examined[0].unread]' <<<"$output")" '["incomplete",false,1,true]'
	run_vfix 4 verify oci:fixed:x --against oci:out:x
	echo oci:out:x >list
	run_vfix 4 scan --from-file list
	echo oci:fixed:x >list
	run_vfix 4 scan --from-file list
	expect_match 'table' "$output" 'oci:fixed:x  incomplete'
	expect 'layers below' "$(below oci:fixed:x)" "$(skopeo inspect --raw oci:out:x | jq -c .layers)"
	# The control: another missing layer is an error.
	rm "out/blobs/sha256/$(sha256sum plain.tar.gz | cut -d' ' -f1)"
	run_vfix 1 rebuild oci:out:x -o oci:none:x
}

@test "layers: 127 of them, and what docker says to one more" {
	gzip -nk plain.tar
	add plain.tar plain.tar.gz $oci+gzip
	for n in $(seq 126); do
		echo "$n" >"files/n$n"
		tar -cf "$n.tar" -C files "n$n"
		gzip -nk "$n.tar"
		add "$n.tar" "$n.tar.gz" $oci+gzip
	done
	finish
	expect layers "$(skopeo inspect --raw oci:out:x | jq '.layers | length')" 127
	run_vfix rebuild oci:out:x -o oci:fixed:x
	expect_match stderr "$stderr" 'the result has 128 layers'
	"$build/validate" fixed
	run_vfix scan oci:fixed:x
	run_vfix verify oci:fixed:x --against oci:out:x
	run_vfix convert oci:out:x -o docker-archive:many.tar:many:1
	run_vfix 3 scan many.tar
}

@test "layers: an attestation about the image is dropped, with a word" {
	gzip -nk plain.tar
	add plain.tar plain.tar.gz $oci+gzip
	finish
	digest=$(jq -r '.manifests[0].digest' out/index.json)
	# The attestation may be any manifest: the index has its subject.
	jq -c '. + {annotations: {kind: "attestation"}}' manifest >attestation
	about=$(blob attestation)
	jq -nc --arg image "$digest" --argjson size "$(stat -c %s manifest)" --arg about "$about" --argjson length "$(stat -c %s attestation)" '{schemaVersion: 2,
		mediaType: "application/vnd.oci.image.index.v1+json", manifests: [
		{mediaType: "application/vnd.oci.image.manifest.v1+json", digest: $image, size: $size, platform: {os: "linux", architecture: "amd64"}},
		{mediaType: "application/vnd.oci.image.manifest.v1+json", digest: $about, size: $length, platform: {os: "unknown", architecture: "unknown"},
		annotations: {"vnd.docker.reference.type": "attestation-manifest", "vnd.docker.reference.digest": $image}}]}' >index
	index=$(blob index)
	jq -nc --arg digest "$index" --argjson size "$(stat -c %s index)" '{schemaVersion: 2, manifests: [{
		mediaType: "application/vnd.oci.image.index.v1+json", digest: $digest, size: $size, annotations: {"org.opencontainers.image.ref.name": "x"}}]}' >out/index.json
	run_vfix rebuild oci:out:x -o oci:fixed:x
	expect_match stderr "$stderr" 'describes the image that was replaced: omitted'
	expect 'entries of the index' "$(skopeo inspect --raw oci:fixed:x | jq '.manifests | length')" 1
	run_vfix convert oci:out:x -o oci:same:x
	expect 'entries after convert, which replaces nothing' "$(skopeo inspect --raw oci:same:x | jq '.manifests | length')" 2
}

@test "layers: docker's types in an OCI manifest become OCI's, which other tools take" {
	zstd -q plain.tar -o plain.tar.zst
	mkdir more
	cp "$clock" more/clock2
	tar -cf more.tar -C more .
	add plain.tar plain.tar.zst application/vnd.docker.image.rootfs.diff.tar.zstd
	add more.tar more.tar application/vnd.docker.image.rootfs.diff.tar
	finish
	# The control: the base is refused.
	run umoci unpack --image out:x refused
	expect_match 'umoci of the base' "$status" '[1-9]'
	run_vfix rebuild oci:out:x -o oci:fixed:x
	expect 'types of the layers' "$(skopeo inspect --raw oci:fixed:x | jq -c '[.layers[].mediaType]')" \
		"[\"$oci+zstd\",\"$oci\",\"$oci+gzip\"]"
	expect 'digests of the layers below' "$(skopeo inspect --raw oci:fixed:x | jq -c '[.layers[:-1][].digest]')" \
		"$(skopeo inspect --raw oci:out:x | jq -c '[.layers[].digest]')"
	skopeo copy --quiet oci:fixed:x dir:copied # it checks each digest
	run_vfix scan oci:fixed:x
	run_vfix verify oci:fixed:x --against oci:out:x
	# This umoci does not support zstd: only the other two types.
	rm -r out && mkdir -p out/blobs/sha256
	layers=() diff_ids=()
	add plain.tar plain.tar application/vnd.docker.image.rootfs.diff.tar
	finish
	run umoci unpack --image out:x refused
	expect_match 'umoci of the base' "$status" '[1-9]'
	run_vfix rebuild oci:out:x -o oci:plain:x
	umoci unpack --image plain:x taken
	cmp -s taken/rootfs/bin/clock "$clock" && fail 'clock is not patched'
	[ -x taken/rootfs/bin/clock ]
}
