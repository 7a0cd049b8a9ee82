#!/usr/bin/env bats
# bats file_tags=machine
# vfix install and uninstall on this machine's engines, with copies of the directories that they write to. The engines run
# under the seccomp oracle, so each of their containers is killed when it calls the vsyscall page.
# Variables come from helpers.bash.
# shellcheck disable=SC2154
load helpers

places=(etc usr/local/lib usr/share/containers var/lib)

setup() {
	root=$BATS_TEST_TMPDIR/root
	mkdir -p "$root"/{usr/local/lib,usr/share,var/lib,run}
	cp -a /etc "$root/etc"
	cp -a /usr/share/containers "$root/usr/share/" 2>/dev/null || mkdir -p "$root/usr/share/containers"
	rm -rf "$root"/etc/{docker,vfix,containerd}
}

teardown_file() {
	load helpers
	stop_services
}

has_podman() { has_root && has_commands podman; }
has_containerd() { has_commands containerd; }

# here COMMAND...: with the directories of $root in place of the machine's.
# shellcheck disable=SC2016 # for the shell in there
in_places='from=$1; for place in $2; do mount --bind "$from/$place" "/$place"; done; shift 2; exec "$@"'
here() { unshare --mount bash -c "$in_places" - "$root" "${places[*]}" "$@"; }

# vfix_here [STATUS] ARGUMENT...: as run_vfix.
vfix_here() {
	local want=0
	[[ ! $1 =~ ^[0-9]+$ ]] || { want=$1 && shift; }
	run --separate-stderr here "$VFIX" "$@"
	printf '%s\n' "vfix $*: $status" "$output" "$stderr"
	expect "status of vfix $*" "$status" "$want"
}

# docker_here: a docker engine on these directories.
docker_here() {
	local dir=$BATS_FILE_TMPDIR/d storage=vfs
	mkdir -p "$dir"/{client,root}
	! can_overlay "$dir" || storage=overlay2
	export DOCKER_HOST=unix://$dir/s DOCKER_CONFIG=$dir/client
	start_service dockerd unshare --mount bash -c "$in_places" - "$root" "${places[*]}" "$tree/tests/own-mounts" "$dir/root" "$novsyscall" dockerd --host "$DOCKER_HOST" --data-root "$dir/data" \
		--exec-root "$dir/exec" --pidfile "$dir/pid" --iptables=false --ip6tables=false --bridge=none --storage-driver="$storage"
	await_service dockerd docker version
}

# files: the files that vfix or others changed, with hashes.
files() { (cd "$root" && find etc/docker/daemon.json etc/vfix etc/containers usr ! -type d -exec sha256sum {} + 2>/dev/null | sort -k 2); }

# record: what vfix-runtime did at the last start.
record() { tail -n 1 "$root/var/lib/vfix/starts.jsonl"; }

@test "install docker: after a reload containers start patched; uninstall waits for those that need it" {
	requires docker oracle own_root legacy_image
	local before legacy=(--network none redis:legacy redis-server --version)
	mkdir "$root/etc/docker"
	printf '{\n\t"labels": ["a=b"]\n}\n' >"$root/etc/docker/daemon.json"
	before=$(files)
	docker_here
	docker load --quiet --input "$medium_image/redis-legacy.tar"
	run docker run --rm "${legacy[@]}"
	expect 'status without vfix' "$status" "$status_sigsys"
	vfix_here install docker --dry-run
	expect 'files after a dry run' "$(files)" "$before"
	vfix_here install docker
	expect 'command' "$output" 'systemctl reload docker'
	kill -HUP "$(cat "$BATS_FILE_TMPDIR/d/pid")"
	known() { docker info --format '{{(index .Runtimes "vfix").Path}} {{.Labels}}' 2>&1 | grep -qxF '/usr/local/lib/vfix/vfix-runtime [a=b]'; }
	poll known
	run docker run --name one --runtime=vfix "${legacy[@]}"
	expect_match "with it: status $status" "$output" 'Redis server v='
	expect 'the record of the start' "$(record | jq -r .result)" patched
	vfix_here install docker
	expect_match 'a second time' "$stderr" 'nothing to do'
	vfix_here 3 uninstall docker
	expect_match 'what needs it' "$stderr" 'need the runtime: one'
	run docker start --attach one
	expect_match 'it still starts' "$output" 'Redis server v='
	docker rm one
	vfix_here uninstall
	expect 'command' "$output" 'systemctl restart docker'
	expect 'files' "$(files)" "$before"
	stop_services
	docker_here
	expect 'runtimes after a restart' "$(docker info --format '{{json .Runtimes}}' | grep -c vfix)" 0
	stop_services
}

@test "install docker --default-runtime: every container; the program stays until docker was restarted" {
	requires docker oracle own_root legacy_image
	local before
	before=$(files)
	vfix_here install docker --default-runtime
	docker_here
	docker image inspect redis:legacy >/dev/null 2>&1 || docker load --quiet --input "$medium_image/redis-legacy.tar"
	run docker run --rm --network none redis:legacy redis-server --version
	expect_match "status $status: $(record)" "$output" 'Redis server v='
	vfix_here 3 uninstall
	kill -HUP "$(cat "$BATS_FILE_TMPDIR/d/pid")"
	run docker run --rm --network none redis:legacy redis-server --version
	expect_match "before a restart: status $status" "$output" 'Redis server v='
	stop_services
	docker_here
	expect 'the default after a restart' "$(docker info --format '{{.DefaultRuntime}}')" runc
	vfix_here uninstall
	expect 'files' "$(files)" "$before"
	stop_services
}

# podman_here ARGUMENT...: podman on these directories, and under the oracle.
podman_here() {
	local dir=$BATS_FILE_TMPDIR/p storage=vfs
	mkdir -p "$dir/root"
	! can_overlay "$dir" || storage=overlay
	here "$tree/tests/own-mounts" "$dir/root" "$novsyscall" podman --root "$dir/r" --runroot "$dir/rr" --storage-driver "$storage" \
		--cgroup-manager cgroupfs --runtime runc "$@"
}

@test "install podman: every container starts patched, and no container needs vfix after uninstall" {
	requires podman oracle own_root legacy_image
	local before options=(--network none --ulimit nofile=1024:1024 --ulimit nproc=1024:1024)
	before=$(files)
	tar -C "$medium_image/rootfs" -c . | podman_here import - legacy
	run podman_here run --rm "${options[@]}" legacy redis-server --version
	expect 'status without vfix' "$status" "$status_sigsys"
	vfix_here install podman
	expect 'command' "$output" ''
	run podman_here run --name one "${options[@]}" legacy redis-server --version
	expect_match "with it: status $status" "$output" 'Redis server v='
	vfix_here uninstall
	expect 'files' "$(files)" "$before"
	run podman_here start --attach one
	expect_match "after uninstall, the patched files are in its layer: status $status" "$output" 'Redis server v='
	run podman_here run --rm "${options[@]}" legacy redis-server --version
	expect 'status of another one' "$status" "$status_sigsys"
}

@test "install containerd: the lines that are printed make containerd know the runtime, beside runc" {
	requires containerd
	local table='[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.' config=$root/etc/containerd/config.toml want
	install -D <(printf 'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\n  sandbox_image = "x/y"\n') "$config"
	run_vfix install containerd --root "$root"
	expect_match 'the file' "$stderr" 'add these lines to /etc/containerd/config.toml:'
	expect_match 'command' "$output" 'systemctl restart containerd'
	grep -v '^systemctl' <<<"$output" >>"$config"
	run --separate-stderr containerd --config "$config" config dump
	for want in "${table}vfix]" "${table}runc]" 'BinaryName = "/usr/local/lib/vfix/vfix-runtime"' 'pod_annotations = ["dev.vfix.*"]' 'sandbox_image = "x/y"'; do
		grep -qF -e "$want" <<<"$output" || fail "'$want' is not in: $output"
	done
	run_vfix install containerd --root "$root"
	expect_match 'a second time' "$stderr" 'nothing to do'
	run_vfix 3 uninstall --root "$root"
	expect_match 'what to remove' "$stderr" 'remove these lines from /etc/containerd/config.toml:'
}

@test "install: 200 starts of containers while it runs again and again, and none fails" {
	requires root own_root
	local bundle=$BATS_TEST_TMPDIR/bundle program=$root/usr/local/lib/vfix/vfix-runtime
	run_vfix install podman --root "$root"
	mkdir -p "$bundle/rootfs/proc"
	cp "$(command -v busybox)" "$bundle/rootfs/busybox"
	jq -n '{ociVersion: "1.0.2", root: {path: "rootfs"}, process: {user: {uid: 0, gid: 0}, args: ["/busybox", "true"], cwd: "/"},
		mounts: [{destination: "/proc", type: "proc", source: "proc"}], linux: {namespaces: ["pid", "mount", "network", "ipc", "uts"] | map({type: .})}}' >"$bundle/config.json"
	again() {
		while [ ! -e "$BATS_TEST_TMPDIR/end" ]; do
			{ cat "$program" && echo; } >"$program.other"
			chmod 755 "$program.other"
			mv "$program.other" "$program"
			"$VFIX" install podman --root "$root" >>"$BATS_TEST_TMPDIR/log" 2>&1 || touch "$BATS_TEST_TMPDIR/failed"
		done
	}
	again 3>&- &
	local pid=$! n failed=0
	for n in {1..200}; do
		here "$program" --root "$BATS_TEST_TMPDIR/state" run --bundle "$bundle" "c$n" </dev/null || failed=$((failed + 1))
	done
	touch "$BATS_TEST_TMPDIR/end"
	wait "$pid"
	expect 'starts that failed' "$failed" 0
	[ ! -e "$BATS_TEST_TMPDIR/failed" ] || fail "an install failed: $(tail -n 3 "$BATS_TEST_TMPDIR/log")"
	[ "$(grep -c 'write /usr/local/lib/vfix/vfix-runtime' "$BATS_TEST_TMPDIR/log")" -gt 1 ] || fail 'the program was not replaced'
}
