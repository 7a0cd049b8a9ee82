#!/usr/bin/env bats
# bats file_tags=machine
# diagnose: core files and kernel lines of real crashes, made by a kernel with vsyscall=none, and invalid input.
# shellcheck disable=SC2154
load helpers

# The crashes, by number: in the legacy image bash, a static program, a program that is killed by a signal, one
# that crashes outside the page.
in_bash=1 in_static=2 killed=3 aborted=4

setup_file() {
	load helpers
	export crashes=$BATS_FILE_TMPDIR/crashes
	(has_root && has_vm && has_legacy_image) >/dev/null || return 0
	# shellcheck disable=SC2016 # the shell of the root expands it
	local prepare='echo /tmp/core >/proc/sys/kernel/core_pattern; ulimit -c unlimited;'
	# The shell reports its child on stderr; stdout is the core.
	"$tree/tests/vm/run" --vsyscall none --root "$legacy_image/rootfs" --out "$crashes" -- \
		"sh -c '$prepare bash -c \"echo it is up\"; cat /tmp/core'" \
		"sh -c '$prepare clock; cat /tmp/core'" \
		"sh -c '$prepare sleep 60 & kill -SEGV \$!; wait; cat /tmp/core'" \
		"sh -c '$prepare sh -c \"kill -ABRT \\\$\\\$\"; cat /tmp/core'"
}

setup() {
	requires root vm legacy_image
	cd "$BATS_TEST_TMPDIR" || return
}

core() { echo "$crashes/$1.stdout"; }

# words: $output on one line.
words() { tr -s ' \n' ' ' <<<"$output"; }

@test "diagnose: a core of bash from the legacy image, with the image's files" {
	run_vfix 3 diagnose --root "oci:$legacy_image/oci:legacy" "$(core $in_bash)"
	expect_match verdict "$(words)" 'bash called gettimeofday() in the vsyscall page, which its kernel does not serve (certain)'
	expect_match caller "$(words)" 'libc.so.6+0x* in gettimeofday, glibc'
	expect_match 'build ID' "$output" "$(readelf -n "$legacy_image/rootfs/usr/lib/x86_64-linux-gnu/libc.so.6" | sed -n 's/.*Build ID: //p')"
	# shellcheck disable=SC2016 # assembly
	expect_match 'machine code' "$output" 'mov $0xffffffffff600000,%rax; call *%rax'
	expect_match next "$output" "vfix rebuild oci:$legacy_image/oci:legacy"
	expect 'hint beside the next command' "$(grep -c 'vfix rebuild' <<<"$stderr")" 0
}

@test "diagnose: the command that it names fixes the crash" {
	cp -a "$legacy_image/rootfs" root
	run_vfix 3 diagnose --root root --format json "$(core $in_bash)" "$(core $in_static)"
	local fix status
	fix=$(jq -r '.results[0].crashes[0].next.command' <<<"$output")
	expect fix "$fix" 'vfix patch -i root'
	eval "$VFIX ${fix#vfix }"
	run_vm --vsyscall none --root root -- 'bash -c "echo it is up"' clock
	expect_vm 1 0
	expect 'output of bash' "$(cat "$vm_out/1.stdout")" 'it is up'
	expect_vm 2 0
}

@test "diagnose: a static program: the core names the program to patch" {
	run_vfix 3 diagnose --root "$legacy_image/rootfs" "$(core $in_static)"
	expect_match verdict "$(words)" 'called time() in the vsyscall page'
	expect_match caller "$output" '/usr/local/bin/clock+0x'
}

@test "diagnose: without the files the core alone shows which function was called, and from where" {
	mkdir empty
	run_vfix 3 diagnose --root empty "$(core $in_bash)"
	expect_match verdict "$(words)" 'called gettimeofday()'
	expect_match caller "$output" 'libc.so.6+0x'
	expect_match note "$(words)" 'empty does not have this file'
	[[ $output != *'%rax'* ]] || fail 'there is code of a file that is not there'
}

@test "diagnose: crashes of another kind are not taken for it" {
	for n in $killed $aborted; do
		run_vfix 0 diagnose "$(core "$n")"
		[[ $output != *$'\n  next '* ]] || fail 'a command for a crash that vfix cannot fix'
	done
	expect_match signal "$output" SIGABRT
}

@test "diagnose: a compressed core, and one that is truncated, with little memory" {
	local size
	gzip -c "$(core $in_bash)" >core.gz
	zstd -q -o core.zst "$(core $in_bash)"
	for f in core.gz core.zst; do
		run_vfix 3 diagnose --root "$legacy_image/rootfs" "$f"
		expect_match caller "$output" ' in gettimeofday'
	done
	size=$(stat -c %s "$(core $in_bash)")
	head -c 1000 "$(core $in_bash)" >short
	run_vfix 1 diagnose short
	expect_match error "$stderr" 'its ELF headers'
	head -c $((size / 2)) "$(core $in_bash)" >half
	run_vfix 3 diagnose half
	expect_match note "$output" 'truncated'
	# Headers that claim far more than the file has: 65534 segments, a note of 4 GiB.
	cp "$(core $in_bash)" many && printf '\376\377' | dd of=many bs=1 seek=56 conv=notrunc status=none
	local segments # the first note is behind the program headers, its size in the second word
	segments=$(od -An -tu2 -j56 -N2 "$(core $in_bash)")
	cp "$(core $in_bash)" note && printf '\377\377\377\377' | dd of=note bs=1 seek=$((64 + 56 * segments + 4)) conv=notrunc status=none
	for f in many note; do
		# A Go program reserves addresses that it does not use, so its limit is large.
		run --separate-stderr prlimit --data=$((300 << 20)) "$VFIX" diagnose "$f"
		expect "status for $f" "$status" 1
		expect_match "error for $f" "$stderr" 'vfix: error: '
	done
	run prlimit --data=$((300 << 20)) "$VFIX" diagnose "$(core $in_bash)"
	expect 'status of the control' "$status" 3
}

@test "diagnose: the kernel's log, in full, by line, and from stdin" {
	run_vfix 3 diagnose "$crashes/kernel.log"
	expect 'crashes found' "$(grep -c ' called ' <<<"$output")" 2
	expect_match programs "$output" '  program   bash, pid *  program   clock, pid '
	run_vfix 3 diagnose "$(grep "$kernel_line" "$crashes/$in_static.kernel")"
	expect_match verdict "$(words)" 'clock called time() in the vsyscall page, which its kernel does not serve (likely)'
	run --separate-stderr "$VFIX" diagnose - <"$crashes/$in_static.kernel"
	expect status "$status" 3
	# Of a signal that was sent the kernel says nothing; it may say something else meanwhile.
	expect 'lines about it' "$(grep -c "$kernel_line\|segfault" "$crashes/$killed.kernel")" 0
	: >empty
	run_vfix 1 diagnose empty
	expect_match stderr "$stderr" 'empty: nothing to diagnose'
	grep -v "$kernel_line\|segfault" "$crashes/kernel.log" >calm
	echo '[    1.000000] Run /init as init process' >>calm
	run_vfix 0 diagnose calm
	expect_match 'no crash' "$output" 'no crash found in '
	# shellcheck disable=SC2046 # not quoted, as people paste it
	run_vfix 3 diagnose $(grep "$kernel_line" "$crashes/$in_static.kernel")
	expect_match 'a line without quotes' "$output" 'called time() in the vsyscall page'
}
