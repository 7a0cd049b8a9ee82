#!/usr/bin/env bats
# bats file_tags=machine
# diagnose: core files and kernel lines of real crashes, made by a kernel with vsyscall=none, and invalid input.
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

@test "diagnose: a core of bash from the legacy image, with the image's files" {
	run_vfix 3 diagnose --root "oci:$legacy_image/oci:legacy" "$(core $in_bash)"
	expect_match title "$output" 'a call to gettimeofday() in the vsyscall page, which is not mapped'
	expect_match 'command line' "$output" "bash -c 'echo it is up'"
	expect_match page "$output" 'not mapped in the process'
	expect_match caller "$output" 'libc.so.6+0x'
	expect_match symbol "$output" 'in gettimeofday+0x'
	expect_match package "$output" 'libc6 2.36'
	expect_match 'build ID' "$output" "$(readelf -n "$legacy_image/rootfs/usr/lib/x86_64-linux-gnu/libc.so.6" | sed -n 's/.*Build ID: //p')"
	# shellcheck disable=SC2016 # assembly
	expect_match 'machine code' "$output" 'mov $0xffffffffff600000,%rax'
	expect_match fix "$output" "vfix rebuild oci:$legacy_image/oci:legacy"
	expect_match hint "$stderr" 'vfix: hint: run: vfix rebuild'
}

@test "diagnose: the command that it names fixes the crash" {
	cp -a "$legacy_image/rootfs" root
	run_vfix 3 diagnose --root root --format json "$(core $in_bash)" "$(core $in_static)"
	local fix status
	fix=$(jq -r '.results[0].crashes[0].fixes[0].command' <<<"$output")
	expect fix "$fix" 'vfix patch -i root'
	eval "$VFIX ${fix#vfix }"
	run_vm --vsyscall none --root root -- 'bash -c "echo it is up"' clock
	expect_vm 1 0
	expect 'output of bash' "$(cat "$vm_out/1.stdout")" 'it is up'
	expect_vm 2 0
}

@test "diagnose: a core of a static program" {
	run_vfix 3 diagnose --root "$legacy_image/rootfs" "$(core $in_static)"
	expect_match title "$output" 'a call to time() in the vsyscall page, which is not mapped'
	expect_match caller "$output" '/usr/local/bin/clock+0x'
	expect_match site "$output" 'vfix patches it in the entry form'
}

@test "diagnose: without the files the core alone shows which function was called, and from where" {
	mkdir empty
	run_vfix 3 diagnose --root empty "$(core $in_bash)"
	expect_match title "$output" 'a call to gettimeofday()'
	expect_match caller "$output" 'libc.so.6+0x'
	expect_match 'build ID' "$output" 'build ID '
	expect_match note "$output" 'no symbol, no disassembly'
	[[ $output != *'%rax'* ]] || fail 'there is a disassembly of a file that is not there'
}

@test "diagnose: crashes of another kind are not taken for it" {
	for n in $killed $aborted; do
		run_vfix 0 diagnose "$(core "$n")"
		expect_match title "$output" ': no vsyscall crash'
		[[ $output != *$'\n  fix '* ]] || fail 'a fix for a crash that vfix cannot fix'
		expect_match 'where to go on' "$output" "vfix help other-causes"
	done
	expect_match signal "$output" SIGABRT
}

@test "diagnose: a compressed core" {
	gzip -c "$(core $in_bash)" >core.gz
	zstd -q -o core.zst "$(core $in_bash)"
	for f in core.gz core.zst; do
		run_vfix 3 diagnose --root "$legacy_image/rootfs" "$f"
		expect_match caller "$output" 'in gettimeofday+0x'
	done
	xz -c "$(core $in_bash)" >core.xz
	run_vfix 1 diagnose core.xz
	expect_match hint "$stderr" 'hint: unpack it first: xz -dk core.xz'
}

@test "diagnose: the kernel's log, in full, by line, and from stdin" {
	run_vfix 3 diagnose "$crashes/kernel.log"
	expect_match bash "$output" 'bash, pid'
	expect_match clock "$output" 'clock, pid'
	expect 'crashes found' "$(grep -c ': a call to ' <<<"$output")" 2
	run_vfix 3 diagnose "$(grep "$kernel_line" "$crashes/$in_static.kernel")"
	expect_match title "$output" 'a call to time()'
	run --separate-stderr "$VFIX" diagnose - <"$crashes/$in_static.kernel"
	expect status "$status" 3
	run_vfix 1 diagnose "$crashes/$killed.kernel" # the kernel says nothing of a signal that was sent
	expect_match stderr "$stderr" 'empty: nothing to diagnose'
	grep -v "$kernel_line\|segfault" "$crashes/kernel.log" >calm
	echo '[    1.000000] Run /init as init process' >>calm
	run_vfix 0 diagnose calm
	expect_match 'no crash' "$output" 'no crash in '
}

@test "diagnose: a core that is cut off says so, and takes little memory" {
	local size
	size=$(stat -c %s "$(core $in_bash)")
	head -c 1000 "$(core $in_bash)" >short
	run_vfix 1 diagnose short
	expect_match error "$stderr" 'cut off'
	head -c $((size / 2)) "$(core $in_bash)" >half
	run_vfix 3 diagnose half
	expect_match note "$output" 'truncated'
	# Headers that claim far more than the file has: 65535 segments, a note of 4 GiB.
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

@test "diagnose: the package, from rpm's databases" {
	has_commands rpm rpmbuild db5.3_load python3 || fail 'they are in tests/install-deps'
	cat >glibc.spec <<-'END'
		Name: glibc
		Version: 2.12
		Release: 1.el6
		Summary: for a test
		License: none
		BuildArch: noarch
		%description
		%install
		mkdir -p %{buildroot}/lib/x86_64-linux-gnu %{buildroot}/usr/share/locale
		touch %{buildroot}/lib/x86_64-linux-gnu/libc.so.6
		# So many names that the header does not fit on one page.
		cd %{buildroot}/usr/share/locale && seq 2000 | sed s/^/some-language-/ | xargs touch
		%files
		/lib/x86_64-linux-gnu/libc.so.6
		/usr/share/locale
	END
	rpmbuild -bb --define "_topdir $PWD/top" glibc.spec
	mkdir sqlite
	rpm --dbpath "$PWD/sqlite" --install --justdb --nodeps --ignorearch --nosignature top/RPMS/noarch/*.rpm
	# The same headers in the form of CentOS 6's rpm: a Berkeley DB hash, by number.
	python3 - <<-'END' | db5.3_load Packages
		import sqlite3
		print("VERSION=3\nformat=bytevalue\ntype=hash\nHEADER=END")
		for number, header in sqlite3.connect("sqlite/rpmdb.sqlite").execute("select hnum, blob from Packages"):
		    print("", number.to_bytes(4, "little").hex() + "\n", header.hex())
		print("DATA=END")
	END
	for db in Packages sqlite/rpmdb.sqlite; do
		rm -rf root && mkdir -p root/usr/lib/x86_64-linux-gnu root/var/lib/rpm
		cp "$legacy_image/rootfs/usr/lib/x86_64-linux-gnu/libc.so.6" root/usr/lib/x86_64-linux-gnu/
		run_vfix 3 diagnose --root root "$(core $in_bash)"
		[[ $output != *glibc-2.12* ]] || fail 'a package without a database'
		cp "$db" root/var/lib/rpm/
		run_vfix 3 diagnose --root root "$(core $in_bash)"
		expect_match "package by $db" "$output" 'glibc-2.12-1.el6.noarch'
	done
}

@test "diagnose: processes, and what strace and ftrace saw, on a kernel with vsyscall=none" {
	has_commands strace || fail 'strace is in tests/install-deps'
	cp -a "$legacy_image/rootfs" root
	cp "$VFIX" "$build/atcrash" root/usr/local/bin/
	# fixit runs a program, and the command that diagnose proposes when it crashes.
	cat >root/usr/local/bin/fixit <<-'END'
		#!/bin/sh
		fix=$(atcrash vfix diagnose -- "$@" | sed -n 's/^  fix  *//p' | head -n 1)
		echo "fix: $fix"
		eval "$fix"
	END
	chmod 755 root/usr/local/bin/fixit
	# strace with the libraries of this machine.
	mkdir -p root/opt/host/bin
	cp "$(command -v strace)" root/opt/host/bin/
	copy_libraries root/opt/host/bin root/opt/host
	local strace='/opt/host/lib64/ld-linux-x86-64.so.2 --library-path /opt/host/lib/x86_64-linux-gnu:/opt/host/usr/lib/x86_64-linux-gnu /opt/host/bin/strace'
	local event=/sys/kernel/tracing/events/exceptions/page_fault_user/enable
	# shellcheck disable=SC2016 # the shell of the root expands it
	run_vm --vsyscall none --root root -- \
		'atcrash vfix diagnose -- bash -c "echo up"' \
		'sh -c "bash -c true & wait \$!; vfix diagnose \$!"' \
		'sh -c "vfix diagnose \$\$"' \
		'vfix diagnose 99999' \
		"sh -c '$strace -f -o /tmp/s bash -c true; vfix diagnose /tmp/s'" \
		"sh -c 'mount -t tracefs t /sys/kernel/tracing; echo 1 >$event; bash -c true; echo 0 >$event; cat /sys/kernel/tracing/trace >/tmp/t; vfix diagnose /tmp/t'" \
		"fixit bash -c 'echo it is \"up\"'"
	expect_vm 1 3
	expect_match 'a process that is stopped' "$(cat "$vm_out/1.stdout")" 'in gettimeofday+0x'
	expect_match 'its fix' "$(cat "$vm_out/1.stdout")" "vfix run bash -c 'echo up'"
	expect_vm 2 3
	expect_match 'a process that is gone' "$(cat "$vm_out/2.stdout")" 'a call to gettimeofday() in the vsyscall page, which is not mapped'
	expect_vm 3 0
	expect_match 'a process that lives' "$(cat "$vm_out/3.stdout")" 'it has not crashed'
	expect_vm 4 1
	expect_match 'no such process' "$(cat "$vm_out/4.stderr")" 'no such process'
	expect_vm 5 3
	expect_match strace "$(cat "$vm_out/5.stdout")" 'bash, pid'
	expect_match strace "$(cat "$vm_out/5.stdout")" 'a call to gettimeofday()'
	expect_vm 6 3
	expect_match ftrace "$(cat "$vm_out/6.stdout")" ': a call to gettimeofday() in the vsyscall page'
	expect_vm 7 0
	expect 'what the fix runs' "$(cat "$vm_out/7.stdout")" "fix: vfix run bash -c 'echo it is \"up\"'
it is up"
}

@test "diagnose: bash of Debian 7" {
	requires legacy
	[ -d "$VFIX_LEGACY_DIR/stlx" ] || skip 'VFIX_LEGACY_DIR has no stlx'
	run_vm --vsyscall none --user 1000:1000 --root "$VFIX_LEGACY_DIR/stlx" -- \
		"sh -c 'ulimit -c unlimited; cd /tmp; bash -c \"echo up\"; cat /tmp/core*'"
	run_vfix 3 diagnose --root "$VFIX_LEGACY_DIR/stlx" "$vm_out/1.stdout"
	expect_match caller "$output" '/libc-2.13.so+0x'
	expect_match symbol "$output" 'in time+0xd'
	expect_match libc "$output" 'glibc 2.13'
}
