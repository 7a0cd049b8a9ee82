#!/usr/bin/env bats
# runsc (gVisor) under docker. It serves the vsyscall page itself, so that an unmodified image lives,
# slowly; its debug log names each call. The filter that kills calls of the page (tests/engines/enter)
# would kill runsc's own processes, and is not set.
load ../helpers
load docker

image=docker.io/library/redis:legacy

# Debian's runsc panics in programs of several threads, so redis-server is not among them, and in about
# one start of six of others.
command='clock && callrate 20'

setup_file() {
	# Control groups of version 2 may lack controllers, and there is no network to set up.
	printf '#!/bin/sh\nexec runsc --ignore-cgroups --network=none --debug --debug-log=/var/tmp/runsc/ "$@"\n' >/opt/runsc
	chmod 755 /opt/runsc
	mkdir -p /etc/docker
	echo '{"runtimes": {"runsc": {"path": "/opt/runsc"}}}' >/etc/docker/daemon.json
	start_engine
	runsc --version | sed -n 's/^runsc version /# version /p' >&3
	docker load --quiet --input "$legacy_image/redis-legacy.tar"
}

teardown_file() { stop_services; }

# calls RUNTIME: runs the command in the unmodified image, and counts the calls of the page.
calls() {
	for _ in $(seq 10); do
		rm -rf /var/tmp/runsc
		run docker run --rm --network none --runtime "$1" "$image" bash -c "$command"
		echo "$output"
		# runsc's own end, by its log: no result of a container.
		grep -q '^panic: running on goroutine [0-9]* (task goroutine for' /var/tmp/runsc/*.boot.txt || break
	done
	expect "status with $1" "$status" 0
	expect_match output "$output" gettimeofday
	calls=$(cat /var/tmp/runsc/*.boot.txt | grep -c 'vsyscall [0-9]*, caller .* successfully emulated') || true
}

@test "the unmodified image lives, and runsc serves the page" {
	calls runsc
	[ "$calls" -gt 0 ] || fail 'no call of the page is in the log'
}

@test "vfix-runtime around runsc: nothing calls the page" {
	run_vfix install docker
	mkdir -p /etc/vfix
	echo '{"runtime": "/opt/runsc"}' >/etc/vfix/vfix.json
	apply_config
	calls vfix
	expect 'calls of the page' "$calls" 0
}

@test "the rebuilt image: nothing calls the page" {
	run_vfix rebuild "$image"
	image=docker.io/library/redis:legacy-vfix
	calls runsc
	expect 'calls of the page' "$calls" 0
}
