#!/usr/bin/env bats
# Patched files on every kind of kernel: with and without the page, the vDSO, /proc, and a seccomp filter set
# before the first call. tests/fixtures/programs/strict.c has the calls that the filters allow.
# Variables come from helpers.bash.
# shellcheck disable=SC2154
load helpers

filters=(none page nothing forbidden)
programs=(strict-static strict-dynamic)

setup_file() {
	local root=$BATS_FILE_TMPDIR/root
	mkdir -p "$root/bin"
	cp -a "$build/matrix" "$root/before"
	cp "$build/fixtures/dlopen" "$build/fixtures/libstubs.so" "$root/before/"
	run -0 "$VFIX" patch -o "$root/after" "$root/before"
	copy_libraries "$root/before" "$root"
	cp /bin/busybox "$root/bin/"
	commands >"$BATS_FILE_TMPDIR/commands"
}

# commands: with /proc and then without, when ld.so cannot determine $ORIGIN.
commands() {
	local proc side program filter
	for proc in there gone; do
		[ $proc = there ] || echo "/bin/busybox umount /proc"
		echo "/bin/busybox test -e /proc/self/auxv"
		for program in "${programs[@]}"; do
			for side in before after; do
				for filter in "${filters[@]}"; do
					echo "/bin/busybox env LD_LIBRARY_PATH=/$side /$side/$program $filter"
				done
			done
		done
		# A library that is loaded late, with an environment that has moved.
		echo "/bin/busybox env LD_LIBRARY_PATH=/after /after/dlopen"
	done
}

# wanted PAGE VDSO COMMAND: its exit status.
wanted() {
	local page=$1 vdso=$2
	case $3 in
	*umount* | */dlopen) echo 0 ;;
	# Unpatched programs need the page, and the kernel applies the filter to each call of it.
	*' /before/'*' none' | *' /before/'*' page') [ "$page" = none ] && echo "$status_sigsegv" || echo 0 ;;
	*' /before/'*) [ "$page" = none ] && echo "$status_sigsegv" || echo "$status_sigsys" ;;
	*' /after/'*' none' | *' /after/'*' page') echo 0 ;;
	# Without a vDSO a trampoline makes the system call.
	*' /after/'*' nothing') [ "$vdso" = 1 ] && echo 0 || echo "$status_sigsys" ;;
	*' /after/'*' forbidden') echo "$status_sigsys" ;;
	*) fail "unknown command '$3'" ;;
	esac
}

# on_kernel PAGE VDSO: boots it, and compares every status.
on_kernel() {
	requires root vm
	local n=0 proc=0 command append=()
	[ "$2" = 1 ] || append=(--append vdso=0)
	run_vm --vsyscall "$1" "${append[@]}" --root "$BATS_FILE_TMPDIR/root" --commands "$BATS_FILE_TMPDIR/commands"
	while read -r command; do
		echo "$command"
		case $command in
		*'test -e'*) expect_vm $((n += 1)) "$proc" && proc=1 ;; # 0 there, 1 gone
		*) expect_vm $((n += 1)) "$(wanted "$1" "$2" "$command")" ;;
		esac
	done <"$BATS_FILE_TMPDIR/commands"
	[ "$n" -eq "$(wc -l <"$BATS_FILE_TMPDIR/commands")" ]
}

@test "matrix: vsyscall=none, vDSO" { on_kernel none 1; }
@test "matrix: vsyscall=none, no vDSO" { on_kernel none 0; }
@test "matrix: vsyscall=xonly, vDSO" { on_kernel xonly 1; }
@test "matrix: vsyscall=xonly, no vDSO" { on_kernel xonly 0; }
@test "matrix: vsyscall=emulate, vDSO" { on_kernel emulate 1; }
@test "matrix: vsyscall=emulate, no vDSO" { on_kernel emulate 0; }
