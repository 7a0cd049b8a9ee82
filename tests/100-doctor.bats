#!/usr/bin/env bats
# bats file_tags=machine
# vfix doctor: each check on this host, and each made to fail, by other kernels in the VM and by a seccomp filter.
# Variables come from helpers.bash; jq's are in single quotes.
# shellcheck disable=SC2154,SC2016
load helpers

# doctor [STATUS] ARGUMENT...: its JSON in $output.
doctor() {
	local status=0
	[[ ! $1 =~ ^[0-9]+$ ]] || { status=$1 && shift; }
	run_vfix "$status" doctor --format json "$@"
}

# check NAME FILTER: the output of jq for a check in $output.
check() { jq -r --arg name "$1" ".checks[] | select(.name == \$name) | $2" <<<"$output"; }

# holds CHECK EXPRESSION: about figures, as $f.NAME.
holds() {
	check "$1" "(.figures | map({(.name): .value}) | add) as \$f | $2" | grep -qx true || fail "$1: $2 does not hold"
}

# make_root: a root filesystem in $root for the VM, and for a chroot: no libc, no shell except busybox.
make_root() {
	root=$BATS_TEST_TMPDIR/root
	mkdir -p "$root"/{bin,proc,sys,dev,tmp,var/tmp}
	chmod 1777 "$root/tmp" "$root/var/tmp"
	cp "$VFIX" "$callpage" /bin/busybox "$root/bin/"
	ln -s busybox "$root/bin/sh"
}

@test "doctor: this host in ten lines, and as JSON" {
	run --separate-stderr "$VFIX" doctor
	[ "$status" -eq 0 ] || [ "$status" -eq 3 ] || fail "status $status: $output"
	[[ ${lines[0]} == 'Old images '*' here'* ]] || fail "the first line does not answer: $output"
	((${#lines[@]} <= 10)) || fail "more than ten lines: $output"
	# On a terminal none of the answer and the checks wraps.
	for line in "${lines[@]:0:7}"; do ((${#line} <= 80)) || fail "${#line} columns: $line"; done
	for name in vsyscall vdso clock seccomp dentry kernel-log; do
		grep -Eq "^(ok|warn|fail|skipped) +$name +." <<<"$output" || fail "no verdict of $name: $output"
	done
	run --separate-stderr "$VFIX" doctor --quick --format json
	expect 'checks' "$(jq -r '.checks | length' <<<"$output")" 6
	expect 'failed' "$(jq -c .failed <<<"$output")" "$(jq -c '[.checks[] | select(.verdict == "fail").name]' <<<"$output")"
	expect 'status' "$status" "$(jq 'if .failed == [] then 0 else 3 end' <<<"$output")"
	holds seccomp '$f.filtered_time > 0 and $f.syscall_time > 0'
}

@test "doctor: the page, the vDSO and the clock of a host that serves them" {
	requires oracle # a host that serves the page
	[ "$(cat /sys/devices/system/clocksource/clocksource0/current_clocksource)" = tsc ] || skip "requires tsc: another clock source"
	doctor --check vsyscall,vdso,clock
	expect 'the page' "$(check vsyscall .verdict)" warn
	expect_match 'the answer' "$(jq -r .answer <<<"$output")" 'Old images run here, slowly'
	case $(grep -F '[vsyscall]' /proc/self/maps) in
	*' --xp '*) expect 'its mode' "$(jq -r .vsyscall <<<"$output")" xonly ;;
	*) expect 'its mode' "$(jq -r .vsyscall <<<"$output")" emulate ;;
	esac
	holds vsyscall '$f.page_time > $f.syscall_time and $f.syscall_time > $f.vdso_time'
	expect 'the vDSO and the clock' "$(check vdso .verdict) $(check clock .verdict)" 'ok ok'
	holds vdso '$f.vdso_monotonic < $f.syscall_monotonic'
}

@test "doctor: vsyscall=none, vdso=0, a slow clock source, and crashes in the log [VM]" {
	requires root vm
	make_root
	run_vm --vsyscall none --root "$root" --append 'vdso=0 clocksource=acpi_pm' -- \
		'vfix doctor --format json --check vsyscall,vdso,clock,kernel-log' \
		'sh -c "callpage time; callpage time; vfix doctor --format json --check kernel-log"'
	expect_vm 1 3
	output=$(cat "$vm_out/1.stdout")
	expect 'failed' "$(jq -c .failed <<<"$output")" '["vsyscall","vdso"]'
	expect_match 'the answer' "$(jq -r .answer <<<"$output")" 'Old images crash here'
	expect 'mode' "$(jq -r .vsyscall <<<"$output")" none
	expect_match 'the vDSO' "$(check vdso .do)" vdso=0
	expect_match 'the clock source' "$(check clock .found)" acpi_pm
	expect 'the log without a crash: own probes do not count' "$(check kernel-log .verdict)" ok
	expect_vm 2 0 # crashes of the past fail no check
	output=$(cat "$vm_out/2.stdout")
	expect 'the log with crashes' "$(check kernel-log '.verdict + " " + (.figures[0].value | tostring)')" 'warn 2'
	check kernel-log '.details[]' | grep -Eq '^20[0-9]{2}-[0-9-]+ [0-9:]+  callpage\[[0-9]*\]  time\(\)$' || fail "$output"
}

@test "doctor: a clock source that the vDSO cannot read, and a small table of names that is full [VM]" {
	requires root vm
	make_root
	gcc -static -O1 -o "$root/bin/miss" -x c - <<-'END'
		#include <stdio.h>
		#include <unistd.h>
		int main(void)
		{
			char name[64];
			for (int i = 0; i < 75000; i++) {
				snprintf(name, sizeof name, "/var/tmp/missing-%d", i);
				access(name, F_OK);
			}
		}
	END
	run_vm --vsyscall xonly --root "$root" --append 'clocksource=hpet dhash_entries=256' -- \
		'vfix doctor --format json --check vsyscall,vdso,clock' \
		'sh -c "miss; vfix doctor --format json --check dentry"' \
		'sh -c "busybox ls -A /tmp"'
	expect_vm 1 3
	output=$(cat "$vm_out/1.stdout")
	expect 'failed' "$(jq -c .failed <<<"$output")" '["vdso","clock"]'
	expect 'mode' "$(jq -r .vsyscall <<<"$output")" xonly
	expect_match 'the clock source' "$(check clock .found)" hpet
	expect_vm 2 3
	output=$(cat "$vm_out/2.stdout")
	expect 'the names' "$(check dentry .verdict)" fail
	holds dentry '$f.lookup > 50 * $f.syscall_time and $f.missing >= 74000'
	expect 'what it leaves' "$(cat "$vm_out/3.stdout")" ''
}

@test "doctor: vsyscall=emulate, as an ordinary user on a read-only root [VM]" {
	requires root vm
	make_root
	run_vm --vsyscall emulate --root "$root" --user 65534:65534 --read-only -- \
		'vfix doctor --format json --quick' 'sh -c "echo 1 >/proc/sys/kernel/x"'
	output=$(cat "$vm_out/1.stdout")
	expect 'mode' "$(jq -r .vsyscall <<<"$output")" emulate
	expect 'the page and the log' "$(check vsyscall .verdict) $(check kernel-log .verdict)" 'warn skipped'
	expect_match 'what the log needs' "$(check kernel-log .do)" sudo
	expect_vm 2 1 # no root
}

@test "doctor: a seccomp filter that kills callers of the page" {
	requires oracle
	run --separate-stderr "$novsyscall" "$VFIX" doctor --format json --check vsyscall
	expect status "$status" 3
	expect_match 'the page' "$(check vsyscall .found)" SIGSYS
	expect_match 'the answer' "$(jq -r .answer <<<"$output")" 159
}

@test "doctor: in a chroot without /proc and without root's rights" {
	requires root
	make_root
	cd "$BATS_TEST_TMPDIR"
	run --separate-stderr chroot --userspec=65534:65534 "$root" /bin/vfix doctor --quick --format json
	echo "$output $stderr"
	expect 'the log' "$(check kernel-log .verdict)" skipped
	expect_match 'the clock' "$(check clock .found)" 'clock source unknown'
	[ "$(check vsyscall .verdict)" != skipped ] || fail "the page was not examined"
}
