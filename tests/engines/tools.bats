#!/usr/bin/env bats
# Programs without a daemon: Apptainer runs and builds from what vfix writes, cosign
# and oras read and sign what vfix pushes.
load ../helpers

setup_file() {
	echo "# version Apptainer $(apptainer --version | sed 's/.* //'), cosign $(dpkg-query -W -f '${Version}' cosign | sed 's/-.*//'), oras $(oras version | sed -n 's/^Version: *//p' | sed 's/+.*//')" >&3
	export COSIGN_PASSWORD=not-a-secret
	cd "$BATS_FILE_TMPDIR" || return
	apptainer build legacy.sif "docker-archive:$legacy_image/redis-legacy.tar"
	start_registry
	login_file
	skopeo copy --quiet --dest-tls-verify=false "docker-archive:$legacy_image/redis-legacy.tar" "docker://$registry/legacy:1"
	cosign generate-key-pair
}

teardown_file() { stop_services; }

setup() { cd "$BATS_FILE_TMPDIR" || return; }

# login_file: as login, for all tests.
login_file() {
	BATS_TEST_TMPDIR=$BATS_FILE_TMPDIR login
}

# apptain IMAGE COMMAND...: there are no loop devices; squashfuse mounts the file.
apptain() {
	run apptainer exec --userns "$@"
	echo "$output"
}

@test "Apptainer: the unmodified SIF file is killed" {
	apptain legacy.sif bash -c 'clock'
	[ "$status" != 0 ] || fail 'it runs'
	apptain legacy.sif true
	expect 'status of a program that does not call the page' "$status" 0
}

@test "Apptainer: a sandbox that vfix patched, and the SIF file made of it" {
	apptainer build --sandbox sandbox "docker-archive:$legacy_image/redis-legacy.tar"
	run_vfix patch -i sandbox
	apptain sandbox bash -c 'redis-server --version && clock'
	expect status "$status" 0
	apptainer build patched.sif sandbox
	apptain patched.sif bash -c 'redis-server --version && clock'
	expect 'status of the SIF file' "$status" 0
	expect_match output "$output" 'Redis server v='
}

@test "Apptainer: builds from an OCI archive that vfix wrote" {
	run_vfix rebuild "$legacy_image/redis-legacy.tar" -o oci-archive:fixed.tar
	apptainer build built.sif oci-archive:fixed.tar
	apptain built.sif bash -c 'redis-server --version && clock'
	expect status "$status" 0
}

# Nothing but the registry on loopback is asked: no transparency log, no configuration of sigstore's.
local=(--key cosign.key --tlog-upload=false --use-signing-config=false --yes)
unlogged=(--key cosign.pub --insecure-ignore-tlog=true)

@test "cosign attest and verify-attestation of the statement, with a local key; oras attaches it" {
	run_vfix rebuild "docker://$registry/legacy:1" -o "docker://$registry/legacy:fixed" --provenance statement.json
	image=$registry/legacy@${output#*@}
	jq .predicate statement.json >predicate.json
	type=$(jq -r .predicateType statement.json)
	cosign attest "${local[@]}" --predicate predicate.json --type "$type" "$image"
	run --separate-stderr cosign verify-attestation "${unlogged[@]}" --type "$type" "$image"
	echo "$stderr"
	expect status "$status" 0
	expect 'the predicate' "$(jq -r .payload <<<"$output" | base64 -d | jq -cS .predicate)" "$(jq -cS . predicate.json)"
	oras attach --plain-http --artifact-type application/vnd.in-toto+json "$image" statement.json
	expect type "$(oras discover --plain-http --format json "$image" | jq -r '[(.referrers // .manifests)[].artifactType] | index("application/vnd.in-toto+json") != null')" true
}

@test "cosign sign: the result can be signed" {
	run_vfix rebuild "docker://$registry/legacy:1" -o "docker://$registry/signed:1"
	image=$registry/signed@${output#*@}
	run cosign verify "${unlogged[@]}" "$image"
	[ "$status" != 0 ] || fail 'the result is signed already'
	cosign sign "${local[@]}" "$image"
	cosign verify "${unlogged[@]}" "$image"
}
