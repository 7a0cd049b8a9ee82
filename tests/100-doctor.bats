#!/usr/bin/env bats
# bats file_tags=machine
# vfix doctor: each check on this host, and each made to fail: other kernels in the VM, seccomp filters, an engine
# with images that need vfix.
# Variables come from helpers.bash; jq's are in single quotes.
# shellcheck disable=SC2154,SC2016
load helpers

setup_file() {
	load helpers
	start_legacy_docker
	[ -z "${DOCKER_HOST:-}" ] || tar -c -C /bin busybox | docker import - busybox:plain
}

teardown_file() {
	load helpers
	stop_services
}

# doctor [STATUS] ARGUMENT...: its JSON in $output, whatever engines exist.
doctor() {
	local status=0
	[[ ! $1 =~ ^[0-9]+$ ]] || { status=$1 && shift; }
	run_vfix "$status" doctor --format json --progress quiet "$@"
}

# check NAME FILTER: the output of jq for a check in $output.
check() { jq -r --arg name "$1" ".checks[] | select(.name == \$name) | $2" <<<"$output"; }

# figure CHECK NAME, fact CHECK NAME: "" if it is missing.
figure() { check "$1" ".figures[] | select(.name == \"$2\") | .value"; }
fact() { check "$1" ".facts[] | select(.name == \"$2\") | .text"; }

# holds CHECK EXPRESSION: about figures, as $f.NAME.
holds() {
	check "$1" "(.figures | map({(.name): .value}) | add) as \$f | $2" | grep -qx true || fail "$1: $2 does not hold"
}

# own_filters: the number of seccomp filters of the tests themselves.
own_filters() { sed -n 's/^Seccomp_filters:[[:space:]]*//p' /proc/self/status; }

# make_root: a root filesystem in $root for the VM, and for a chroot: no libc, no shell except busybox.
make_root() {
	root=$BATS_TEST_TMPDIR/root
	mkdir -p "$root"/{bin,proc,sys,dev,tmp,var/tmp}
	chmod 1777 "$root/tmp" "$root/var/tmp"
	cp "$VFIX" "$callpage" /bin/busybox "$root/bin/"
	ln -s busybox "$root/bin/sh"
}

@test "doctor: this host, as a table and as JSON" {
	export DOCKER_HOST=unix://$BATS_TEST_TMPDIR/none.sock
	run --separate-stderr "$VFIX" doctor --progress quiet --flood-dir "$BATS_TEST_TMPDIR"
	[ "$status" -eq 0 ] || [ "$status" -eq 3 ] || fail "status $status: $output"
	for name in vsyscall vdso clock seccomp dentry kernel-log cgroups nofile ia32 aslr schema1 containers; do
		grep -Eq "^(ok|warn|fail|skipped) +$name +." <<<"$output" || fail "no verdict of $name: $output"
	done
	run --separate-stderr "$VFIX" doctor --quick --format json --progress quiet
	expect 'checks' "$(jq -r '.checks | length' <<<"$output")" 13
	expect 'failed' "$(jq -c .failed <<<"$output")" "$(jq -c '[.checks[] | select(.verdict == "fail").name]' <<<"$output")"
	expect 'status' "$status" "$(jq 'if .failed == [] then 0 else 3 end' <<<"$output")"
	holds seccomp '$f.filter_length > 300 and $f.filtered_time > 0 and $f.syscall_time > 0'
	expect 'the engine' "$(check containers .verdict)" skipped
}

@test "doctor: the page, the vDSO and the clock of a host that serves them" {
	requires oracle # a host that serves the page
	[ "$(cat /sys/devices/system/clocksource/clocksource0/current_clocksource)" = tsc ] || skip "requires tsc: another clock source"
	doctor --check vsyscall,vdso,clock
	expect 'the page' "$(check vsyscall .verdict)" warn
	case $(grep -F '[vsyscall]' /proc/self/maps) in
	*' --xp '*) expect 'its mode' "$(fact vsyscall mode)" xonly ;;
	*) expect_match 'its mode' 'emulate native' "$(fact vsyscall mode)" ;;
	esac
	holds vsyscall '$f.page_time > $f.syscall_time and $f.syscall_time > $f.vdso_time'
	expect 'the vDSO' "$(check vdso .verdict)" ok
	expect_match 'its symbols' "$(fact vdso symbols)" __vdso_clock_gettime
	expect 'their version' "$(fact vdso versions)" LINUX_2.6
	holds vdso '$f.vdso_monotonic_kernel_entries == 0 and $f.vdso_monotonic < $f.syscall_monotonic'
	expect 'the clock' "$(check clock .verdict)" ok
}

@test "doctor: vsyscall=none, vdso=0, a slow clock source, no memory groups, and crashes in the log [VM]" {
	requires root vm
	make_root
	# Each option belongs to another check.
	run_vm --vsyscall none --root "$root" --append 'vdso=0 clocksource=acpi_pm cgroup_disable=memory' -- \
		'vfix doctor --format json --check vsyscall,vdso,clock,kernel-log' \
		'sh -c "callpage time; vfix doctor --format json --check kernel-log"' \
		'sh -c "busybox mount -t cgroup2 none /sys/fs/cgroup && vfix doctor --format json --check cgroups"'
	expect_vm 1 3
	output=$(cat "$vm_out/1.stdout")
	expect 'failed' "$(jq -c .failed <<<"$output")" '["vsyscall","vdso","clock"]'
	expect 'mode, boot option, maps' "$(fact vsyscall mode) $(fact vsyscall boot_option) $(fact vsyscall maps)" 'none none not mapped'
	expect_match 'the vDSO' "$(check vdso .do)" vdso=0
	expect 'the clock source' "$(fact clock current)" acpi_pm
	expect 'the log without a crash' "$(check kernel-log .verdict)" ok
	expect_match 'own probes' "$(check kernel-log '.notes[]')" "vfix's own probes"
	expect_vm 2 3
	output=$(cat "$vm_out/2.stdout")
	expect 'the log with a crash' "$(check kernel-log .verdict)" fail
	check kernel-log '.lines[]' | grep -q '^callpage\[[0-9]*\]  time() at 0xffffffffff600400, ' || fail "$output"
	expect_vm 3 3
	output=$(cat "$vm_out/3.stdout")
	expect 'v2 without memory' "$(check cgroups .verdict) $(fact cgroups missing)" 'fail memory'
}

@test "doctor: a clock source that the vDSO cannot read, and a small table of names that is flooded [VM]" {
	requires root vm
	make_root
	# A flood uses a part of the free memory: this much makes the chains six times as long.
	run_vm --vsyscall xonly --mem 640 --root "$root" --append 'clocksource=hpet dhash_entries=1024' -- \
		'vfix doctor --format json --check vsyscall,vdso,clock' \
		'vfix doctor --format json --check dentry --limit 20m' \
		'sh -c "busybox ls -A /var/tmp"'
	expect_vm 1 3
	output=$(cat "$vm_out/1.stdout")
	expect 'failed' "$(jq -c .failed <<<"$output")" '["vdso","clock"]'
	expect 'mode' "$(fact vsyscall mode)" xonly
	expect 'the clock source' "$(fact clock current)" hpet
	holds vdso '$f.vdso_monotonic_kernel_entries == 1 and $f.vdso_monotonic_coarse_kernel_entries == 0'
	expect_vm 2 3
	output=$(cat "$vm_out/2.stdout")
	expect 'the names' "$(check dentry .verdict)" fail
	expect 'source of its size' "$(fact dentry hash_size_from)" /dev/kmsg
	holds dentry '$f.hash_buckets == 1024 and $f.chain_during > 5 * $f.chain and $f.dentries_negative_during >= $f.flood and $f.lookup_during > $f.lookup_before'
	expect 'what the flood leaves' "$(cat "$vm_out/3.stdout")" ''
}

@test "doctor: control groups, open files and random addresses on new hosts [VM]" {
	requires root vm
	make_root
	local groups='busybox mount -t cgroup2 none /sys/fs/cgroup' doctor='vfix doctor --format json --check cgroups,nofile,ia32,aslr'
	run_vm --vsyscall xonly --root "$root" -- "$doctor" "sh -c '$groups && $doctor'" \
		"sh -c 'echo 1073741816 >/proc/sys/fs/nr_open && ulimit -n 1073741816 && echo 32 >/proc/sys/vm/mmap_rnd_bits && $doctor'"
	output=$(cat "$vm_out/1.stdout")
	expect 'without control groups' "$(jq -r '[.checks[].verdict] | join(" ")' <<<"$output")" 'skipped ok ok ok'
	output=$(cat "$vm_out/2.stdout")
	expect 'v2' "$(check cgroups .verdict) $(fact cgroups version) $(fact cgroups missing)" 'warn v2 '
	expect_vm 3 3
	output=$(cat "$vm_out/3.stdout")
	expect 'the limit' "$(check nofile .verdict) $(figure nofile files)" 'fail 1073741816'
	expect 'random bits' "$(check aslr .verdict) $(figure aslr bits)" 'warn 32'
}

# Only kernels from 6.7 on have the option.
@test "doctor: a kernel that runs no 32-bit programs, Debian's newest [VM]" {
	requires root vm
	make_root
	printf '.globl _start\n_start: mov $1, %%eax\nmov $42, %%ebx\nint $0x80\n' | as --32 -o "$BATS_TEST_TMPDIR/exit.o" -
	ld -m elf_i386 -o "$root/bin/exit32" "$BATS_TEST_TMPDIR/exit.o"
	local doctor='vfix doctor --format json --check ia32'
	run_vm --vsyscall none --root "$root" -- "$doctor" /bin/exit32 # the usual kernel runs them
	output=$(cat "$vm_out/1.stdout")
	expect 'it runs' "$(check ia32 .verdict) $(cat "$vm_out/2.status")" 'ok 42'
	VFIX_VM_SUITE=sid run_vm --vsyscall none --append ia32_emulation=0 --root "$root" -- "$doctor" /bin/exit32
	output=$(cat "$vm_out/1.stdout")
	expect 'it does not' "$(check ia32 .verdict) $(cat "$vm_out/2.status")" 'fail 126'
	expect_match 'what it says' "$(check ia32 .means) $(check ia32 .do)" 'exec format error*remove ia32_emulation=0'
}

@test "doctor: vsyscall=emulate, as an ordinary user on a read-only root [VM]" {
	requires root vm
	make_root
	run_vm --vsyscall emulate --root "$root" --user 65534:65534 --read-only -- \
		'vfix doctor --format json --quick' 'sh -c "echo 1 >/proc/sys/kernel/x"'
	output=$(cat "$vm_out/1.stdout")
	expect 'mode, read' "$(fact vsyscall mode) $(fact vsyscall read)" 'emulate ok'
	expect 'the page' "$(check vsyscall .verdict)" warn
	expect 'the log' "$(check kernel-log .verdict)" skipped
	expect_match 'what the log needs' "$(check kernel-log .do)" 'as root'
	expect_vm 2 1 # no root
}

@test "doctor: a seccomp filter that kills callers of the page, and one that costs much" {
	requires oracle
	run --separate-stderr "$novsyscall" "$VFIX" doctor --format json --progress quiet --check vsyscall
	expect status "$status" 3
	expect_match 'the page' "$(check vsyscall .found)" SIGSYS
	# The kernel cannot cache the result of a rule about arguments. It comes last, after almost as many comparisons
	# as a filter may have, so that it is slow on machines with slow calls.
	jq -n '{defaultAction: "SCMP_ACT_ERRNO", syscalls: [
		{names: [range(3500) | "read"], action: "SCMP_ACT_ALLOW"},
		{names: ["clock_gettime", "gettimeofday", "time"], action: "SCMP_ACT_ALLOW", args: [{index: 2, value: 0, op: "SCMP_CMP_EQ"}]}]}' >"$BATS_TEST_TMPDIR/dear.json"
	jq '.syscalls[1].args = []' "$BATS_TEST_TMPDIR/dear.json" >"$BATS_TEST_TMPDIR/cheap.json"
	jq 'del(.syscalls[1])' "$BATS_TEST_TMPDIR/dear.json" >"$BATS_TEST_TMPDIR/blind.json"
	doctor 3 --check seccomp --seccomp-profile "$BATS_TEST_TMPDIR/dear.json"
	holds seccomp '$f.tax >= 1'
	dear=$(figure seccomp filtered_time)
	doctor 3 --check seccomp --seccomp-profile "$BATS_TEST_TMPDIR/blind.json"
	expect_match 'the profile' "$(check seccomp .found)" 'forbids clock_gettime, gettimeofday, time'
	run_vfix 1 doctor --check seccomp --seccomp-profile "$BATS_TEST_TMPDIR/none.json"
	echo '{}' >"$BATS_TEST_TMPDIR/empty.json"
	doctor --check seccomp --seccomp-profile "$BATS_TEST_TMPDIR/empty.json"
	expect 'no rules' "$(check seccomp .verdict)" skipped
	run --separate-stderr "$VFIX" doctor --format json --progress quiet --check seccomp --seccomp-profile "$BATS_TEST_TMPDIR/cheap.json"
	holds seccomp "\$f.filtered_time < $dear"
}

@test "doctor: images and running containers that need vfix, one line each" {
	requires docker oracle legacy_image image_tools
	docker run --detach --network none --name legacy-one --entrypoint /bin/sleep redis:legacy 600
	docker run --detach --network none --name plain-one busybox:plain /busybox sleep 600
	doctor --check containers
	expect 'where the page is served' "$(check containers .verdict)" warn
	expect lines "$(check containers '.lines[]' | sed 's/: .*//; s/  */ /g' | sort)" $'container legacy-one (redis:legacy) needs vfix\nimage redis:legacy needs vfix'
	holds containers '$f.images == 2 and $f.containers == 2 and $f.images_that_need_vfix == 1 and $f.containers_that_need_vfix == 1'
	local dir=$BATS_TEST_TMPDIR/old
	umoci init --layout "$dir"
	umoci new --image "$dir:x"
	umoci insert --image "$dir:x" /bin/busybox /busybox
	umoci config --image "$dir:x" --architecture amd64 --os linux --created 2015-08-20T00:00:00Z
	skopeo copy --quiet "oci:$dir:x" "docker-archive:$dir.tar:old:1"
	docker load --input "$dir.tar"
	run --separate-stderr "$VFIX" doctor --format json --progress quiet --check nofile,schema1
	expect_match 'whose limit counts' "$(fact nofile source)" ', in a container'
	expect 'an image of 2015' "$(check schema1 .verdict) $(figure schema1 images) $(figure schema1 old_images)" 'warn 3 1'
	expect_match 'its name' "$(check schema1 '.lines[]')" 'old:1, created 2015-08-20'
	docker rmi --force old:1
	run --separate-stderr "$novsyscall" "$VFIX" doctor --format json --progress quiet --check containers
	expect 'status when it is not' "$status" 3
	run --separate-stderr docker run --rm --network none --volume "$VFIX:/vfix:ro" busybox:plain /vfix doctor --quick --format json --progress quiet
	expect 'status in a container' "$status" 3
	expect 'mode in a container' "$(fact vsyscall mode)" blocked
	expect 'filters in a container' "$(fact seccomp inherited_filters)" $(($(own_filters) + 2)) # the oracle's and docker's
	expect_match 'the bare figure' "$(check seccomp '.notes[]')" 'runs under '"$(($(own_filters) + 2))"' seccomp filter(s)'
	run_vfix rebuild redis:legacy
	docker rm --force legacy-one
	docker rmi --force redis:legacy
	run --separate-stderr "$novsyscall" "$VFIX" doctor --format json --progress quiet --check containers
	expect 'status when they are rebuilt' "$status" 0
	expect 'verdict' "$(check containers .verdict)" ok
	docker rm --force plain-one
}

@test "doctor: in a chroot without /proc and without root's rights" {
	requires root
	make_root
	cd "$BATS_TEST_TMPDIR"
	run --separate-stderr chroot --userspec=65534:65534 "$root" /bin/vfix doctor --quick --format json --progress quiet
	echo "$output $stderr"
	expect_match 'the log' "$(check kernel-log .found)" 'not readable'
	expect_match 'the configuration' "$(check vsyscall '.notes[]')" 'configuration is not readable'
	expect_match 'the clock' "$(check clock '.notes[]')" '/sys is not mounted'
	expect 'maps' "$(fact vsyscall maps)" 'unknown: /proc is not mounted'
	[ "$(check vsyscall .verdict)" != skipped ] || fail "the page was not examined"
}

@test "doctor: stopped in a flood, it leaves nothing behind" {
	mkdir "$BATS_TEST_TMPDIR/flood"
	doctor_dirs() { compgen -G "$BATS_TEST_TMPDIR/flood/.vfix-doctor-*/.vfix-doctor-*" >/dev/null; }
	env --default-signal=INT "$VFIX" doctor --check dentry --flood-dir "$BATS_TEST_TMPDIR/flood" 3>&- >/dev/null 2>"$BATS_TEST_TMPDIR/stderr" &
	poll doctor_dirs || fail "no flood: $(cat "$BATS_TEST_TMPDIR/stderr")"
	kill -INT $!
	wait $! && status=0 || status=$?
	expect status "$status" 130
	expect 'left behind' "$(ls -A "$BATS_TEST_TMPDIR/flood")" ''
	run --separate-stderr "$VFIX" doctor --check dentry --flood-dir /proc/self --format json --progress quiet
	expect_match 'no directory' "$(check dentry '.notes[]')" 'latency was not measured'
	doctor --limit 1ms --check vdso
	expect 'a check that takes too long' "$(check vdso .verdict)" skipped
}
