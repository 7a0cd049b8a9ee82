#!/usr/bin/env bats
# A patched file in debuggers, profilers and crash reporters: unwound from every instruction of the injected code,
# and identified. The program is tests/injected/unwound.c.
# Variables come from helpers.bash.
# shellcheck disable=SC2154
load helpers

from=$BATS_TEST_DIRNAME/injected

# setup_file builds the program and its library, and patches the library into after.
setup_file() {
	local to=$BATS_FILE_TMPDIR
	mkdir "$to/before" "$to/after"
	gcc -shared -o "$to/before/libunwound.so" "$from/unwound.S" -Wl,-soname,libunwound.so
	# shellcheck disable=SC2016 # for ld.so
	gcc -O1 -g -Wall -Wextra -Werror -o "$to/after/unwound" "$from/unwound.c" \
		-L"$to/before" -lunwound -pthread -Wl,-rpath,'$ORIGIN'
	"$VFIX" patch -o "$to/after/libunwound.so" "$to/before/libunwound.so"
}

after() { echo "$BATS_FILE_TMPDIR/after"; }

# without_table: a copy of after, in $copy, with the original's search table.
without_table() {
	local at size
	copy=$BATS_TEST_TMPDIR/without
	cp -r "$(after)" "$copy"
	read -r at size < <(readelf -SW "$copy/libunwound.so" | sed -n 's/.* \.eh_frame_hdr *PROGBITS *[0-9a-f]* \([0-9a-f]*\) \([0-9a-f]*\) .*/0x\1 0x\2/p')
	dd if="$BATS_FILE_TMPDIR/before/libunwound.so" of="$copy/libunwound.so" bs=1 skip=$((at)) seek=$((at)) count=$((size)) conv=notrunc status=none
	! cmp "$copy/libunwound.so" "$(after)/libunwound.so"
}

# steps DIR WANT: gdb's backtraces from each instruction in DIR; WANT is whether all must be complete.
steps() {
	local least=40
	run timeout $((3 * patience)) gdb -q -nx -batch -x "$from/steps.py" --args "$1/unwound" once
	[[ $output =~ instructions:\ ([0-9]+),\ bad:\ ([0-9]+) ]] || fail "gdb: $output"
	[ "${BASH_REMATCH[1]}" -ge "$least" ] || fail "only ${BASH_REMATCH[1]} instructions: $output"
	if [ "$2" = complete ]; then
		expect "incomplete backtraces: $output" "${BASH_REMATCH[2]}" 0
	else
		[ "${BASH_REMATCH[2]}" -gt 0 ] || fail "all backtraces are complete"
	fi
}

@test "unwound: gdb's backtrace is complete at every instruction of the trampolines" {
	requires oracle elf_tools
	steps "$(after)" complete
	FALLBACK=1 steps "$(after)" complete
	# The positive control: without the additions for gdb they are not.
	cp -r "$(after)" "$BATS_TEST_TMPDIR/without"
	objcopy -R .debug_frame "$BATS_TEST_TMPDIR/without/libunwound.so"
	steps "$BATS_TEST_TMPDIR/without" incomplete
}

@test "unwound: libgcc's backtrace() is complete in 100 of 100 samples, stripped too" {
	requires oracle elf_tools
	local tool
	for tool in true strip eu-strip; do
		cp -r "$(after)" "$BATS_TEST_TMPDIR/$tool"
		"$tool" "$BATS_TEST_TMPDIR/$tool/libunwound.so"
		run timeout "$patience" "$BATS_TEST_TMPDIR/$tool/unwound" samples 100
		expect "after $tool" "$output" '100 samples, 100 complete'
	done
	without_table
	run timeout "$patience" "$copy/unwound" samples 100
	expect "status with the original's table: $output" "$status" 1
}

# complete DIR: the number of perf's samples in DIR, and of those that reach main. The program runs until it has used
# the processor for a second: others may use it too.
complete() {
	local data=$BATS_TEST_TMPDIR/perf.data
	# Not by the cache of build IDs, which are equal for the patched and the unpatched file.
	perf record -q -N -B --call-graph dwarf -e cpu-clock:u -F 200 -o "$data" "$1/unwound" loop 1
	perf script -i "$data" -F ip,sym,dso | awk 'BEGIN { RS = "" } !/unwound|vdso/ { next } { all++ } / main / { reach++ } END { print all + 0, reach + 0 }'
}

@test "unwound: perf's call graphs are complete" {
	requires oracle perf
	export HOME=$BATS_TEST_TMPDIR
	read -r all reach < <(complete "$(after)")
	[ "$all" -ge 50 ] || fail "$all samples"
	expect "samples that reach main" "$reach" "$all"
	without_table
	read -r all reach < <(complete "$copy")
	[ "$reach" -lt "$all" ] || fail "complete with the original's table: $reach of $all"
}

@test "unwound: a thread that is cancelled in a patched call cleans up" {
	requires oracle
	run timeout "$patience" "$novsyscall" "$(after)/unwound" cancel
	expect "status: $output" "$status" 0
}

@test "unwound: an exception from a signal handler gets past a stub that nothing describes" {
	requires oracle
	g++ -O1 -Wall -Wextra -Werror -fnon-call-exceptions -no-pie -o "$BATS_TEST_TMPDIR/thrown" "$from/thrown.cc" "$from/unwound.S"
	run_vfix patch -o "$BATS_TEST_TMPDIR/patched" "$BATS_TEST_TMPDIR/thrown"
	run timeout "$patience" "$novsyscall" "$BATS_TEST_TMPDIR/patched"
	expect "status: $output" "$status" 0
}

@test "unwound: the build ID stays in a program header where another can be spared" {
	requires oracle elf_tools
	local program=$build/fixtures/exec-id id
	[ -e "$program" ] || fail "make fixtures has not been run"
	run_vfix patch -o "$BATS_TEST_TMPDIR/patched" "$program"
	[[ $stderr != *'build ID'* ]] || fail "$stderr"
	# Without sections, only program headers are left.
	"$build/fixtures-objects/fixtool" sstrip "$BATS_TEST_TMPDIR/patched" "$BATS_TEST_TMPDIR/bare"
	id=$(readelf -nW "$program" | sed -n 's/.*Build ID: //p')
	[ -n "$id" ]
	expect_match notes "$(readelf -nW "$BATS_TEST_TMPDIR/bare")" "$id"
	# If ABI tag and build ID share the only header, as in old libraries, the build ID is only in its section. No
	# tool reports an error, before and after strip.
	printf '.section .note.ABI-tag, "a", @note\n.balign 4\n.long 4, 16, 1\n.asciz "GNU"\n.long 0, 2, 6, 18\n' >"$BATS_TEST_TMPDIR/tag.s"
	gcc -shared -o "$BATS_TEST_TMPDIR/libtag.so" "$from/unwound.S" "$BATS_TEST_TMPDIR/tag.s" -Wl,-soname,libunwound.so
	run_vfix patch -o "$BATS_TEST_TMPDIR/after.so" "$BATS_TEST_TMPDIR/libtag.so"
	id=$(readelf -nW "$BATS_TEST_TMPDIR/libtag.so" | sed -n 's/.*Build ID: //p')
	local tool
	mkdir "$BATS_TEST_TMPDIR/run"
	cp "$(after)/unwound" "$BATS_TEST_TMPDIR/run"
	for tool in true strip eu-strip objcopy; do
		cp "$BATS_TEST_TMPDIR/after.so" "$BATS_TEST_TMPDIR/run/libunwound.so"
		run "$tool" "$BATS_TEST_TMPDIR/run/libunwound.so"
		expect "$tool says" "$output" ''
		expect "eu-elflint after $tool" "$(new_words "$BATS_TEST_TMPDIR/libtag.so" "$BATS_TEST_TMPDIR/run/libunwound.so" eu-elflint --gnu-ld)" ''
		"$novsyscall" "$BATS_TEST_TMPDIR/run/unwound" once
		expect_match "notes after $tool" "$(readelf -nW "$BATS_TEST_TMPDIR/run/libunwound.so")" "$id"
	done
	# A library with only the build ID has no other header: the plan reports this, and the section remains.
	run_vfix patch -o "$BATS_TEST_TMPDIR/lib.so" "$BATS_FILE_TMPDIR/before/libunwound.so"
	run_vfix 3 scan --explain "$BATS_FILE_TMPDIR/before/libunwound.so"
	expect_match plan "$output" 'the build ID is no longer in a program header'
	id=$(readelf -nW "$BATS_FILE_TMPDIR/before/libunwound.so" | sed -n 's/.*Build ID: //p')
	expect_match notes "$(readelf -nW "$BATS_TEST_TMPDIR/lib.so")" "$id"
}
