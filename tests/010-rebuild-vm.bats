#!/usr/bin/env bats
# bats file_tags=long
# rebuild on real kernels: the legacy image crashes if the vsyscall page is not mapped, the rebuilt one runs on all
# kernels.
load helpers

legacy_image=$medium_image

# The machines' root is the base's, with the result's different files in /patched: one machine tests both.
setup_file() {
	load helpers
	export root=$BATS_FILE_TMPDIR/root
	(has_vm && has_image_tools && has_legacy_image) >/dev/null || return 0
	local rebuilt=$BATS_FILE_TMPDIR/rebuilt
	"$VFIX" rebuild "oci:$legacy_image/oci:legacy" -o "oci:$BATS_FILE_TMPDIR/oci:x" -q
	umoci raw unpack --image "$BATS_FILE_TMPDIR/oci:x" "$rebuilt"
	cp -a "$legacy_image/rootfs" "$root"
	cp /bin/busybox "$root/"
	mkdir "$root/patched"
	# A file in only one of them would print another line.
	diff -rq --no-dereference "$legacy_image/rootfs" "$rebuilt" | sed -n "s|^Files .* and $rebuilt/\(.*\) differ\$|\1|p; t; s|.*|/none/&|p" |
		tar -C "$rebuilt" -c -T - | tar -C "$root/patched" -x
}

setup() {
	requires root vm image_tools legacy_image
}

# The commands, by number. All except the last reach the page in the legacy image: the entrypoint (a bash script),
# bash itself, redis-server and a client of it, the three functions of libc in a row, a static setuid program (its
# status is the result).
entrypoint=1 bash=2 ping=3 functions=4 harmless=6
calling='1 2 3 4 5'
patched=7 # the numbers of the result's are as much higher, behind one that puts it in place
# shellcheck disable=SC2016 # the shell of the root expands it
commands=(
	'/usr/local/bin/docker-entrypoint.sh redis-server --version'
	'bash -c "echo up"'
	"sh -c '"'redis-server --save "" & for i in $(seq 300); do redis-cli PING 2>/dev/null && exit; [ -e /proc/$!/exe ] || break; sleep 0.1; done; wait $!'"'"
	'callrate 20'
	'/usr/local/bin/clock'
	'sh -c "echo dash asks for no time"'
)

place='/busybox cp -af /patched/. /'

# expect_running FIRST: all commands after that number succeeded.
expect_running() {
	local n
	expect_vm "$1" 0
	for n in $calling $harmless; do
		expect_vm $(($1 + n)) 0
		run grep "$kernel_line" "$vm_out/$(($1 + n)).kernel"
		expect "complaints of the kernel of command $n" "$output" ''
	done
	expect_match entrypoint "$(cat "$vm_out/$(($1 + entrypoint)).stdout")" 'Redis server v='
	expect bash "$(cat "$vm_out/$(($1 + bash)).stdout")" up
	expect_match ping "$(cat "$vm_out/$(($1 + ping)).stdout")" PONG
	expect 'functions measured' "$(grep -cE '^(time|gettimeofday|sched_getcpu) [1-9][0-9]*$' "$vm_out/$(($1 + functions)).stdout")" 3
}

@test "rebuild: the base dies with vsyscall=none, and the kernel says why; the result runs" {
	run_vm --vsyscall none --root "$root" -- "${commands[@]}" "$place" "${commands[@]}"
	for n in $calling; do
		expect_vm "$n" "$status_sigsegv"
		expect_match "kernel log of command $n" "$(cat "$vm_out/$n.kernel")" "$kernel_line"
	done
	expect 'output of the entrypoint' "$(cat "$vm_out/$entrypoint.stdout")" ''
	expect_vm "$harmless" 0
	expect_running $patched
}

@test "rebuild: the result runs with vsyscall=none and without a vDSO" {
	run_vm --vsyscall none --append vdso=0 --root "$root" -- "$place" "${commands[@]}"
	expect_running 1
}

@test "rebuild: the result runs as an ordinary user on a read-only root" {
	cp -a "$root/patched/." "$root/" # the last test
	run_vm --vsyscall none --root "$root" --read-only --user 65534:65534 -- 'bash -c "echo up"' 'callrate 20' 'bash -c "echo >/file"'
	expect_vm 1 0
	expect_vm 2 0
	expect_vm 3 1
	expect_match stderr "$(cat "$vm_out/3.stderr")" 'Read-only file system'
}
