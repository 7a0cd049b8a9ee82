#!/usr/bin/env bats
# Programs that are no engine with a daemon: Apptainer runs and builds from what vfix writes, cosign
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

@test "Apptainer: runs a SIF file that vfix wrote" {
	run_vfix rebuild legacy.sif -o sif:fixed.sif
	apptain fixed.sif bash -c 'redis-server --version && clock'
	expect status "$status" 0
	expect_match output "$output" 'Redis server v='
}

@test "Apptainer: runs a sandbox that vfix wrote" {
	run_vfix rebuild legacy.sif -o dir:sandbox
	apptain sandbox bash -c 'redis-server --version && clock'
	expect status "$status" 0
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

@test "oras discover finds the statement of provenance" {
	run_vfix rebuild "docker://$registry/legacy:1" -o "docker://$registry/legacy:fixed"
	run oras discover --plain-http --format json "$registry/legacy:fixed"
	echo "$output"
	expect type "$(jq -r '(.referrers // .manifests)[0].artifactType' <<<"$output")" application/vnd.in-toto+json
	oras pull --plain-http "$registry/legacy@$(jq -r '(.referrers // .manifests)[0].digest' <<<"$output")"
}

@test "cosign attest and verify-attestation, with a local key" {
	run_vfix rebuild "docker://$registry/legacy:1" -o "docker://$registry/legacy:fixed"
	image=$registry/legacy@${output#*@}
	run_vfix verify "docker://$registry/legacy:fixed" --provenance
	jq .predicate <<<"$output" >predicate.json
	type=https://vfix.dev/provenance/v1
	cosign attest "${local[@]}" --predicate predicate.json --type $type "$image"
	run --separate-stderr cosign verify-attestation "${unlogged[@]}" --type $type "$image"
	echo "$stderr"
	expect status "$status" 0
	expect 'the predicate' "$(jq -r .payload <<<"$output" | base64 -d | jq -cS .predicate)" "$(jq -cS . predicate.json)"
	run_vfix verify "docker://$registry/legacy:fixed" --provenance
}

@test "cosign sign: vfix names the base's signature, and the result can be signed" {
	digest=$(skopeo inspect --tls-verify=false --format '{{.Digest}}' "docker://$registry/legacy:1")
	run_vfix rebuild "docker://$registry/legacy:1" -o "docker://$registry/legacy:unsigned"
	[[ $stderr != *'cosign sign'* ]] || fail 'a signature that is not there is named'
	cosign sign "${local[@]}" "$registry/legacy@$digest"
	# Into a repository without the attestation above, which cosign verify would accept.
	run_vfix rebuild "docker://$registry/legacy:1" -o "docker://$registry/signed:1"
	expect_match stderr "$stderr" 'cosign sign'
	image=$registry/signed@${output#*@}
	run cosign verify "${unlogged[@]}" "$image"
	[ "$status" != 0 ] || fail 'the result is signed already'
	cosign sign "${local[@]}" "$image"
	cosign verify "${unlogged[@]}" "$image"
}
