#!/usr/bin/env bats
# vfix install and uninstall: the engines themselves read the written files, in a root directory of the test.
# Variables come from helpers.bash.
# shellcheck disable=SC2154
load helpers

setup() { root=$BATS_TEST_TMPDIR/root; }

teardown_file() {
	load helpers
	stop_services
}

has_containerd() { has_commands containerd; }
has_podman() { has_root && has_commands podman; }
has_strace() { has_commands strace; }

# make_root FILE...: a root directory with these empty files, as signs of an engine.
make_root() {
	local file
	mkdir -p "$root/var/lib"
	for file in "$@"; do
		install -D -m 755 /dev/null "$root/$file"
	done
}

# listing: everything in the root, with modes, owners, times and hashes.
listing() {
	(cd "$root" && find . ! -type f -printf '%p %M %U:%G %l\n' -o -printf '%p %M %U:%G %T@ ' -exec sha256sum {} \; | sort)
}

# expect_text WHAT TEXT LINE: TEXT has LINE verbatim.
expect_text() { grep -qF -e "$3" <<<"$2" || fail "$1: '$3' is not in: $2"; }

install_test() { run_vfix install "$@" --root "$root"; }

# docker_here DIR OPTION...: a docker engine that reads the daemon.json of the root directory.
docker_here() {
	local dir=$1
	mkdir -p "$dir"/{client,root}
	export DOCKER_HOST=unix://$dir/s DOCKER_CONFIG=$dir/client
	start_service dockerd "$tree/tests/own-mounts" "$dir/root" dockerd --config-file "$root/etc/docker/daemon.json" --host "$DOCKER_HOST" \
		--exec-root "$dir/exec" --pidfile "$dir/pid" --iptables=false --ip6tables=false --bridge=none --storage-driver=vfs "${@:2}"
	await_service dockerd docker version
}

@test "install: dockerd takes the runtime over on a reload, and is without it after uninstall and a restart" {
	requires docker
	make_root usr/sbin/dockerd usr/bin/runc etc/docker/daemon.json
	printf '{\n\t"labels": ["a=b"]\n}\n' >"$root/etc/docker/daemon.json"
	cp -p "$root/etc/docker/daemon.json" "$BATS_TEST_TMPDIR/before"
	local dir=$BATS_FILE_TMPDIR/dockerd
	docker_here "$dir" --data-root "$dir/data"
	runtimes() { docker info --format '{{range $name, $_ := .Runtimes}}{{$name}} {{end}}'; }
	run runtimes
	[[ $output != *vfix* ]] || fail "vfix is there already: $output"
	install_test docker
	expect 'what to type' "$output" 'systemctl reload docker'
	expect_match 'the difference' "$stderr" '+        "runtimes": {'
	kill -HUP "$(cat "$dir/pid")"
	has_vfix() { [[ $(runtimes) == *vfix* ]]; }
	poll has_vfix
	run docker info --format '{{(index .Runtimes "vfix").Path}} {{.Labels}}'
	echo "$output"
	expect 'its path, and the rest of the file' "$output" '/usr/local/bin/vfix-runtime [a=b]'
	run_vfix uninstall --root "$root"
	expect 'what to type' "$output" 'systemctl restart docker'
	cmp "$root/etc/docker/daemon.json" "$BATS_TEST_TMPDIR/before"
	stop_services
	docker_here "$dir" --data-root "$dir/data"
	run runtimes
	[[ $output == *runc* && $output != *vfix* ]] || fail "after uninstall: $output"
}

# As after a boot: no container runs when vfix is uninstalled.
@test "install: dockerd starts containers that waited while vfix was uninstalled" {
	requires docker
	local dir=$BATS_FILE_TMPDIR/waiting container runc link
	runc=$(command -v runc)
	make_root usr/sbin/dockerd "$runc" etc/docker/daemon.json
	mkdir -p "$dir" "$root$dir"/{data,prefix}
	ln -s "$root$dir/data" "$root$dir/prefix" "$dir/" # a path is the same in the root directory and here
	echo "{\"data-root\": \"$dir/data\"}" >"$root/etc/docker/daemon.json"
	cp -p "$root/etc/docker/daemon.json" "$BATS_TEST_TMPDIR/before"
	install_test docker --prefix "$dir/prefix" --default-runtime
	docker_here "$dir"
	tar -C "$(dirname "$(command -v busybox)")" -c busybox | docker import - waiting
	docker create --network none --name stopped waiting /busybox echo started
	docker create --network none --name restarts --restart always --runtime vfix waiting /busybox sleep 1000
	docker create --network none --name another --runtime runc waiting /busybox true
	stop_services
	link=$root$dir/prefix/bin/vfix-runtime
	run_vfix uninstall --root "$root"
	expect "status: $stderr" "$status" 0
	for container in stopped 'restarts (restart: always)'; do
		expect_text 'who waits' "$stderr" "$container"
	done
	expect 'what stays' "$(readlink "$link")" "$runc"
	docker_here "$dir"
	expect 'the default' "$(docker info --format '{{.DefaultRuntime}}')" runc
	expect 'one that had stopped' "$(docker start --attach stopped)" started
	docker start restarts
	stop_services
	docker_here "$dir"
	running() { [ "$(docker inspect --format '{{.State.Running}}' restarts)" = true ]; }
	poll running
	docker rm --force stopped restarts
	run_vfix uninstall --root "$root"
	expect "status: $stderr" "$status" 0
	[ ! -L "$link" ] || fail "$link stays"
	cmp "$root/etc/docker/daemon.json" "$BATS_TEST_TMPDIR/before"
	docker rm another
}

@test "install: containerd shows the runtime in its configuration, beside runc" {
	requires containerd
	make_root etc/containerd/config.toml usr/bin/containerd
	printf 'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\n  sandbox_image = "x/y"\n' >"$root/etc/containerd/config.toml"
	install_test containerd
	expect 'what to type' "$output" 'systemctl restart containerd'
	expect_match 'the RuntimeClass' "$stderr" 'kind: RuntimeClass'
	run --separate-stderr containerd --config "$root/etc/containerd/config.toml" config dump
	echo "$output"
	local table='[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.'
	for want in "${table}vfix]" "${table}runc]" 'BinaryName = "/usr/local/bin/vfix-runtime"' \
		'pod_annotations = ["dev.vfix.*"]' 'sandbox_image = "x/y"'; do
		expect_text 'the whole configuration' "$output" "$want"
	done
	run_vfix uninstall --root "$root"
	run --separate-stderr containerd --config "$root/etc/containerd/config.toml" config dump
	[[ $output != *vfix* ]] || fail 'vfix is still there'
	expect_text 'the whole configuration' "$output" "${table}runc]"
}

@test "install: podman finds the runtime" {
	requires podman
	make_root usr/bin/podman
	install_test podman
	expect 'what to type' "$output" ''
	# podman 4.3 has no option for its configuration, and reads the file in this variable.
	podman_info() {
		CONTAINERS_CONF=$root/etc/containers/containers.conf.d/99-vfix.conf "$tree/tests/own-mounts" "$BATS_TEST_TMPDIR/mounts" \
			podman --root "$BATS_TEST_TMPDIR/p" --runroot "$BATS_TEST_TMPDIR/r" --storage-driver vfs --cgroup-manager cgroupfs --runtime "$1" info --format '{{.Host.OCIRuntime.Path}}'
	}
	mkdir "$BATS_TEST_TMPDIR/mounts"
	sed -i "s|/usr/local/bin|$root/usr/local/bin|" "$root/etc/containers/containers.conf.d/99-vfix.conf"
	run --separate-stderr podman_info vfix
	echo "$output $stderr"
	expect 'the runtime of podman' "$output" "$root/usr/local/bin/vfix-runtime"
	run podman_info nothing
	[ "$status" -ne 0 ] || fail 'podman finds a runtime that there is not'
}

@test "install: for each engine, twice is once, and uninstall leaves everything as it was" {
	make_root usr/sbin/dockerd usr/bin/containerd usr/bin/crio usr/bin/podman usr/bin/runc usr/local/bin/k0s
	install -D -m 640 <(printf '{"a":1}') "$root/etc/docker/daemon.json"
	install -D -m 600 <(printf 'version = 2') "$root/etc/containerd/config.toml"
	install -D <(echo 'version = 3') "$root/var/lib/rancher/k3s/agent/etc/containerd/config.toml"
	install -D <(echo 'version = 2') "$root/var/lib/rancher/rke2/agent/etc/containerd/config.toml"
	local before engine after
	before=$(listing)
	for engine in docker containerd crio podman k3s rke2 k0s; do
		install_test "$engine" --fail-closed
		after=$(listing)
		install_test "$engine" --fail-closed
		expect_match message "$stderr" 'nothing to do'
		expect 'what a second time changes' "$(listing)" "$after"
	done
	cmp "$VFIX" "$root/usr/local/bin/vfix"
	cmp "$VFIX_RUNTIME" "$root/usr/local/bin/vfix-runtime"
	expect 'the configuration of the runtime' "$(jq -c . "$root/etc/vfix/runtime.json")" '{"fail_closed":true}'
	run_vfix uninstall --root "$root" crio
	[ -e "$root/usr/local/bin/vfix" ] || fail 'the program is gone while engines need it'
	[ ! -e "$root/etc/crio" ] || fail "crio's configuration stays"
	run_vfix uninstall --root "$root"
	expect 'the root directory' "$(listing)" "$before"
	run_vfix uninstall --root "$root"
	expect_match message "$stderr" 'not installed'
	expect 'the root directory' "$(listing)" "$before"
}

@test "install: what it wrote is found by the program that it installed" {
	requires docker
	make_root usr/bin/podman usr/bin/runc
	install_test podman
	run "$root/usr/local/bin/vfix-runtime" --version
	echo "$output"
	expect 'status of vfix-runtime' "$status" 0
	expect_match 'the real runtime' "$output" 'runc version'
}

@test "install: a dry run shows the difference on stdout, and opens nothing to write" {
	requires strace
	make_root usr/sbin/dockerd
	local before
	before=$(listing)
	strace -f --seccomp-bpf -y -e trace=file,write -o "$BATS_TEST_TMPDIR/trace" "$VFIX" install docker --root "$root" --dry-run --format json >"$BATS_TEST_TMPDIR/json"
	expect 'the root directory' "$(listing)" "$before"
	! grep -E "O_CREAT|O_WRONLY|O_RDWR|mkdir|rename|unlink|symlink" "$BATS_TEST_TMPDIR/trace" | grep -v '/dev/\|/proc/\|= -1' || fail 'something is opened to write'
	# The control: a real run is seen to write.
	strace -f --seccomp-bpf -e trace=file -o "$BATS_TEST_TMPDIR/trace" "$VFIX" install docker --root "$root" >/dev/null 2>&1
	grep -q 'O_CREAT' "$BATS_TEST_TMPDIR/trace" || fail 'strace does not see what is written'
	expect 'what changes' "$(jq -r '.changes[] | .action + " " + .path' "$BATS_TEST_TMPDIR/json" | tail -n 1)" 'create /etc/docker/daemon.json'
	expect_match 'the difference' "$(jq -r '.changes[-1].diff' "$BATS_TEST_TMPDIR/json")" '+      "path": "/usr/local/bin/vfix-runtime"'
}

@test "install: a read-only root is refused with what to do, and stays as it is" {
	requires root own_root
	make_root usr/sbin/dockerd
	local before
	before=$(listing)
	# shellcheck disable=SC2016 # the shell in there expands it
	run --separate-stderr unshare --mount -- sh -c 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && exec "$2" install docker --root "$1"' sh "$root" "$VFIX"
	echo "$stderr"
	expect status "$status" 1
	expect_match error "$stderr" 'read-only'
	expect_match hint "$stderr" 'vfix: hint: '
	expect 'the root directory' "$(listing)" "$before"
}

@test "install: what is not there or is damaged is named, with what to do" {
	make_root usr/bin/podman
	install_test_fails() {
		local want=$1
		shift
		run_vfix 1 install "$@" --root "$root"
		expect_match error "$stderr" "$want"
		expect_match hint "$stderr" 'vfix: hint: '
		expect stdout "$output" ''
	}
	install_test_fails 'docker: not found' docker
	install_test_fails 'podman' docker # what is found
	install -D <(printf '\xef\xbb\xbf{}') "$root/etc/docker/daemon.json"
	install_test_fails 'byte order mark' docker --force
	printf '{ // a comment\n}' >"$root/etc/docker/daemon.json"
	install_test_fails 'comments' docker --force
	install_test_fails 'youki' podman --runtime youki
	install_test docker --force --config /etc/other.json
	expect 'another file' "$(jq -r .runtimes.vfix.path "$root/etc/other.json")" /usr/local/bin/vfix-runtime
}
