#!/usr/bin/env bats
# Formats of old engines and registries: docker schema 1 manifests, the archives of docker save before 1.10.
load helpers

legacy_image=$small_image

setup_file() {
	load helpers
	start_legacy_registry old:1 --format v2s1
}

teardown_file() {
	load helpers
	stop_services
}

setup() {
	requires image_tools legacy_image
	enter_work
	layout=oci:$legacy_image/oci:legacy
}

remote() { # ARGUMENT...: skopeo inspect of an image of the registry
	skopeo inspect --tls-verify=false --creds "$registry_user:$registry_password" "$@"
}

diff_ids() { skopeo inspect --config "$1" | jq -c .rootfs.diff_ids; }

@test "schema 1: from a registry, signed, and back into it" {
	requires registry
	login
	expect 'schema and signatures' "$(remote --raw "docker://$registry/old:1" | jq -c '[.schemaVersion, (.signatures | length)]')" '[1,1]'
	digest=$(remote --format '{{.Digest}}' "docker://$registry/old:1")
	run_vfix rebuild "docker://$registry/old:1" -o oci:out:x
	expect_match message "$stderr" 'its signature is sound'
	expect 'label with the digest of the base' "$(skopeo inspect oci:out:x | jq -r '.Labels["dev.vfix.base.digest"]')" "$digest"
	expect 'diff IDs below the new one' "$(diff_ids oci:out:x | jq -c '.[:-1]')" "$(diff_ids "$layout")"
	same_files out
	# Also by its digest, and to the same registry.
	run_vfix rebuild "docker://$registry/old@$digest" -o "docker://$registry/old:fixed"
	skopeo copy --quiet --src-tls-verify=false --src-creds "$registry_user:$registry_password" "docker://$registry/old:fixed" oci:back:x
	same_files back
	run_vfix verify "docker://$registry/old:fixed" --against "docker://$registry/old:1"
	run_vfix 3 scan "docker://$registry/old:1"
}

@test "schema 1: from a directory, and a manifest file with its layers beside it" {
	skopeo copy --quiet --format v2s1 "$layout" dir:directory
	expect 'schema' "$(jq .schemaVersion directory/manifest.json)" 1
	run_vfix rebuild directory -o oci:one:x
	same_files one
	run_vfix rebuild directory/manifest.json -o oci:two:x
	expect 'diff IDs' "$(diff_ids oci:two:x)" "$(diff_ids oci:one:x)"
	run_vfix verify oci:one:x --against dir:directory
}

@test "schema 1: a changed manifest is an error, the unsigned one is not" {
	skopeo copy --quiet --format v2s1 "$layout" dir:directory
	sed -i 's/redis-server/redis-sewer/' directory/manifest.json
	run_vfix 1 scan directory
	expect_match stderr "$stderr" 'changed after it was signed'
	jq -c 'del(.signatures)' directory/manifest.json >unsigned
	mv unsigned directory/manifest.json
	run_vfix 3 scan directory
	expect_match stderr "$stderr" 'not signed'
}

@test "schema 1: a manifest without its layers says where they should be" {
	skopeo copy --quiet --format v2s1 "$layout" dir:directory
	mv directory/manifest.json alone.json
	run_vfix 1 scan alone.json
	expect_match hint "$stderr" 'the layers must be beside the manifest'
}

# old_archive DIRECTORY NAME TAG: an archive as docker save wrote it before 1.10, with an empty layer.
old_archive() {
	local dir=$1 parent='' id n=0 blob config
	mkdir -p "$dir"
	config=$(skopeo inspect --config "$layout")
	for blob in $(skopeo inspect --raw "$layout" | jq -r '.layers[].digest | sub(":"; "/")') empty; do
		n=$((n + 1))
		id=$(printf %064x $n)
		mkdir "$dir/$id"
		printf 1.0 >"$dir/$id/VERSION"
		if [ "$blob" = empty ]; then
			head -c 1024 /dev/zero >"$dir/$id/layer.tar"
		else
			gunzip -c "$legacy_image/oci/blobs/$blob" >"$dir/$id/layer.tar"
		fi
		jq -c --arg id "$id" --arg parent "$parent" '{id: $id, created, config, container_config: {Cmd: ["step", $id[-2:]]}}
			+ if $parent == "" then {} else {parent: $parent} end' <<<"$config" >"$dir/$id/json"
		parent=$id
	done
	jq -nc --arg name "$2" --arg tag "$3" --arg id "$id" '{($name): {($tag): $id, "also": $id}}' >"$dir/repositories"
}

@test "docker save of old engines: a tarball without manifest.json" {
	old_archive old legacy/redis 2.8
	tar -cf old.tar -C old .
	run_vfix rebuild old.tar -o oci:out:x
	expect 'diff IDs below the new one' "$(diff_ids oci:out:x | jq -c '.[:-1]')" "$(diff_ids "$layout")"
	expect 'empty layers' "$(skopeo inspect --config oci:out:x | jq -c '[.history[] | .empty_layer // false]')" '[false,false,false,true,false]'
	expect entrypoint "$(skopeo inspect --config oci:out:x | jq -c .config.Entrypoint)" "$(skopeo inspect --config "$layout" | jq -c .config.Entrypoint)"
	same_files out
	run_vfix rebuild docker-archive:old.tar:legacy/redis:2.8 -o oci:again:x
	expect digest "$(skopeo inspect --format '{{.Digest}}' oci:again:x)" "$(skopeo inspect --format '{{.Digest}}' oci:out:x)"
	run_vfix 1 rebuild docker-archive:old.tar:legacy/redis:3 -o oci:none:x
	expect_match hint "$stderr" 'legacy/redis:2.8'
}

digest_of() { skopeo inspect --format '{{.Digest}}' "$1"; }

@test "convert: an old format becomes an OCI image, its layers kept" {
	skopeo copy --quiet --format v2s1 "$layout" dir:directory
	run_vfix convert directory -o oci:one:x
	expect reference "$output" oci:one:x
	"$build/validate" one
	expect 'diff IDs' "$(diff_ids oci:one:x)" "$(diff_ids "$layout")"
	expect layers "$(skopeo inspect --raw oci:one:x | jq -c '[.layers[].digest]')" "$(skopeo inspect --raw "$layout" | jq -c '[.layers[].digest]')"
	run_vfix convert directory -o oci-archive:two.tar:x
	expect 'digest in an archive' "$(digest_of oci-archive:two.tar:x)" "$(digest_of oci:one:x)"
	old_archive old legacy/redis 2.8
	tar -cf old.tar -C old .
	run_vfix convert old.tar -o oci:three:x
	"$build/validate" three
	expect 'diff IDs of an old archive' "$(diff_ids oci:three:x)" "$(diff_ids "$layout")"
	run_vfix 3 scan oci:three:x
}

@test "convert: docker archive and OCI layout, there and back, with the same config" {
	config_of() { skopeo inspect --raw "$1" | jq -r .config.digest; }
	run_vfix convert "$layout" -o oci:same:x
	expect 'digest of an OCI image' "$(digest_of oci:same:x)" "$(digest_of "$layout")"
	run_vfix convert "$layout" -o docker-archive:out.tar:redis:x
	run_vfix convert out.tar -o oci:back:x
	expect 'config, and with it the image ID' "$(config_of oci:back:x)" "$(config_of "$layout")"
	expect layers "$(skopeo inspect --raw oci:back:x | jq -c '[.layers[].digest]')" "$(skopeo inspect --raw "$layout" | jq -c '[.layers[].digest]')"
	run_vfix convert out.tar -o oci:again:x --format json
	expect 'digest of a second time' "$(jq -r .digest <<<"$output")" "$(digest_of oci:back:x)"
	run_vfix 1 convert out.tar -o oci:never:x --cmd /bin/sh
	expect_match stderr "$stderr" 'a config of its own'
	[ ! -e never ] || fail 'something was written'
	run_vfix 2 convert out.tar
}

# listing DIRECTORY: each file with the metadata that a layer keeps.
listing() {
	(cd "$1" && find . -mindepth 1 -printf '%p %y %m %U:%G %n %Ts %l\n' | sort && find . -type f -exec sha256sum {} + | sort)
}

@test "a root filesystem: directory and tarball become images of one layer" {
	requires root
	# Without the programs, which are most of the image and only take long to compress.
	mkdir small
	tar -c -C "$legacy_image/rootfs" --exclude './usr/*bin/*' --exclude './usr/lib/x86_64-linux-gnu/[!l]*' --exclude '*/lib[!c]*.so*' --exclude '*/libcrypto*' . | tar -x -C small
	tar --sort=name --numeric-owner -cf rootfs.tar -C small .
	gzip -k1 rootfs.tar
	listing small >listed
	for source in small rootfs.tar rootfs.tar.gz; do
		rm -rf out unpacked
		run_vfix convert "$source" -o oci:out:x --entrypoint '["/bin/sh", "-c"]' --cmd date --env A=b --workdir /tmp --user 1:2
		"$build/validate" out
		umoci raw unpack --image out:x unpacked
		diff listed <(listing unpacked)
		expect config "$(skopeo inspect --config oci:out:x | jq -c .config)" \
			'{"Cmd":["date"],"Entrypoint":["/bin/sh","-c"],"Env":["A=b"],"User":"1:2","WorkingDir":"/tmp"}'
	done
	expect 'diff ID, which is that of the tarball' "$(diff_ids oci:out:x)" "[\"sha256:$(sha256sum rootfs.tar | cut -d' ' -f1)\"]"
	run_vfix rebuild rootfs.tar -o oci:fixed:x
	expect layers "$(diff_ids oci:fixed:x | jq length)" 2
	same_files fixed small
	run_vfix rebuild small -o oci:one:x
	run_vfix rebuild small -o oci:two:x
	expect 'digest of a second time' "$(digest_of oci:two:x)" "$(digest_of oci:one:x)"
}

@test "a root filesystem: a name that would hide files is an error" {
	mkdir -p root/etc
	touch root/etc/.wh.passwd root/etc/passwd
	run_vfix 1 convert root -o oci:out:x
	expect_match stderr "$stderr" 'etc/.wh.passwd'
	tar -cf root.tar -C root .
	run_vfix 1 convert root.tar -o oci:out:x
	expect_match stderr "$stderr" 'etc/.wh.passwd'
	[ ! -e out ] || fail 'something was written'
	rm root/etc/.wh.passwd
	run_vfix convert root -o oci:out:x
}

@test "patch: an image is not a root filesystem, and the hint says how to rebuild it" {
	skopeo copy --quiet "$layout" dir:directory
	skopeo copy --quiet "$layout" oci-archive:archive.tar:x
	cp -r "$legacy_image/oci" layout
	cp "$legacy_image/redis-legacy.tar" docker.tar
	local before
	before=$(find . -type f -exec sha256sum {} + | sort)
	for path in directory directory/ layout archive.tar docker.tar directory/manifest.json; do
		for how in -i --dry-run '-o copy'; do
			# shellcheck disable=SC2086 # -o and its value
			run_vfix 1 patch $how "$path"
			expect_match error "$stderr" 'is an image'
			expect_match hint "$stderr" 'hint: to rebuild it: vfix rebuild '
		done
	done
	# The hint names one.
	for source in dir:directory oci:layout oci-archive:archive.tar docker-archive:docker.tar; do
		run_vfix 1 patch -i "$source"
		expect_match hint "$stderr" "vfix rebuild $source"
		run_vfix rebuild --dry-run "$source"
	done
	expect files "$(find . -type f -exec sha256sum {} + | sort)" "$before"
}
