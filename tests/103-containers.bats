#!/usr/bin/env bats
# bats file_tags=machine,alone
# diagnose of containers. The kernel's log does not name containers, so a line of the same second counts for one:
# no other test may call the page meanwhile.
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

@test "diagnose: containers that ended, by name" {
	local title='a crash with an unknown cause'
	docker run --name plain --network none --entrypoint sh redis:legacy -c 'exit 3' || true
	run_vfix 0 diagnose container:plain
	expect_match title "$output" ': no crash'
	dmesg >before
	docker run --name old --network none redis:legacy || true
	# The kernel writes the line of a killed system call only if auditing is enabled, and not each time: the lines
	# of earlier ones do not count.
	if dmesg | grep -vxFf before | grep -q 'type=1326.* ip=0xffffffffff600'; then
		title='in the vsyscall page, refused by a seccomp filter'
	fi
	run_vfix "$([[ $title == *refused* ]] && echo 3 || echo 4)" diagnose old
	expect_match title "$output" "$title"
	expect_match image "$output" redis:legacy
	# The first process of a container ignores its own signals.
	# shellcheck disable=SC2016 # for the shell in the container
	docker run --name other --network none --entrypoint sh redis:legacy -c 'sh -c "kill -SEGV \$\$"; exit $?' || true
	run_vfix 4 diagnose other
	expect_match title "$output" 'a crash with an unknown cause'
	expect_match status "$output" 'exit status 139'
	# A script continues after one of its commands was killed.
	docker run --name script --network none --entrypoint sh redis:legacy -c 'clock; exit 1' || true
	run_vfix "$([[ $title == *refused* ]] && echo 4 || echo 0)" diagnose script
	[[ $title != *refused* ]] || expect_match verdict "$output" 'exit status 1 may follow a crash'
	run_vfix 1 diagnose nothing-of-that-name
	expect_match error "$stderr" 'neither a file nor a container or image of an engine here'
	docker rm old other plain script
}
