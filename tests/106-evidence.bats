#!/usr/bin/env bats
# bats file_tags=machine
# diagnose with the evidence that an operator has after an "exit 139": for each kind of evidence, one command
# returns the cause, its confidence, and the next command to type.
# shellcheck disable=SC2154
load helpers

setup_file() {
	load helpers
	start_legacy_docker
}

teardown_file() {
	load helpers
	stop_services
}

setup() {
	requires docker oracle legacy_image
	cd "$BATS_TEST_TMPDIR" || return
}

id=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef

# pod STATUS [REASON [MESSAGE]]: kubectl describe pod, for a container of the legacy image.
pod() {
	printf '%s\n' 'Name:         cache' 'Namespace:    prod' 'Node:         node-1/10.0.0.7' 'Containers:' '  redis:' \
		"    Container ID:  containerd://$id" '    Image:         redis:legacy' '    State:          Waiting' '      Reason:       CrashLoopBackOff' \
		'    Last State:     Terminated' "      Reason:       ${2:-Error}" ${3:+"      Message:      $3"} "      Exit Code:    $1" \
		'      Finished:     Sat, 21 Nov 2026 21:18:04 +0000' '    Ready:          False' 'Conditions:' '  Ready             False'
}

pod_json() {
	jq -n --argjson status "$1" --arg id "containerd://$id" '{apiVersion: "v1", kind: "Pod", metadata: {name: "cache", namespace: "prod"},
		spec: {nodeName: "node-1", containers: [{name: "redis", image: "redis:legacy"}]},
		status: {containerStatuses: [{name: "redis", image: "redis:legacy", state: {terminated: {exitCode: $status, reason: "Error", finishedAt: "2026-11-21T21:18:04Z", containerID: $id}}}]}}'
}

# elsewhere STATUS: docker inspect of a container of another machine. The kernel of this machine serves the page,
# so the SIGSEGV has another cause.
elsewhere() {
	jq -n --argjson status "$1" --arg id "$id" '[{Id: $id, Name: "/cache", Path: "redis-server", Args: [], State: {Status: "exited", Running: false, OOMKilled: false, ExitCode: $status, Error: "", FinishedAt: "2026-11-21T21:18:04Z"},
		HostConfig: {Memory: 0}, Config: {Image: "redis:legacy", Env: []}, Mounts: []}]'
}

@test "evidence: from each kind the cause and a command that works here, by one command" {
	pod 139 >pod.txt
	pod_json 139 >pod.json
	elsewhere 139 >inspect.json
	printf 'CONTAINER ID   IMAGE          COMMAND   CREATED         STATUS                       PORTS     NAMES\n%s   redis:legacy   "redis"   2 minutes ago   Exited (139) 2 minutes ago             cache\n' 012345678901 >ps.txt
	elsewhere 139 | jq '.[0] += {ImageName: "docker.io/library/redis:legacy"} | .[0].Config |= del(.Image)' >podman.json
	printf 'CONTAINER ID  IMAGE                           COMMAND       CREATED        STATUS                    PORTS  NAMES\n%s  docker.io/library/redis:legacy  redis-server  2 minutes ago  Exited (139) 2 minutes ago         cache\n' 012345678901 >podman.txt
	local file began fix image
	for file in pod.txt pod.json inspect.json ps.txt podman.json podman.txt; do
		image=redis:legacy
		[[ $file != podman* ]] || image=docker.io/library/redis:legacy
		began=$(date +%s%N)
		run_vfix 3 diagnose "$file"
		echo "# $file: $((($(date +%s%N) - began) / 1000000)) ms" >&3
		(($(date +%s%N) - began < 60000000000)) || fail "$file: it took more than a minute"
		expect_match "$file: verdict" "$(tr -s ' \n' ' ' <<<"$output")" 'probably crashed because it called a function in the vsyscall page, which its kernel does not serve (likely)'
		expect_match "$file: fix" "$output" $'\n  fix       vfix rebuild '"$image"$'\n'
		expect_match "$file: what was not looked at" "$(tr -s ' \n' ' ' <<<"$output")" 'nothing shows that it ran on this machine'
		run --separate-stderr "$VFIX" diagnose --format json - <"$file"
		expect "$file: status on stdin" "$status" 3
		expect "$file: JSON" "$(jq -c '.results[].crashes[] | [.kind, .confidence, .next.command]' <<<"$output")" "[\"call\",\"likely\",\"vfix rebuild $image\"]"
	done
	fix=$(jq -r '.results[].crashes[].next.command' <<<"$output")
	eval "$VFIX ${fix#vfix } -t redis:fixed" >/dev/null || eval "$VFIX ${fix#vfix }" >/dev/null
}

@test "evidence: a line of the kernel, a journal, an end: with the image, the cause and a command" {
	local line='bash[7] vsyscall attempted with vsyscall=none ip:ffffffffff600400 cs:33 sp:7ffe ax:ffffffffff600400 si:0 di:0' began
	echo "Nov 21 21:18:04 host kernel: $line" >syslog
	jq -cn --arg m "$line" '{_TRANSPORT: "kernel", MESSAGE: $m}' >journal.json
	echo "[   12.345678] $line" >dmesg
	for file in syslog journal.json dmesg "$line"; do
		began=$(date +%s%N)
		run_vfix 3 diagnose --root redis:legacy "$file"
		echo "# $file: $((($(date +%s%N) - began) / 1000000)) ms" >&3
		expect_match "$file: verdict" "$(tr -s ' \n' ' ' <<<"$output")" 'crashed because it called time() in the vsyscall page, which its kernel does not serve (certain)'
		expect_match "$file: fix" "$output" $'\n  fix       vfix rebuild redis:legacy\n'
	done
	for file in 'cache exited with code 139' 'host systemd[1]: cache.service: Main process exited, code=dumped, status=11/SEGV'; do
		began=$(date +%s%N)
		run_vfix 3 diagnose --root redis:legacy "$file"
		echo "# $file: $((($(date +%s%N) - began) / 1000000)) ms" >&3
		expect_match "$file: fix" "$output" $'\n  fix       vfix rebuild redis:legacy\n'
	done
}

@test "evidence: ends that are not the page's get no command that rebuilds" {
	local status
	for status in 134 137 159 1; do
		pod "$status" >"pod$status"
		elsewhere "$status" >"inspect$status"
	done
	pod 137 OOMKilled >podoom
	pod 127 Error 'redis-server: error while loading shared libraries: libc.so.6: cannot open shared object file: No such file or directory' >podlibc
	for file in pod134 inspect134 pod137 inspect137 pod1 inspect1 podoom podlibc; do
		run_vfix 0 diagnose "$file"
		[[ $output$stderr != *rebuild* ]] || fail "$file: $output"
	done
	for file in pod159 inspect159; do # a filter refused a call, which may be any
		run_vfix 4 diagnose "$file"
		[[ $output$stderr != *rebuild* ]] || fail "$file: $output"
	done
	run_vfix 4 diagnose 'cache exited with code 139' # nothing is known of its image
	[[ $output$stderr != *rebuild* ]] || fail "$output"
}

@test "evidence: a container of this machine, and its image" {
	# The kernel of this machine serves the page: the SIGSEGV is another.
	# shellcheck disable=SC2016 # for the shell in the container
	docker run --name other --network none --entrypoint sh redis:legacy -c 'sh -c "kill -SEGV \$\$"; exit $?' || true
	docker inspect other >inspect.json
	for crash in other inspect.json; do
		run_vfix 4 diagnose "$crash"
		expect_match "$crash: verdict" "$(tr -s ' \n' ' ' <<<"$output")" 'the kernel of this machine serves it'
		[[ $output$stderr != *rebuild* ]] || fail "$crash: $output"
	done
	docker ps -a >ps.txt
	run_vfix 4 diagnose ps.txt
	expect_match 'by name, image and status' "$(tr -s ' \n' ' ' <<<"$output")" 'the kernel of this machine serves it'
	run_vfix 3 diagnose redis:legacy
	expect_match image "$output" 'redis:legacy calls the vsyscall page'
	expect_match fix "$output" 'vfix rebuild redis:legacy'
	run_vfix 1 diagnose no-such:image # and no registry is asked
	expect_match hint "$stderr" 'vfix scan docker://no-such:image'
	docker rm other
}
