#!/usr/bin/env bats
# bats file_tags=long
# libvfix.so, the preload library: every program runs with it and, as the control, without it, when the first call
# to the page is a SIGSEGV. On a kernel booted with vsyscall=none, and on this machine with a twin of the page that
# no kernel maps.
# Variables come from helpers.bash; the dollars are for the shells of the roots.
# shellcheck disable=SC2016,SC2030,SC2031,SC2154
load helpers

fallback=$build/fallback
library=$tree/shim/build/libvfix.so
library32=$tree/shim/build/libvfix32.so
twin=$fallback/libvfix-twin.so

# twin_run PROGRAM [ARGUMENT...]: runs it with the twin's library; VAR=VALUE may come first.
twin_run() { run env LD_PRELOAD="$twin" "$@"; }

# The only scenario that crashes itself, after a message.
crash=kernel-dies-here

# expect_scenarios WHAT SAID STATUS: each scenario of the list ended with STATUS, the crashing one with its own.
expect_scenarios() {
	local want
	want=$(sed "s/\$/ $3/; s/^$crash .*/$crash $status_sigsegv/" <<<"$scenarios")
	expect "$1: scenarios that end otherwise" "$(diff <(grep -v 'works until here' <<<"$2") <(echo "$want"))" ''
	[[ $3 != 0 || $want != *"$crash"* ]] || expect_match "$1: $crash" "$2" 'works until here'
}

# every_scenario PROGRAM: with the library, with and without healing; without the library each crashes.
every_scenario() {
	local program=$1 heal scenarios
	scenarios=$("$program" --list)
	[ "$(wc -l <<<"$scenarios")" -ge 28 ] || fail "only these scenarios: $scenarios"
	for heal in 1 0; do
		twin_run VFIX_HEAL=$heal timeout "$patience" "$program" --again
		expect "status, VFIX_HEAL=$heal: $output" "$status" 0
		expect_scenarios "VFIX_HEAL=$heal" "$output" 0
	done
	run timeout "$patience" "$program" --again
	expect_scenarios 'without the library' "$output" "$status_sigsegv"
}

@test "preload: every scenario on the twin" {
	every_scenario "$fallback/survive-twin"
}

@test "preload: every scenario on the twin, in a program at a fixed address" {
	every_scenario "$fallback/survive-exec-twin"
}

@test "preload: every scenario on the twin, with musl" {
	every_scenario "$fallback/survive-musl-twin"
}

@test "preload: calls from constructors on the twin" {
	local program
	for program in early early-initfirst; do
		twin_run "$fallback/$program-twin"
		expect "$program" "$status" 0
		run "$fallback/$program-twin"
		expect "$program without the library" "$status" "$status_sigsegv"
	done
}

@test "preload: VFIX_LOG reports what is changed, and what is served at each call" {
	twin_run VFIX_LOG=1 "$fallback/survive-twin" process-plain
	expect status "$status" 0
	expect_match log "$output" ': changed'
	expect_match log "$output" ': served'
	expect 'sites changed twice' "$(grep changed <<<"$output" | sort | uniq -d)" ''
	twin_run VFIX_LOG=1 VFIX_HEAL=0 "$fallback/survive-twin" process-plain
	expect 'sites changed against orders' "$(grep -c changed <<<"$output")" 0
	twin_run "$fallback/survive-twin" process-plain
	expect 'log that was not asked for' "$output" ''
}

@test "preload: without /proc calls are served all the same" {
	requires root own_root
	run unshare --mount sh -c 'umount -l /proc && LD_PRELOAD=$1 VFIX_LOG=1 exec $2 process-plain' sh "$twin" "$fallback/survive-twin"
	expect "status ($output)" "$status" 0
	expect 'sites changed without /proc/self/maps' "$(grep -c changed <<<"$output")" 0
}

@test "preload: sites that change under eight threads, forks and signals give right answers" {
	twin_run timeout "$patience" "$fallback/threads-twin" 8 1000000
	expect 'status and output' "$status $output" '0 ok'
	run "$fallback/threads-twin" 8 100
	expect 'status without the library' "$status" "$status_sigsegv"
}

@test "preload: static programs that a preloaded one starts, in each way, run under vfix-trace" {
	local dir=$BATS_TEST_TMPDIR/vfix leaf=$fallback/twin/trace-children way
	mkdir -p "$dir/x86_64"
	cp "$twin" "$dir/x86_64/libvfix.so"
	cp "$build/vfix-trace-twin" "$dir/vfix-trace"
	for way in $("$fallback/starts" list); do
		run env LD_PRELOAD="$dir/x86_64/libvfix.so" "$fallback/starts" "$way" "$leaf" leaf
		expect "status by $way: $output" "$status" 0
		run "$fallback/starts" "$way" "$leaf" leaf
		expect "status by $way without the library" "$status" "$status_sigsegv"
	done
	printf '#!%s\n' "$fallback/twin/trace-go" >"$dir/script"
	chmod 755 "$dir/script"
	run env LD_PRELOAD="$dir/x86_64/libvfix.so" bash -c "\"\$0\" && (exec -a other $leaf leaf)" "$dir/script"
	expect "status of a script whose interpreter is static: $output" "$status" 0
	# As in many programs, 4 bytes of data look like the page's address.
	sed 's/copyrighted/\x00\xf4\x5f\xffrighted/' /bin/busybox >"$dir/busybox"
	chmod 755 "$dir/busybox"
	cmp -s /bin/busybox "$dir/busybox" && fail "the same program"
	run env LD_PRELOAD="$dir/x86_64/libvfix.so" bash -c '"$0" grep TracerPid:.0 /proc/self/status' "$dir/busybox"
	expect "status of a static program that is not traced: $output" "$status" 0
	# A program that gains rights is left alone: traced, it would not gain them.
	has_root >/dev/null || return 0
	chmod -R go+rX "$dir"
	open_dir "$leaf" "$fallback/starts" "$dir/x86_64" "$dir/vfix-trace"
	chown 65534 "$open/trace-children"
	chmod 4755 "$open/trace-children"
	run env LD_PRELOAD="$open/x86_64/libvfix.so" "$open/starts" execv "$open/trace-children" leaf
	expect 'status of a setuid program' "$status" "$status_sigsegv"
}

@test "preload, trace: of a vDSO that is not Linux's only plain calls are made" {
	run "$fallback/vdso"
	expect "status ($output)" "$status" 0
}

@test "preload: processes and threads that are killed, stop and end at any moment" {
	local storm
	for storm in 'kill 100' 'stop 300' 'threads 3000'; do
		# shellcheck disable=SC2086 # two words
		twin_run timeout "$patience" "$fallback/storm-twin" $storm
		expect "status of $storm ($output)" "$status" 0
	done
	run "$fallback/storm-twin" kill 1
	expect 'status without the library' "$status" "$status_sigsegv"
}

@test "preload: gdb and strace work on a program that has it" {
	requires root
	run gdb -nx -batch -ex "set environment LD_PRELOAD $twin" -ex 'handle SIGSEGV nostop noprint pass' \
		-ex 'break on_siginfo' -ex run -ex bt -ex kill --args "$fallback/survive-twin" handler-sigaction
	echo "$output"
	expect_match backtrace "$output" '<signal handler called>'
	expect_match backtrace "$output" ' crashes'
	expect_match backtrace "$output" ' handler_sigaction '
	run strace -f -o "$BATS_TEST_TMPDIR/trace" -E LD_PRELOAD="$twin" "$fallback/survive-twin" process-threads
	expect "status under strace" "$status" 0
	expect_match trace "$(cat "$BATS_TEST_TMPDIR/trace")" 'SIGSEGV'
}

@test "preload: 32-bit programs get one of their own, with nothing in it" {
	run --separate-stderr env LD_PRELOAD="$library32" "$fallback/i386"
	expect 'status and stderr' "$status $stderr" '0 '
	run --separate-stderr env LD_PRELOAD="$library" "$fallback/i386"
	expect_match 'what ld.so says of the other' "$stderr" 'wrong ELF class'
}

# vm_root: a root filesystem with the library, in $root. It is created once per file.
vm_root() {
	requires root vm legacy_image
	root=$BATS_FILE_TMPDIR/root
	[ ! -e "$root" ] || return 0
	cp -a "$legacy_image/rootfs" "$root"
	cp "$library" "$root/usr/lib/libvfix.so"
	cp "$fallback"/{survive,early,early-initfirst,libearly.so,libearly-initfirst.so} "$root/usr/local/bin"
	install -m 4755 "$fallback/survive" "$root/usr/local/bin/survive-setuid"
	# with on|off COMMAND: for all programs, or for none. dash and its builtins do not read the time.
	cat >"$root/with" <<-'END'
		#!/bin/dash
		: >/etc/ld.so.preload
		[ "$1" = off ] || echo /usr/lib/libvfix.so >/etc/ld.so.preload
		exec /bin/dash -c "$2"
	END
	chmod 755 "$root/with"
}

# both COMMAND...: each in one boot, with the library (1 to n) and without (n + 1 to 2n).
both() {
	local command
	for command in "$@"; do printf '/with on %q\n' "$command"; done >"$BATS_TEST_TMPDIR/commands"
	for command in "$@"; do printf '/with off %q\n' "$command"; done >>"$BATS_TEST_TMPDIR/commands"
	run_vm --vsyscall none --root "$root" --commands "$BATS_TEST_TMPDIR/commands"
}

# In the machine most scenarios are processes of one program: to execute programs takes it long.
@test "preload: every scenario on a kernel without the page, with and without a vDSO" {
	vm_root
	local with='LD_PRELOAD=/usr/lib/libvfix.so' append without scenarios n status
	for append in '' vdso=0; do
		n=0
		# The system call reports a bad pointer with EFAULT.
		without=${append:+kernel-bad-pointer}
		scenarios=$("$fallback/survive" --list | grep -vx "$without")
		run_vm --vsyscall none --append "$append" --root "$root" -- "$with survive --each" "$with VFIX_HEAL=0 survive --each" 'survive --each'
		for status in 0 0 "$status_sigsegv"; do # the last is the control, without the library
			expect_vm $((n += 1)) 0
			expect_scenarios "command $n $append" "$(grep -v "^${without:-none} " "$vm_out/$n.stdout")" "$status"
		done
	done
}

@test "preload: a setuid program, another user, a read-only root, constructors" {
	vm_root
	local user=65534:65534 # before the packages, which make the root ten times as large
	echo /usr/lib/libvfix.so >"$root/etc/ld.so.preload"
	run_vm --vsyscall none --root "$root" --read-only --user "$user" -- 'survive-setuid process-plain' \
		'survive process-plain' early early-initfirst "bash -c 'echo up'" 'survive kernel-dies-here'
	for n in 1 2 3 4 5; do expect_vm $n 0; done
	# The default action, at the real address.
	expect_vm 6 "$status_sigsegv"
	expect_match 'kernel log' "$(cat "$vm_out/6.kernel")" 'segfault at dead000 '
	: >"$root/etc/ld.so.preload"
	# The variable does not reach a setuid program, which is thus the control.
	run_vm --vsyscall none --root "$root" --read-only --user "$user" --env LD_PRELOAD=/usr/lib/libvfix.so -- \
		'survive-setuid process-plain' 'survive process-plain'
	expect_vm 1 "$status_sigsegv"
	expect_vm 2 0
	run_vm --vsyscall none --root "$root" --read-only --user "$user" -- \
		'survive process-plain' early early-initfirst "bash -c 'echo up'"
	for n in 1 2 3 4; do expect_vm $n "$status_sigsegv"; done
}

@test "preload: bash, gcc, perl, python, the JVM and redis, with their handlers and crash reports" {
	vm_root
	local java=/usr/lib/jvm/java-17-openjdk-amd64/bin/java n
	# Compiled at the second call: -Xcomp compiles everything that the JVM starts with.
	local soon='-XX:TieredStopAtLevel=1 -XX:Tier3InvocationThreshold=1 -XX:Tier3MinInvocationThreshold=1 -XX:Tier3CompileThreshold=1'
	"$tree/tests/fixtures/fallback/add-packages" "$root" gcc libc6-dev perl python3-minimal openjdk-17-jre-headless
	cp -a "$fallback/java" "$root/"
	printf '#include <stdio.h>\nint main(void) { puts("compiled"); return 0; }\n' >"$root/hello.c"
	cat >"$root/cc1.sh" <<-'END'
		# cc1 gets a SIGSEGV while it waits for its input.
		mkfifo /tmp/in
		exec 3<>/tmp/in
		gcc -S -o /dev/null -x c /tmp/in 3>&- &
		while [ -e /proc/$!/exe ]; do
			for p in /proc/[0-9]*; do
				read -r name <$p/comm && [ "$name" = cc1 ] && ls -l $p/fd | grep -q /tmp/in && kill -SEGV ${p#/proc/} && break 2
			done 2>/dev/null
		done
		wait $!
	END
	perl_handler >"$root/crash.pl"
	cat >"$root/crash.py" <<-'END'
		import time, faulthandler, os
		print(time.time() > 1e9, flush=True)
		faulthandler.enable()
		os.kill(os.getpid(), 11)
	END
	# The report's memory test overwrites memory that glibc shares with the kernel for each thread (struct rseq),
	# which then ends the process, also without the library. The tunable disables this.
	cat >"$root/redis.sh" <<-'END'
		GLIBC_TUNABLES=glibc.pthread.rseq=0 redis-server --save "" --enable-debug-command yes &
		for i in $(seq 300); do redis-cli PING && break; [ -e /proc/$!/exe ] || break; done
		redis-cli DEBUG SEGFAULT
		wait $!
	END
	both "bash -c 'trap \"echo trapped\" SEGV; echo \$((6 * 7)); ls -l / >/dev/null; kill -SEGV \$\$; sleep 0; date +%Y'" \
		'gcc -O1 -o /tmp/hello /hello.c && /tmp/hello' \
		'dash /cc1.sh' \
		'perl /crash.pl' \
		'python3 /crash.py' \
		"$java -Xint -cp /java Null /java/libnull.so" \
		"$java -Xbatch $soon -XX:CompileCommand=quiet -XX:CompileCommand=compileonly,Null::* -cp /java Null /java/libnull.so" \
		"$java -cp /java Null /java/libnull.so" \
		'dash /redis.sh'
	expect_vm 1 0
	expect_match bash "$(cat "$vm_out/1.stdout")" $'42\ntrapped\n20'
	expect_vm 2 0
	expect gcc "$(cat "$vm_out/2.stdout")" compiled
	expect_vm 3 1
	expect_match "gcc's crash report" "$(cat "$vm_out/3.stderr")" 'cc1: internal compiler error: Segmentation fault'
	expect_vm 4 0
	expect perl "$(cat "$vm_out/4.stdout")" $'later\ncaught\non'
	expect_vm 5 "$status_sigsegv"
	expect python "$(cat "$vm_out/5.stdout")" True
	expect_match "python's crash report" "$(cat "$vm_out/5.stderr")" 'File "/crash.py", line 4'
	for n in 6 7 8; do
		expect_vm $n 0
		expect "the JVM's null checks" "$(cat "$vm_out/$n.stdout")" 'caught 3000'
	done
	expect_vm 9 "$status_sigsegv"
	expect_match redis "$(cat "$vm_out/9.stdout")" PONG
	expect_match "redis's crash report" "$(cat "$vm_out/9.stdout")" 'crashed by signal: 11'
	expect_match "redis's crash report" "$(cat "$vm_out/9.stdout")" 'REDIS BUG REPORT END'
	# Without the library, all of them crash.
	for n in 10 13 14 15 16 17 18; do
		expect_vm $n "$status_sigsegv"
		expect "stdout of command $n" "$(cat "$vm_out/$n.stdout")" ''
	done
	expect_vm 11 4
	expect 'gcc without the library' "$(cat "$vm_out/11.stdout")" ''
}
