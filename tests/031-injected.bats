#!/usr/bin/env bats
# The injected segment and its hooks in programs and kernels of many kinds, under various memory layouts, loaders,
# environments and tools. The sources are in tests/injected; the exit status of each program reports whether all is
# well.
# Variables come from helpers.bash.
# shellcheck disable=SC2154
load helpers

# setup_file builds the programs into $BATS_FILE_TMPDIR/before and patches them into after.
setup_file() {
	local from=$BATS_TEST_DIRNAME/injected to=$BATS_FILE_TMPDIR/before
	# shellcheck disable=SC2054 # the commas are for the linker
	local old=(-Wl,-z,max-page-size=0x200000 -Wl,-z,noseparate-code)
	# shellcheck disable=SC2054
	local bare=(-shared -fPIC -ffreestanding -fno-stack-protector -fcf-protection=none -nostdlib
		-Wl,-e,_start -Wl,-Bsymbolic -Wl,--build-id -Wl,-soname,ld-interpreter.so)
	mkdir -p "$to"
	build() { gcc -O1 -Wall -Wextra -Werror -I"$from" "${@:2}" -o "$to/$1"; }
	build static "$from"/{survive.c,calls.S} -static
	build static-2m "$from"/{survive.c,calls.S} -static "${old[@]}"
	build static-large-bss "$from"/{survive.c,calls.S} -static -DBSS=100000000
	build static-execstack "$from"/{survive.c,calls.S} -static -z execstack
	build static-pie "$from"/{survive.c,calls.S} -static-pie
	build pie "$from"/{survive.c,calls.S}
	build pie-2m "$from"/{survive.c,calls.S} "${old[@]}"
	build exec "$from"/{survive.c,calls.S} -no-pie
	build exec-2m "$from"/{survive.c,calls.S} -no-pie "${old[@]}"
	build libcalls.so "$from/calls.S" -shared
	build libcalls-2m.so "$from/calls.S" -shared "${old[@]}" -Wl,-s
	build interpreter.so "$from"/{interpreter.c,calls.S} "${bare[@]}"
	build interpreter-2m.so "$from"/{interpreter.c,calls.S} "${bare[@]}" "${old[@]}"
	# 3: interpreter.so has no room for trampolines, and a call site that needs one.
	run -3 "$VFIX" patch -o "$BATS_FILE_TMPDIR/after" "$to"
	gcc -O1 -Wall -Wextra -Werror -I"$from" -o "$BATS_FILE_TMPDIR/reopen" "$from/reopen.c"
	gcc -O1 -Wall -Wextra -Werror -o "$BATS_FILE_TMPDIR/with" "$from/with.c"
}

programs=(static static-2m static-large-bss static-execstack static-pie pie pie-2m exec exec-2m)
dynamic=(pie pie-2m exec exec-2m)

# each STATUS DIR WRAPPER...: every program of DIR, run by the wrapper, ends with STATUS.
each() {
	local want=$1 dir=$2 name
	shift 2
	for name in "${programs[@]}"; do
		run "$@" "$dir/$name"
		expect "status of $* $name: $output" "$status" "$want"
	done
}

@test "injected: .bss, brk, an alternate stack and children, wherever memory begins" {
	requires oracle
	local after=$BATS_FILE_TMPDIR/after
	each "$status_sigsys" "$BATS_FILE_TMPDIR/before" "$novsyscall"
	each 0 "$after" "$novsyscall"
	each 0 "$after" "$novsyscall" setarch x86_64 --addr-no-randomize
	each 0 "$after" "$novsyscall" setarch x86_64 --addr-compat-layout
	each 0 "$after" "$novsyscall" setarch x86_64 --read-implies-exec
	# shellcheck disable=SC2016 # for the inner shell
	each 0 "$after" "$novsyscall" sh -c 'ulimit -s unlimited && exec "$1"' sh
}

@test "injected: no memory may become executable" {
	requires oracle
	run "$BATS_FILE_TMPDIR/with" mdwe /bin/true
	[ "$status" != 77 ] || { echo "# not checked: Linux before 6.3 knows no such thing" >&3 && return; }
	each 0 "$BATS_FILE_TMPDIR/after" "$novsyscall" "$BATS_FILE_TMPDIR/with" mdwe
}

@test "injected: no system call, in a sandbox that allows none" {
	requires oracle
	# If the kernel's clock cannot be read from user space, every program makes the system call.
	[[ $(cat /sys/devices/system/clocksource/clocksource0/current_clocksource) =~ ^(tsc|kvm-clock|hyperv_clocksource_tsc_page)$ ]] ||
		{ echo "# not checked: the clock of this machine needs system calls" >&3 && return; }
	local name
	for name in "${programs[@]}"; do
		# The kernel's emulation applies the seccomp filter as to a system call.
		run "$BATS_FILE_TMPDIR/before/$name" -s
		[ "$status" = 32 ] || [ "$status" = "$status_sigsegv" ] || fail "status of $name before: $status"
		run "$BATS_FILE_TMPDIR/after/$name" -s
		expect "status of $name: $output" "$status" 0
	done
}

@test "injected: started by ld.so, bound at once, and seen by ldd" {
	requires oracle
	local name ldso=/lib64/ld-linux-x86-64.so.2
	for name in "${dynamic[@]}"; do
		run "$novsyscall" "$ldso" "$BATS_FILE_TMPDIR/after/$name"
		expect "status of ld.so $name: $output" "$status" 0
		run env LD_BIND_NOW=1 LD_PRELOAD="$BATS_FILE_TMPDIR/after/libcalls.so" "$novsyscall" "$BATS_FILE_TMPDIR/after/$name"
		expect "status of $name with a preloaded library: $output" "$status" 0
		"$ldso" --verify "$BATS_FILE_TMPDIR/after/$name"
		ldd "$BATS_FILE_TMPDIR/after/$name"
	done
}

@test "injected: a library that comes and goes, while the environment changes" {
	requires oracle
	local name
	for name in libcalls.so libcalls-2m.so; do
		run "$novsyscall" "$BATS_FILE_TMPDIR/reopen" "$BATS_FILE_TMPDIR/before/$name"
		expect "status with $name before" "$status" "$status_sigsys"
		run "$novsyscall" "$BATS_FILE_TMPDIR/reopen" "$BATS_FILE_TMPDIR/after/$name"
		expect "status with $name after: $output" "$status" 0
	done
}

@test "injected: the trampolines change rax and nothing else, with a vDSO and without" {
	local from=$BATS_TEST_DIRNAME/injected
	gcc -O1 -Wall -Wextra -Werror -no-pie -DDIRECT -o "$BATS_TEST_TMPDIR/direct" "$from"/exact.{c,S}
	run "$BATS_TEST_TMPDIR/direct" 2000 "$BATS_TEST_DIRNAME/../shim/embedded"
	expect "status: $output" "$status" 0
	# The stack that a call needs: docs/how-it-works.md.
	[[ $output =~ the\ vDSO:\ ([0-9]+)\ bytes ]] && [ "${BASH_REMATCH[1]}" -le 512 ] || fail "$output"
	# The control: the kernel's emulation, with which it is compared.
	gcc -O1 -Wall -Wextra -Werror -o "$BATS_TEST_TMPDIR/exact" "$from"/exact.{c,S}
	run "$BATS_TEST_TMPDIR/exact" 100
	[ "$status" = 0 ] || [ "$status" = "$status_sigsegv" ] || fail "the page itself: $output"
}

@test "injected: stripped and given another rpath, after and before" {
	requires oracle
	local name copy=$BATS_TEST_TMPDIR/copy
	mkdir "$copy"
	for name in "${dynamic[@]}"; do
		cp "$BATS_FILE_TMPDIR/after/$name" "$copy/$name"
		strip "$copy/$name"
		patchelf --set-rpath /a/directory/that/makes/room/necessary "$copy/$name"
		run "$novsyscall" "$copy/$name"
		expect "status of $name, changed after: $output" "$status" 0
		cp "$BATS_FILE_TMPDIR/before/$name" "$copy/$name"
		patchelf --set-rpath /a/directory/that/makes/room/necessary "$copy/$name"
		run_vfix patch -i "$copy/$name"
		run "$novsyscall" "$copy/$name"
		expect "status of $name, changed before: $output" "$status" 0
	done
}

@test "injected: patched again and again, the bytes stay" {
	local i name
	for name in static pie-2m libcalls.so; do
		cp "$BATS_FILE_TMPDIR/after/$name" "$BATS_TEST_TMPDIR/$name"
		for ((i = 0; i < 10; i++)); do # each with what the last has left, which are the same bytes
			"$VFIX" patch -i "$BATS_TEST_TMPDIR/$name" >/dev/null
		done
		cmp "$BATS_FILE_TMPDIR/after/$name" "$BATS_TEST_TMPDIR/$name"
	done
}

@test "injected: programs and their interpreters on a kernel without the page" {
	requires root vm
	local root=$BATS_TEST_TMPDIR/root name n=1 list=$BATS_TEST_TMPDIR/commands file
	local interpreters=(interpreter.so interpreter-2m.so)
	mkdir -p "$root"
	cp -a "$BATS_FILE_TMPDIR/before" "$BATS_FILE_TMPDIR/after" "$root"
	for file in /lib64/ld-linux-x86-64.so.2 /lib/x86_64-linux-gnu/libc.so.6; do
		cp -L --parents "$file" "$root"
	done
	echo 'int main(void) { return 3; }' >"$BATS_TEST_TMPDIR/main.c"
	for name in "${interpreters[@]}"; do
		for file in before after; do
			gcc -o "$root/$file/by-$name" "$BATS_TEST_TMPDIR/main.c" -Wl,--dynamic-linker="/$file/$name"
		done
	done
	for name in "${programs[@]}" "${interpreters[@]}" "${interpreters[@]/#/by-}"; do
		printf '/before/%s\n/after/%s\n' "$name" "$name"
	done >"$list"
	cp /bin/busybox "$root/"
	run_vm --vsyscall none --root "$root" --commands "$list" -- '/busybox sh -c "echo 0 >/proc/sys/kernel/randomize_va_space"'
	expect_vm 1 0
	while read -r name; do
		echo "$name"
		case $name in
		/before/*) expect_vm $((n += 1)) "$status_sigsegv" ;;
		*) expect_vm $((n += 1)) 0 ;;
		esac
	done <"$list"
	[ "$n" -gt 1 ]
	grep -qF "$kernel_line" "$vm_out/kernel.log"
}
