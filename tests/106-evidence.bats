#!/usr/bin/env bats
# bats file_tags=machine
# The incident "exit 139", from each kind of evidence to a running container: two commands.
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

# pod STATUS [REASON]: kubectl describe pod, for a container of the legacy image.
pod() {
	printf '%s\n' 'Name:         cache' 'Namespace:    prod' 'Node:         node-1/10.0.0.7' 'Containers:' '  redis:' \
		"    Container ID:  containerd://$id" '    Image:         redis:legacy' '    State:          Waiting' '      Reason:       CrashLoopBackOff' \
		'    Last State:     Terminated' "      Reason:       ${2:-Error}" "      Exit Code:    $1" \
		'      Finished:     Sat, 21 Nov 2026 21:18:04 +0000' '    Ready:          False'
}

pod_json() {
	jq -n --argjson status "$1" --arg id "containerd://$id" '{apiVersion: "v1", kind: "Pod", metadata: {name: "cache", namespace: "prod"},
		status: {containerStatuses: [{name: "redis", image: "redis:legacy", state: {terminated: {exitCode: $status, reason: "Error", containerID: $id}}}]}}'
}

inspect() {
	jq -n --argjson status "$1" --arg id "$id" '[{Id: $id, Name: "/cache", Path: "redis-server", Args: [], State: {Status: "exited", Running: false, OOMKilled: false, ExitCode: $status, Error: ""},
		HostConfig: {Memory: 0}, Config: {Image: "redis:legacy", Env: []}, Mounts: []}]'
}

# evidence DIR: one file for each kind.
evidence() {
	local line='bash[7] vsyscall attempted with vsyscall=none ip:ffffffffff600400 cs:33 sp:7ffe ax:ffffffffff600400 si:0 di:0'
	mkdir "$1" && cd "$1" || return
	pod 139 >pod.txt
	pod_json 139 >pod.json
	inspect 139 >inspect.json
	inspect 139 | jq '.[0] += {ImageName: "redis:legacy"} | .[0].Config |= del(.Image)' >podman.json
	printf 'CONTAINER ID   IMAGE          COMMAND   CREATED         STATUS                       PORTS     NAMES\n012345678901   redis:legacy   "redis"   2 minutes ago   Exited (139) 2 minutes ago             cache\n' >ps.txt
	printf 'Using Docker executor with image redis:legacy ...\n$ redis-cli\nERROR: Job failed: exit code 139\n' >ci.log
	printf '$ docker run --rm redis:legacy\n[   12.345678] %s\n' "$line" >dmesg.log
	cd ..
}

@test "evidence: the incident, from each kind of evidence to a running container in the VM, by two commands" {
	requires root vm image_tools
	local file fix began
	evidence all
	for file in all/*; do
		began=$(date +%s%N)
		run_vfix 3 diagnose --format json "$file"
		echo "# $file: $((($(date +%s%N) - began) / 1000000)) ms" >&3
		expect "$file: kind" "$(jq -r '[.results[].crashes[].kind] | join(" ")' <<<"$output")" call
		fix=$(jq -r '.results[].crashes[].next.command' <<<"$output")
		expect "$file: the next command" "$fix" 'vfix rebuild redis:legacy'
	done
	run --separate-stderr bash -c "'$VFIX' ${fix#vfix }"
	expect 'the second command' "$status" 0
	docker save --output fixed.tar "$output"
	skopeo copy --quiet docker-archive:fixed.tar oci:fixed:x
	umoci raw unpack --image fixed:x root
	run_vm --vsyscall none --root "$medium_image/rootfs" -- 'bash -c "echo up"' # the control
	expect_vm 1 139
	run_vm --vsyscall none --root root -- 'bash -c "echo up"'
	expect_vm 1 0
	expect 'the container' "$(cat "$vm_out/1.stdout")" up
}

@test "evidence: certain with a line of the kernel and an image that makes this call, likely with a status" {
	local line='bash[7] vsyscall attempted with vsyscall=none ip:ffffffffff600400 cs:33 sp:7ffe ax:ffffffffff600400 si:0 di:0'
	run_vfix 3 diagnose --root redis:legacy --format json "$line" 'cache exited with code 139'
	expect confidence "$(jq -r '[.results[].crashes[].confidence] | join(" ")' <<<"$output")" 'certain likely'
	run_vfix 3 diagnose --format json "$line" # nothing names the image
	expect confidence "$(jq -r '[.results[].crashes[].confidence] | join(" ")' <<<"$output")" likely
}

@test "evidence: ends that are not the page's get no command that rebuilds" {
	local status
	for status in 134 137 159 1; do
		pod "$status" >"pod$status"
		inspect "$status" >"inspect$status"
	done
	pod 137 OOMKilled >podoom
	for file in pod134 inspect134 pod137 inspect137 pod159 inspect159 inspect1 podoom; do
		run_vfix 0 diagnose "$file"
		[[ $output$stderr != *rebuild* ]] || fail "$file: $output"
	done
	run_vfix 4 diagnose 'cache exited with code 139' # nothing is known of its image
	[[ $output$stderr != *rebuild* ]] || fail "$output"
}

@test "evidence: a container of this machine, and its image" {
	# The kernel of this machine serves the page: the SIGSEGV is another.
	# shellcheck disable=SC2016 # for the shell in the container
	docker run --name other --network none --entrypoint sh redis:legacy -c 'sh -c "kill -SEGV \$\$"; exit $?' || true
	run_vfix 4 diagnose other
	expect_match verdict "$(tr -s ' \n' ' ' <<<"$output")" 'the kernel of this machine serves the vsyscall page'
	[[ $output$stderr != *rebuild* ]] || fail "$output"
	docker inspect other >other.json
	docker ps -a --filter name=other >other.txt
	for file in other.json other.txt; do # the same, by its ID
		run_vfix 4 diagnose "$file"
		[[ $output$stderr != *rebuild* ]] || fail "$file: $output"
	done
	docker run --name plain --network none --entrypoint sh redis:legacy -c 'exit 3' || true
	run_vfix 0 diagnose container:plain
	run_vfix 3 diagnose redis:legacy
	expect_match image "$(tr -s ' \n' ' ' <<<"$output")" 'redis:legacy calls the vsyscall page'
	expect_match fix "$output" 'vfix rebuild redis:legacy'
	run_vfix 1 diagnose no-such:image # and no registry is asked
	expect_match hint "$stderr" 'vfix scan docker://no-such:image'
	docker rm other plain
}
