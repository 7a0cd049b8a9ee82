#!/usr/bin/env bats
# bats file_tags=long
# The commands of README.md and docs: each block marked sh is run unchanged, with the names of a reader: an engine
# with redis:2.8.22 and a container cache, registries at registry.example and new.example, files and directories.
# Blocks marked shell need a cluster, a release or another tool; a Go test parses the vfix commands in them.
# Variables come from helpers.bash.
# shellcheck disable=SC2154
load helpers

setup_file() {
	load helpers
	export work=$BATS_FILE_TMPDIR/work machine address
	mkdir -p "$work"
	(has_root && has_docker && has_oracle && has_legacy_image && has_image_tools && has_page_tools) >/dev/null || return 0
	# An address of loopback that no other test uses, for the registries' own port.
	address=127.$((RANDOM % 250 + 1)).$((RANDOM % 250 + 1)).$((RANDOM % 250 + 1))
	start_machine
	start_registries
	start_dockerd nsenter --mount="/proc/$machine/ns/mnt" "$novsyscall"
	skopeo copy --quiet "oci:$small_image/oci:legacy" "docker-archive:$work/old.tar:app:1"
	skopeo copy --quiet "oci:$small_image/oci:legacy" "oci:$work/layout:v1"
	docker load --quiet --input "$work/old.tar"
	docker load --quiet --input "$medium_image/redis-legacy.tar"
	docker tag redis:legacy redis:2.8.22
	docker rmi redis:legacy
	docker run --rm --network none redis:2.8.22 bash -c true && fail 'the image runs unpatched'
	ln -s "$small_image/rootfs" "$work/rootfs"
	tar -C "$small_image/rootfs" -cf "$work/rootfs.tar" bin usr/bin/bash usr/lib/x86_64-linux-gnu/libc.so.6
	mkdir -p "$work/bin" "$work/env/bin" "$work/tools"
	for to in signalp bin/old env/bin/old; do cp "$build/fixtures/libc-static-2m" "$work/$to"; done
	cp "$medium_image/redis-legacy.tar" "$work/"
	ln -s /usr/bin/docker "$work/tools/docker"
	# A benchmark measures little here: it only has to run as written.
	# shellcheck disable=SC2016 # for the shell in there
	printf '#!/bin/sh\ncase "$*" in *--help*) ;; "bench --redis "*) set -- "$@" --rounds 1 ;; "bench"*) set -- "$@" --rounds 1 ;; esac\nexec %q "$@"\n' "$VFIX" >"$work/tools/vfix"
	chmod 755 "$work/tools/vfix"
}

teardown_file() {
	load helpers
	stop_services
}

has_page_tools() { has_commands docker-registry openssl jq skopeo; }

# start_machine: a mount namespace with its own names and certificates, and without this machine's cache of vfix.
# $machine is a process in it.
start_machine() {
	openssl req -quiet -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=registries \
		-addext 'subjectAltName=DNS:registry.example,DNS:new.example' -keyout "$work/registry.key" -out "$work/registry.crt" 2>/dev/null ||
		openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=registries \
			-addext 'subjectAltName=DNS:registry.example,DNS:new.example' -keyout "$work/registry.key" -out "$work/registry.crt"
	{ cat /etc/hosts && echo "$address registry.example new.example"; } >"$work/hosts"
	for host in registry.example new.example; do
		mkdir -p "$work/certs/$host"
		cp "$work/registry.crt" "$work/certs/$host/ca.crt"
	done
	start_service machine unshare --mount sh -c "mount --bind '$work/hosts' /etc/hosts && mount -t tmpfs vfix /var/lib && mkdir /var/lib/vfix &&
		mkdir -p /etc/docker /etc/containers && mount -t tmpfs certs /etc/docker && mkdir /etc/docker/certs.d &&
		cp -r '$work/certs/.' /etc/docker/certs.d && echo ready && exec sleep infinity"
	await_service machine grep -q ready "$BATS_FILE_TMPDIR/machine.log"
	machine=$(sed -n 's, machine$,,p' "$BATS_FILE_TMPDIR/services")
}

start_registries() {
	cat >"$work/registry.yml" <<-END
		version: 0.1
		log: {level: info, formatter: text}
		storage: {filesystem: {rootdirectory: $work/registry}, delete: {enabled: true}}
		http: {addr: "$address:443", tls: {certificate: $work/registry.crt, key: $work/registry.key}}
	END
	start_service registry docker-registry serve "$work/registry.yml"
	await_service registry grep -q 'listening on 127' "$BATS_FILE_TMPDIR/registry.log"
	nsenter --mount="/proc/$machine/ns/mnt" skopeo copy --quiet "oci:$small_image/oci:legacy" docker://registry.example/app:1
	nsenter --mount="/proc/$machine/ns/mnt" skopeo copy --quiet "oci:$small_image/oci:legacy" docker://registry.example/app:1.0
}

# commands PAGE: the commands of its blocks marked sh, one per line, without comments after them.
commands() {
	awk '/^```/ { inside = !inside && $0 == "```sh"; other = !other; next } inside' "$1" |
		sed -e ':more' -e '/\\$\||$/{N;s/\\\{0,1\}\n */ /;b more' -e '}'
}

# run_page PAGE: runs them in one shell, in order, for at most a minute. Status 3 is a valid result: the images
# have call sites.
run_page() {
	requires root docker oracle legacy_image image_tools page_tools
	local page=$1 directory=$BATS_TEST_TMPDIR/${1//\//-}
	mkdir "$directory"
	cp -a "$work"/{old.tar,redis-legacy.tar,layout,rootfs,rootfs.tar,bin,env,signalp} "$directory/"
	commands "$tree/$page" >"$BATS_TEST_TMPDIR/commands"
	[ -s "$BATS_TEST_TMPDIR/commands" ] || fail "$page has no commands"
	if grep -q cache "$BATS_TEST_TMPDIR/commands"; then
		docker rm --force cache >/dev/null 2>&1 || true
		docker run --name cache --network none redis:2.8.22 redis-server --version && fail 'the image runs unpatched'
	fi
	# shellcheck disable=SC2016 # for the inner shell
	run timeout 60 nsenter --mount="/proc/$machine/ns/mnt" env -C "$directory" PATH="$work/tools:$PATH" CONDA_PREFIX="$directory/env" \
		bash -o pipefail -c 'while IFS= read -r -u 9 line; do
			echo "\$ $line"
			eval "$line" </dev/null >out 2>&1
			status=$?
			tail -n 3 out
			case $status in 0 | 3) ;; *) cat out; echo "status $status: $line"; exit 1 ;; esac
		done 9<'"$BATS_TEST_TMPDIR/commands"
	echo "$output"
	expect "$page: status" "$status" 0
}

@test "pages: the commands of each page run as they are" {
	local page
	for page in README.md docs/{README,start,rebuilding,programs,diagnosing,security,performance,how-it-works,reference,json}.md; do
		run_page "$page"
	done
}

@test "pages: a command that fails is seen" {
	requires root docker oracle legacy_image image_tools page_tools
	mkdir -p "$BATS_TEST_TMPDIR/tree/docs"
	# shellcheck disable=SC2016 # Markdown
	printf '```sh\nvfix scan redis:2.8.22\nvfix scan nothing.tar   # is not there\n```\n' >"$BATS_TEST_TMPDIR/tree/docs/bad.md"
	local tree=$BATS_TEST_TMPDIR/tree
	run ! run_page docs/bad.md
	expect_match 'what is said' "$output" 'status 1: vfix scan nothing.tar'
}
