#!/usr/bin/env bats
# Programs without a daemon: Apptainer runs and builds from what vfix writes, cosign
# and oras read and sign what vfix pushes.
# shellcheck disable=SC2016 # $ is in values
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

# small_root: files for images that are small and have what a squashfs must keep.
small_root() {
	local program library
	mkdir -p root/bin root/dev root/etc root/opt/old root/opt/gone root/home/user root/lib64
	for program in dash env printenv id pwd stat; do
		cp "$(type -P $program)" root/bin/
		for library in $(ldd "$(type -P $program)" | grep -o '/[^ ]*'); do cp -n --parents "$library" root/; done
	done
	ln -s dash root/bin/sh
	cp "$legacy_image/rootfs/usr/local/bin/clock" root/bin/legacy
	ln root/bin/legacy root/opt/hard-link
	printf '#!/bin/sh\nfor word; do echo "<$word>"; done\n' >root/bin/words
	chmod 755 root/bin/words
	echo 'name of the image' >root/etc/hosts
	echo old >root/opt/old/file
	echo gone >root/opt/gone/file
	echo data >root/home/user/data
	chown 1000:1001 root/home/user root/home/user/data
	cp root/bin/id root/bin/setuid
	chmod 4711 root/bin/setuid
	chmod 2750 root/home/user
	mknod root/dev/null c 1 3
	mkfifo root/opt/fifo
	ln -s ../bin/words root/opt/link
	chmod 751 root
	find root -exec touch -h -d @1400000000 {} +
	tar --sort=name --numeric-owner -C root -c -f 1.tar .
	mkdir -p above/opt/gone
	touch above/opt/.wh.old above/opt/gone/.wh..wh..opq
	echo new >above/opt/gone/new
	find above -exec touch -h -d @1400000000 {} +
	tar --sort=name --numeric-owner -C above -c -f 2.tar opt
}

# small NAME CONFIG: NAME.tar, a docker archive of that root file system.
small() {
	jq -n --argjson config "$2" --arg one "sha256:$(sha256sum 1.tar | cut -d ' ' -f 1)" --arg two "sha256:$(sha256sum 2.tar | cut -d ' ' -f 1)" \
		'{architecture: "amd64", os: "linux", created: "2014-05-13T16:53:20Z", config: $config, rootfs: {type: "layers", diff_ids: [$one, $two]}}' >config.json
	jq -n --arg tag "$1:1" '[{Config: "config.json", RepoTags: [$tag], Layers: ["1.tar", "2.tar"]}]' >manifest.json
	tar -c -f "$1.tar" manifest.json config.json 1.tar 2.tar
}

# squashed FILE: what is in the root file system of a SIF file, with owners, modes, times, devices, xattrs, links.
squashed() {
	apptainer sif dump "$(apptainer sif list "$1" | sed -n 's/^\([0-9]*\) .*Squashfs.*/\1/p')" "$1" >"$1.squashfs"
	rm -rf "$1.root"
	unsquashfs -quiet -no-progress -dest "$1.root" "$1.squashfs"
	(cd "$1.root" && find . -printf '%p %y %m %U:%G %n %T@ %l\n' | sort && find . -type f -exec sha256sum {} + | sort -k 2)
}

# behaves FILE: what a user sees of it.
behaves() {
	local words=('' 'one two' "it's" '$HOME "x"' 'a\b' '*')
	for option in '' --no-eval; do
		echo "run $option"
		apptainer run --userns $option "$1" 2>&1 | grep -v ^INFO
		echo "run $option with arguments"
		apptainer run --userns $option "$1" words "${words[@]}" 2>&1 | grep -v ^INFO
	done
	echo exec
	apptainer exec --userns --env GIVEN='of the user' --env BOTH=user "$1" env | sed "s:$1:SIF:" | grep -v '^_=' | sort
	apptainer exec --userns --cleanenv --no-home "$1" sh -c 'id; pwd; words "$@"' sh "${words[@]}" 2>&1 | grep -v ^INFO
	APPTAINERENV_PREPEND_PATH=/first apptainer exec --userns "$1" printenv PATH
	apptainer shell --userns "$1" <<<'echo "shell: $SHELL $GIVEN"' 2>&1 | grep -v ^INFO
	echo inspect
	apptainer inspect --json --labels "$1" | jq '.data.attributes.labels | with_entries(select(.key | test("build-date|apptainer.version|deffile") | not))'
	apptainer sif dump "$(for n in 1 2 3 4; do apptainer sif info $n "$1" | sed -n "s/ *Name: *oci-config.json/$n/p"; done)" "$1" | jq -S .
}

@test "Apptainer: a SIF file that vfix made of an image is as apptainer build's: files, run, exec, inspect" {
	small_root
	env='["PATH=/opt/none:/bin", "BOTH=image", "QUOTES=it'"'"'s (a) & b; *", "EMPTY=", "LD_LIBRARY_PATH=/opt/lib", "not a name=x"]'
	labels='{"org.example.name": "a \"label\" <&>"}'
	while read -r name config; do
		small "$name" "$(jq --argjson env "$env" --argjson labels "$labels" '. + {Env: $env, Labels: $labels, User: "1000:1001", WorkingDir: "/opt"}' <<<"$config")"
		apptainer build "$name-theirs.sif" "docker-archive:$name.tar" 2>&1
		run_vfix convert "$name.tar" -o "sif:$name-vfix.sif"
		diff <(behaves "$name-theirs.sif" | sed s/-theirs//) <(behaves "$name-vfix.sif" | sed s/-vfix//)
	done <<-'END'
		both {"Entrypoint": ["/bin/words", "entry point", "$HOME"], "Cmd": ["it's", "a \"word\"", "$HOME", "`id`", "a\\b"]}
		entrypoint {"Entrypoint": ["/bin/words", "only"]}
		command {"Cmd": ["words", "of", "the command"]}
	END
	# The files: theirs has its own text in /.singularity.d, and empties /etc/hosts, over which it mounts.
	own='/\.singularity\.d|\./(etc/(hosts|resolv\.conf)|environment|singularity|\.(exec|run|shell|test))( |$)|^\./(root|sys|tmp|var|proc|etc|\.|home)?(/tmp)? d '
	diff <(squashed both-theirs.sif | grep -Ev "$own" | sed 's/ d \(.*\) [0-9.]* $/ d \1/') \
		<(squashed both-vfix.sif | grep -Ev "$own" | sed 's/ d \(.*\) [0-9.]* $/ d \1/')
	# Every name that theirs has is there, except for those of SCIF apps.
	expect names "$(comm -23 <(cd both-theirs.sif.root && find . | sort) <(cd both-vfix.sif.root && find . | sort) | tr '\n' ' ')" \
		'./.singularity.d/env/01-base.sh ./.singularity.d/env/94-appsbase.sh ./.singularity.d/env/95-apps.sh '
	[ both-vfix.sif.root/bin/legacy -ef both-vfix.sif.root/opt/hard-link ] || fail 'the hard link is broken'
	[ ! -e both-vfix.sif.root/opt/old ] && [ "$(ls both-vfix.sif.root/opt/gone)" = new ] || fail 'the whiteouts have no effect'
	# The same image gives the same bytes.
	run_vfix convert both.tar -o sif:again.sif
	cmp both-vfix.sif again.sif
	# Values that Apptainer 1.4 changes, or whose script it cannot read, are those of the config.
	env='["A=it'"'"'s \"$HOME\" \\ }", "B=`id`", "C=a\nb", "PATH=$HOME:/bin"]'
	small odd "$(jq -n --argjson env "$env" '{Env: $env}')"
	run_vfix convert odd.tar -o sif:odd.sif
	for n in 0 1 2; do
		value=$(jq -r ".[$n]" <<<"$env")
		expect "variable $n" "$(apptainer exec --userns odd.sif printenv "${value%%=*}")" "${value#*=}"
	done
	expect_match PATH "$(apptainer exec --userns odd.sif /bin/printenv PATH)" '$HOME:/bin'
}

@test "Apptainer: runs a SIF file that vfix made of a docker archive, a registry's image and a sandbox" {
	run_vfix rebuild "$legacy_image/redis-legacy.tar" -o sif:archive.sif
	apptain archive.sif bash -c 'redis-server --version && clock'
	expect status "$status" 0
	run env APPTAINER_USERNS=1 ./archive.sif redis-server --version
	expect_match 'the file as a program' "$output" 'Redis server v='
	run_vfix scan archive.sif
	# As it is, it dies.
	run_vfix convert "docker://$registry/legacy:1" -o sif:unpatched.sif
	apptain unpatched.sif clock
	[ "$status" != 0 ] || fail 'the unpatched one runs'
	run_vfix rebuild unpatched.sif -o sif:patched.sif
	apptain patched.sif clock
	expect 'status of the patched one' "$status" 0
	run_vfix verify patched.sif --against unpatched.sif
	# A sandbox keeps the scripts that it has.
	apptainer build --sandbox theirs "docker-archive:$legacy_image/redis-legacy.tar"
	run_vfix rebuild theirs -o sif:sandbox.sif
	apptain sandbox.sif clock
	expect 'status of the sandbox' "$status" 0
	run apptainer run --userns sandbox.sif redis-server --version
	expect_match 'its runscript' "$output" 'Redis server v='
	diff <(cd theirs && find .singularity.d -type f -exec sha256sum {} + | sort) <(squashed sandbox.sif >/dev/null && cd sandbox.sif.root && find .singularity.d -type f -exec sha256sum {} + | sort)
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
	# docs/security.md: the same key signs both.
	cosign verify "${unlogged[@]}" "$image"
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
