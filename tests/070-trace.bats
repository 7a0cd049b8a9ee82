#!/usr/bin/env bats
# bats file_tags=long
# vfix-trace: programs that no preload library reaches run on a kernel without the vsyscall page, and without a
# visible difference. On a real kernel with vsyscall=none, and natively with the twin: vfix-trace and the same programs
# built for a page that no kernel maps, with threads that run in parallel.
load helpers

fixtures=$build/fixtures
fallback=$build/fallback
programs=$fallback/twin
tracer=$tree/shim/build/vfix-trace
twin=$build/vfix-trace-twin

# vm_root: vfix-trace, a busybox, and the programs in /bin; the fixtures in /fixtures.
vm_root() {
	local root=$BATS_FILE_TMPDIR/root
	if [ ! -e "$root" ]; then
		mkdir -p "$root.tmp/bin"
		cp "$tracer" "$callpage" /bin/busybox "$root.tmp/bin"
		find "$fallback" -maxdepth 1 -name 'trace-*' -exec cp -t "$root.tmp/bin" {} +
		ln -s busybox "$root.tmp/bin/sh"
		cp -a "$fixtures" "$root.tmp/fixtures"
		copy_libraries "$fixtures" "$root.tmp"
		mv "$root.tmp" "$root"
	fi
	echo "$root"
}

# boot MODE [OPTION...]: runs each "STATUS COMMAND" line of stdin there, and checks the statuses.
boot() {
	local mode=$1 n=0 want command list=$BATS_TEST_TMPDIR/list
	shift
	cat >"$list"
	sed 's/^[0-9]* //' "$list" >"$list.commands"
	run_vm --vsyscall "$mode" --root "$(vm_root)" --commands "$list.commands" --cpus 2 "$@"
	while read -r want command; do
		n=$((n + 1))
		expect "status of $command: $(head -c 2000 "$vm_out/$n.stdout" "$vm_out/$n.stderr")" \
			"$(cat "$vm_out/$n.status")" "$want"
	done <"$list"
}

# Programs that work under vfix-trace and, the positive control, crash or report an error without it.
readonly working='callpage time
callpage gettimeofday
callpage getcpu
trace-crash bad-pointer-healed
trace-crash own-fault
trace-crash null
trace-crash blocked
trace-crash ignored
trace-children leaf
trace-children forks
/bin/trace-children vforks
/bin/trace-children spawns
/bin/trace-children thread-exec
trace-children leaderless
trace-threads 4 1000
trace-go
trace-heap
trace-rights setuid
trace-i386 /bin/callpage time
sh -c "callpage time && callpage getcpu | cat && (callpage time)"
sh -c "trap : USR1; callpage time; kill -USR1 \$\$; callpage time"
busybox unshare -p -f /bin/callpage time'

@test "trace: what dies without the page runs, threads, children, signals and all" {
	requires root vm
	local each='0 /bin/vfix-trace '
	boot none <<<"$each${working//$'\n'/$'\n'$each}"
}

@test "trace: the same dies without vfix-trace" {
	requires root vm
	local command n=0
	echo "$working" >"$BATS_TEST_TMPDIR/working"
	run_vm --vsyscall none --root "$(vm_root)" --commands "$BATS_TEST_TMPDIR/working" --cpus 2
	while read -r command; do
		n=$((n + 1))
		[ "$(cat "$vm_out/$n.status")" != 0 ] || fail "works without the page: $command"
	done <<<"$working"
}

@test "trace: the fixtures run, with and without a vDSO, findings included" {
	requires root vm
	# The others check that a call keeps all registers, as no program of a compiler needs.
	local append some='golike|finding-[a-z]*'
	for append in '' vdso=0; do
		boot none --append "$append" --env VFIX_LOG=1 < <(awk -F '\t' '!/^#/ && $2 ~ /runs|dies/ { print "0 /bin/vfix-trace /fixtures/" $1 }' \
			"$fixtures/programs.txt" | grep -E "/($some)\$")
		run grep -l 'changed at exec' "$vm_out"/*.stderr
		[ "${#lines[@]}" -ge 1 ] || fail "programs whose sites are changed at exec: ${#lines[@]}"
		run grep -l 'served' "$vm_out"/*.stderr
		[ "${#lines[@]}" -ge 1 ] || fail 'no program has a site of another form'
	done
}

@test "trace: statuses, errors, true crashes, a forbidden ptrace" {
	requires root vm
	boot none <<-'END'
		0 /bin/vfix-trace busybox true
		7 /bin/vfix-trace sh -c "exit 7"
		143 /bin/vfix-trace sh -c "kill -TERM \$\$"
		137 /bin/vfix-trace sh -c "kill -KILL \$\$"
		127 /bin/vfix-trace no-such-program
		126 /bin/vfix-trace /fixtures
		2 /bin/vfix-trace
		2 /bin/vfix-trace --nonsense true
		0 /bin/vfix-trace --help
		139 /bin/vfix-trace trace-crash misaligned
		139 /bin/vfix-trace trace-crash fourth
		139 /bin/vfix-trace trace-crash crash
		126 sh -c "echo 3 >/proc/sys/kernel/yama/ptrace_scope; exec vfix-trace callpage time"
		139 vfix-trace --exec /bin/callpage callpage time
	END
	expect "not found" "$(cat "$vm_out/5.stderr")" 'vfix-trace: error: no-such-program: not found'
	expect_match "not executable" "$(cat "$vm_out/6.stderr")" 'vfix-trace: error: /fixtures: Permission denied'
	expect_match "help" "$(cat "$vm_out/9.stdout")" 'CAP_SYS_PTRACE'
	expect_match "forbidden" "$(cat "$vm_out/13.stderr")" 'kernel.yama.ptrace_scope'
}

@test "trace: where the page is served it simply becomes the command" {
	requires root vm
	boot xonly --cpus 1 <<-'END'
		0 vfix-trace busybox grep TracerPid:.0 /proc/self/status
		0 vfix-trace --always busybox grep TracerPid:.[1-9] /proc/self/status
		0 vfix-trace callpage time
		0 vfix-trace --always callpage time
		0 vfix-trace --always /fixtures/finding-push
	END
}

# A twin of everything below runs natively.

# under ARGUMENT...: vfix-trace's twin; its streams in $output and $stderr.
under() { run --separate-stderr -- timeout "$patience" "$twin" "$@"; }

@test "trace: processes and threads that are killed, stop and end at any moment" {
	local storm
	for storm in 'kill 30' 'stop 300' 'exec 300' 'threads 3000'; do
		# shellcheck disable=SC2086 # two words
		under "$programs/trace-storm" $storm 3>&-
		expect "status of $storm ($stderr)" "$status" 0
	done
}

@test "trace: a thread executes a program while the call of the first one is served, and the tracer is late" {
	has_commands strace >/dev/null || skip "requires strace"
	local dir=$BATS_TEST_TMPDIR pid tracer strace
	mkfifo "$dir/go"
	# shellcheck disable=SC2016 # the inner shell expands it
	"$twin" sh -c 'read x <$1/go; for i in 1 2 3 4 5; do $0/trace-children leader-exec || exit; done' "$programs" "$dir" 3>&- &
	pid=$!
	poll grep -q 'TracerPid:.[1-9]' /proc/$pid/status
	tracer=$(awk '/TracerPid/ { print $2 }' /proc/$pid/status)
	strace -q -o /dev/null -e trace=wait4 -e inject=wait4:delay_exit=3000 -p "$tracer" 3>&- &
	strace=$!
	poll grep -q "TracerPid:.$strace\$" "/proc/$tracer/status"
	echo >"$dir/go"
	wait "$pid"
	wait "$strace"
}

@test "trace: threads that call the same sites get right answers" {
	under "$programs/trace-threads" 8 30000
	expect "output ($stderr)" "$status $output" '0 ok'
	run "$programs/trace-threads" 8 100
	expect "status without vfix-trace" "$status" "$status_sigsegv"
}

@test "trace: the process becomes the command: its ID, its signals, its core" {
	local dir=$BATS_TEST_TMPDIR pid
	# shellcheck disable=SC2016 # the inner shell expands it
	run bash -c 'echo $$ >"$2"; exec "$0" "$1" -c "echo \$\$"' "$twin" /bin/sh "$dir/pid"
	expect 'process ID' "$output" "$(cat "$dir/pid")"
	# shellcheck disable=SC2016
	"$twin" sh -c 'trap "echo got; exit 5" TERM; echo up; while :; do sleep 0.05; done' >"$dir/out" 3>&- &
	pid=$!
	poll grep -q up "$dir/out"
	kill -TERM "$pid"
	status=0
	wait "$pid" || status=$?
	expect 'status and output' "$status $(tail -n 1 "$dir/out")" '5 got'
	[[ $(cat /proc/sys/kernel/core_pattern) != '|'* ]] || skip "cores go to a program here"
	mkdir "$dir/cores"
	run bash -c 'cd "$1" && ulimit -c unlimited && "$2" "$3" crash' bash "$dir/cores" "$twin" "$programs/trace-crash"
	expect status "$status" "$status_sigsegv"
	expect "cores" "$(find "$dir/cores" -type f | wc -l)" 1
}

@test "trace: without CAP_SYS_PTRACE, a program that gives up rights is served all the same" {
	requires root
	local without=(setpriv --bounding-set=-sys_ptrace --inh-caps=-sys_ptrace) name
	open_dir "$programs/trace-rights"
	for name in setuid seteuid dumpable exec; do
		run "${without[@]}" timeout "$patience" "$twin" "$open/trace-rights" $name
		expect "status of $name: $output" "$status" 0
		run "$open/trace-rights" $name
		expect "status of $name without vfix-trace" "$status" "$status_sigsegv"
	done
}

@test "trace: what runs on in the background is served, and nothing waits for it" {
	local dir=$BATS_TEST_TMPDIR
	mkfifo "$dir/go"
	# The pipe ends with the command, although the background program and the tracer continue.
	# shellcheck disable=SC2016 # the inner shell expands it
	run --separate-stderr -- timeout "$patience" bash -c '"$0" sh -c "
		{ read x <$2/go; $1/trace-children forks && echo >$2/done; } >$2/log 2>&1 </dev/null &
		echo started" | cat' "$twin" "$programs" "$dir"
	expect "status and output" "$status $output" '0 started'
	[ ! -e "$dir/done" ] || fail "the background program did not wait"
	echo >"$dir/go"
	poll test -e "$dir/done"
}

@test "trace: a program that starts no other is not traced any more, and leaves no process behind" {
	requires root own_root
	local program=$BATS_TEST_TMPDIR/alone kind compile
	cat >"$program.c" <<-'END'
		#include <stdio.h>
		#include <string.h>
		#include "trace-page.h"
		int main(void)
		{
			char line[256];
			FILE *status = fopen("/proc/self/status", "r");
			while (fgets(line, sizeof line, status) && strncmp(line, "TracerPid:", 10))
				;
			return !TIME_FITS() || strcmp(line, "TracerPid:\t0\n");
		}
	END
	compile=(musl-gcc -static -O1 -DVFIX_PAGE=0xffffffffff5ff000 -I"$tree/tests/fixtures/fallback" "$program.c")
	"${compile[@]}" -o "$program"
	run "$program"
	expect 'status without vfix-trace' "$status" "$status_sigsegv"
	# Go passes the number of execve on the stack, and dietlibc's functions share a system call.
	objcopy --add-section .gosymtab=/dev/null "$program" "$program-go"
	"${compile[@]}" -o "$program-diet" -x assembler - <<<'.byte 0xb0, 59, 0xe9'
	for kind in go diet; do
		under "$program-$kind"
		expect "status of a program that is traced to its end ($kind)" "$status" 1
	done
	# Process 1 there waits only for its own child, as in many containers.
	# shellcheck disable=SC2016 # the inner shell expands it
	run unshare --pid --fork --kill-child --mount-proc timeout "$patience" bash -c '
		for i in 1 2 3 4 5; do "$0" "$1" || exit; done; ps -e -o comm=' "$twin" "$program"
	expect status "$status" 0
	[[ $output == *ps* && $output != *vfix-trace* ]] || fail "left: $output"
	# As process 1 itself, of which the tracer is a child.
	run timeout "$patience" unshare --pid --fork --mount-proc "$twin" "$programs/trace-children" forks
	expect "status as process 1: $output" "$status" 0
}

@test "trace: strace of it, and gdb in it, end cleanly" {
	has_commands strace gdb >/dev/null || skip "requires strace and gdb"
	run timeout "$patience" strace -o /dev/null "$twin" "$programs/trace-children" leaf
	expect "status under strace" "$status" 126
	expect_match "what it says" "$output" 'ptrace is forbidden here'
	under gdb -batch -ex run "$programs/trace-children"
	[ "$status" -lt 124 ] || fail "gdb in it: status $status: $output $stderr"
}
