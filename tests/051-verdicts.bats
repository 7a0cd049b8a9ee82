#!/usr/bin/env bats
# The verdicts on a program, an image, a crash: every clearance, cause and proposal must have been checked.
load helpers

setup() {
	requires legacy_image
	enter_work
	root=$legacy_image/rootfs
}

@test "verdicts: a program is not whole without its libraries, and gets them from the root that it lies in" {
	run_vfix 3 scan --format json "$root/usr/bin/redis-server"
	expect 'its own call sites' "$(jq -r '.results[0].files[].path' <<<"$output" | grep -c redis-server)" 0
	expect_match 'what has them' "$(jq -r '.results[0].files[].path' <<<"$output")" "$root/"
	expect verdict "$(jq -c '.results[0] | [.verdict, .loads.root, .loads.missing]' <<<"$output")" "[\"affected\",\"$root\",[]]"
	run_vfix 3 scan "$root/usr/bin/redis-server"
	expect_match 'the command' "$output" "vfix patch -i $root/"
	# Alone, its libraries are not known: they are not those of this machine.
	cp "$root/usr/bin/redis-server" alone
	run_vfix 4 scan alone
	expect_match verdict "$output" 'INCOMPLETE: what it loads was not examined: /lib64/ld-linux-x86-64.so.2'
	expect_match hint "$stderr" "vfix scan --root DIR alone"
	run_vfix 4 scan --format json alone
	expect JSON "$(jq -c '.results[0] | [.verdict, .complete]' <<<"$output")" '["incomplete",false]'
	run_vfix 3 scan --root "$root" alone
	# The control: a program of this machine runs with this machine's libraries.
	run_vfix 0 scan --format json "$(command -v bash)"
	expect JSON "$(jq -c '.results[0] | [.verdict, .complete, .loads.root, (.loads.examined | length > 1)]' <<<"$output")" '["not-affected",true,"/",true]'
}

@test "verdicts: nothing to examine has the same verdict in each verb" {
	mkdir -p d/a
	echo text >d/a/x.txt
	tar -cf d.tar d
	gzip -k d.tar
	for command in 'scan d' 'scan d.tar' 'scan d.tar.gz' 'verify d' 'patch -i d' 'patch -o copy d' 'rebuild dir:d -o oci:out:x' 'scan oci:out:x' 'verify oci:out:x' 'rebuild oci:out:x -o oci:again:x'; do
		# shellcheck disable=SC2086 # words
		run_vfix 4 $command
		expect_match "$command" "$stderr" 'incomplete: no 64-bit x86-64 ELF file in it'
	done
	# The control: a program in it.
	mkdir d/lib64
	cp "$(type -P true)" d/a
	cp -L /lib64/ld-linux-x86-64.so.2 d/lib64
	for command in 'scan dir:d --root /' 'patch -i d' 'rebuild dir:d -o oci:new:x' 'scan oci:new:x'; do
		# shellcheck disable=SC2086 # words
		run_vfix 0 $command
	done
}

@test "verdicts: references that are used only without a vDSO are no finding, and nothing changes" {
	mkdir -p d/bin
	run_vfix 0 patch -o d/bin/golike "$BATS_TEST_DIRNAME/build/fixtures/golike" # its live site is gone then
	run_vfix 0 scan d/bin/golike
	expect dormant "$("$VFIX" scan --format json d/bin/golike | jq .results[0].summary.dormant)" 2
	expect_match verdict "$output" 'NOT AFFECTED'
	run_vfix 0 rebuild dir:d -o oci:out:x
	expect_match 'nothing to do' "$stderr" 'nothing to do'
	# setuid to another user, it finds no vDSO if TMPDIR is set.
	chown 1:1 d/bin/golike
	chmod 4755 d/bin/golike
	run_vfix 0 scan dir:d
	expect_match note "$output" 'note: bin/golike: made by Go before 1.16, and setuid'
}

@test "verdicts: a reference that cannot be judged makes a source incomplete, and the entrypoint stays" {
	mkdir -p d/bin
	cp "$BATS_TEST_DIRNAME/build/fixtures/finding-escape" d/bin/
	run_vfix 4 rebuild dir:d -o oci:out:x
	expect_match reason "$stderr" 'cannot be judged'
	expect entrypoint "$(skopeo inspect --config oci:out:x | jq -c .config.Entrypoint)" null
	run_vfix 4 scan oci:out:x
	# On request the fallback catches it.
	run_vfix 0 rebuild dir:d -o oci:caught:x --fallback always
	run_vfix 0 scan oci:caught:x
}

@test "verdicts: an affected member of a wheel is named, and patch writes nothing" {
	mkdir -p w/pkg out
	cp "$BATS_TEST_DIRNAME/build/fixtures/libstubs.so" w/pkg/
	echo text >w/pkg/__init__.py
	(cd w && python3 -m zipfile -c ../old.whl pkg)
	run_vfix 3 scan old.whl
	expect_match member "$output" 'pkg/libstubs.so'
	expect_match 'the way' "$output" 'unzip -d DIR old.whl && vfix patch -i DIR'
	for command in 'patch -o out/new.whl old.whl' 'patch -i old.whl'; do
		# shellcheck disable=SC2086 # words
		run_vfix 1 $command
		expect_match "$command" "$stderr" 'unzip -d DIR'
	done
	expect 'written' "$(ls out)" ''
	# The way works.
	unzip -q -d DIR old.whl
	run_vfix 0 patch -i DIR
	(cd DIR && python3 -m zipfile -c ../new.whl pkg)
	run_vfix 0 scan new.whl
	# In an image, the fallback catches it.
	cp old.whl w/
	run_vfix 3 scan dir:w
}

# container ROOT PROGRAM: a process with the root ROOT, in its own mount namespace, as in a container; its PID is
# in $pid.
container() {
	# shellcheck disable=SC2016 # Python
	python3 -c '
import ctypes, os, sys
c = ctypes.CDLL(None, use_errno=True)
root = sys.argv[1].encode()
CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE, MNT_DETACH, PIVOT_ROOT = 0x20000, 0x1000, 0x4000, 0x40000, 2, 155
assert not c.unshare(CLONE_NEWNS) and not c.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None)
assert not c.mount(root, root, None, MS_BIND, None)
os.chdir(root)
assert not c.syscall(PIVOT_ROOT, b".", b".") and not c.umount2(b".", MNT_DETACH)
os.execv(sys.argv[2], sys.argv[2:])' "$@" 3>&- &
	pid=$!
}

@test "verdicts: a process in another root is examined there, and not what has the same name here" {
	mkdir -p box/bin box/lib64 box/lib
	# shellcheck disable=SC2016 # immediates, not variables
	printf '%s\n' '.globl old' '.type old,@function' 'old: mov $0xffffffffff600400,%rax' 'xor %edi,%edi' 'call *%rax' 'ret' '.size old,.-old' '.section .note.GNU-stack,"",@progbits' >old.s
	gcc -shared -nostdlib -o box/lib/libold.so old.s
	echo '#include <unistd.h>
		int old(void); int main(int argc, char **argv) { return argc > 5 ? old() : pause(); }' >p.c
	gcc -o box/bin/sleep p.c -Lbox/lib -lold
	cp -L "$(ldd /bin/sleep | sed -n 's/.*=> \(.*libc[^ ]*\) .*/\1/p')" box/lib/
	cp -L /lib64/ld-linux-x86-64.so.2 box/lib64/
	cp "$(readlink -f /bin/sleep)" before
	container "$PWD/box" /bin/sleep
	poll grep -q /lib/libold.so "/proc/$pid/maps"
	for path in exe root/bin/sleep cwd/bin/sleep root/bin root; do
		run_vfix 3 scan --format json "/proc/$pid/$path"
		expect_match "$path" "$(jq -r '.results[0].files[].path' <<<"$output")" 'libold.so'
	done
	run_vfix 0 patch -i "/proc/$pid/root/lib/libold.so"
	run_vfix 0 scan "/proc/$pid/exe"
	kill "$pid"
	run_vfix 0 scan box
	cmp before "$(readlink -f /bin/sleep)"
}

@test "verdicts: messages about stdin name no temporary file, and each has a next step" {
	cp "$(type -P true)" program
	tar -cf root.tar program
	head -c 2000 root.tar >short.tar
	xz -k root.tar
	for file in root.tar short.tar root.tar.xz program; do
		run --separate-stderr "$VFIX" scan - <"$file"
		[[ $output$stderr != *.vfix-dir-* ]] || fail "$file: $output$stderr"
	done
	run --separate-stderr "$VFIX" scan - <short.tar
	expect 'cut off: status' "$status" 1
	expect_match 'cut off' "$stderr" 'stdin: program: ends early'
	run --separate-stderr "$VFIX" scan - <root.tar.xz
	expect 'packed: status' "$status" 4
	expect_match 'packed: next' "$stderr" 'unpack them first'
	run --separate-stderr "$VFIX" verify - <"$root/usr/lib/x86_64-linux-gnu/libc.so.6"
	expect 'verify: status' "$status" 3
	expect_match 'verify: next' "$stderr" "'... | vfix scan -' for the command that fixes it"
}

@test "verdicts: the programs of a tarball are not whole without their libraries" {
	mkdir -p app/bin lib64
	cp "$(type -P true)" app/bin
	tar -czf app.tar.gz app
	run_vfix 4 scan app.tar.gz
	expect_match verdict "$output" 'INCOMPLETE: what it loads was not examined: /lib64/ld-linux-x86-64.so.2, libc.so.6'
	expect_match hint "$stderr" 'unpack it on the machine that runs it'
	run_vfix 4 scan --format json app.tar.gz
	expect JSON "$(jq -c '.results[0] | [.verdict, .complete, .loads.missing]' <<<"$output")" '["incomplete",false,["/lib64/ld-linux-x86-64.so.2","libc.so.6"]]'
	echo app.tar.gz >list
	run_vfix 4 scan --from-file list
	expect_match 'in a list' "$output" 'what it loads was not examined: /lib64/ld-linux-x86-64.so.2, libc.so.6'
	# The controls: with the loader it is a root filesystem, also below a directory and behind a link; a static program needs none.
	cp /lib64/ld-linux-x86-64.so.2 lib64
	tar -cf root.tar app lib64
	run_vfix 0 scan root.tar
	mkdir -p d/usr d/bin
	mv lib64 d/usr/lib64
	ln -s usr/lib64 d/lib64
	cp app/bin/true d/bin
	tar -cf below.tar d
	run_vfix 0 scan below.tar
	cp "$BATS_TEST_DIRNAME/build/fixtures/musl-static" app/bin/true
	tar -cf static.tar app
	run_vfix 3 scan static.tar
	expect_match 'affected: the command' "$output" 'vfix patch -i static.tar'
}
