#!/usr/bin/env bats
# bats file_tags=long
# Real old binaries, which are not in a checkout: VFIX_LEGACY_DIR is a directory with some. Of its subdirectories, those
# with bin/bash and an ld.so are root filesystems, and those with a libc.so.6 beside its libpthread.so.0 have a libc.
#
# The programs are untrusted: they run in a virtual machine, or in a chroot as nobody, in separate namespaces, without
# network. Before: as the host runs them, which serves the page, and under novsyscall, which kills a program that calls
# it. After: under novsyscall, with the same output.
# Variables come from helpers.bash, and each test has its own; the dollars are for old shells.
# shellcheck disable=SC2016,SC2030,SC2031,SC2154
load helpers

nobody=65534

setup() {
	requires root legacy oracle own_root vm
	before=$BATS_TEST_TMPDIR/before after=$BATS_TEST_TMPDIR/after died=0
}

# attempt WRAPPER ROOT COMMAND...: leaves what the command prints in $out, and its status in $ret.
attempt() {
	local wrapper=() root=$2
	[ -z "$1" ] || wrapper=("$1")
	shift 2
	ret=0
	out=$(PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C HOME=/ TZ=UTC timeout "$patience" "${wrapper[@]}" \
		unshare --net --ipc --uts --pid --mount --fork --kill-child \
		chroot --userspec="$nobody:$nobody" --groups="$nobody" "$root" "$@" 2>&1 </dev/null) || ret=$?
}

# patch ARGUMENT...: a user's directory may have damaged files, which are reported: status 4.
patch() {
	local status=0
	output=$("$VFIX" patch -q --format json "$@") || status=$?
	case $status in 0 | 4) ;; *) fail "patch: status $status: $output" ;; esac
}

# take FILE...: copies what is in a root filesystem to $before, with what programs expect in one, and patches a second
# copy, $after, twice: the second time must change nothing.
take() {
	rm -rf "$before" "$after"
	mkdir -p "$before"
	cp -a "$@" "$before"
	mkdir -p "$before/dev" "$before/proc" "$before/tmp"
	chmod 755 "$before"
	chmod 1777 "$before/tmp"
	[ -e "$before/dev/null" ] || mknod -m 666 "$before/dev/null" c 1 3
	patch -o "$after" "$before"
	cp -a "$after" "$after.once"
	patch -i "$after"
	diff -r --no-dereference -x dev "$after.once" "$after"
	rm -rf "$after.once"
}

# same COMMAND...: it prints the same natively in $before as without the page in $after. Counts in $died how often it
# crashed in $before without the page.
same() {
	local native status_native
	[ -x "$before$1" ] || return 0
	attempt '' "$before" "$@"
	native=$out status_native=$ret
	attempt "$novsyscall" "$before" "$@"
	[ "$ret" != "$status_sigsys" ] || died=$((died + 1))
	attempt "$novsyscall" "$after" "$@"
	expect "status and output after: $*" "$ret $out" "$status_native $native"
}

# roots: every directory that is the root filesystem of an old system.
roots() {
	local root
	for root in "$VFIX_LEGACY_DIR"/*/; do
		[ ! -x "${root}bin/bash" ] || [ ! -e "${root}lib64" ] || echo "${root%/}"
	done
}

# static_muscle: the first static MUSCLE.
static_muscle() { find "$VFIX_LEGACY_DIR" -type f -name muscle | head -n 1; }

@test "real binaries: every file is patched, proved to differ in call sites only, and does in the emulator what it did" {
	local copy=$BATS_TEST_TMPDIR/copy
	get_unicorn
	patch -o "$copy" "$VFIX_LEGACY_DIR"
	expect "call sites left" "$(jq '[.results[].summary.left_over] | add' <<<"$output")" 0
	[ "$(jq '[.results[].summary.patched] | add' <<<"$output")" -gt 0 ] || fail "nothing to patch in $VFIX_LEGACY_DIR"
	run -0 jq -c .problems <("$VFIX" verify -q --format json "dir:$copy" --against "dir:$VFIX_LEGACY_DIR")
	expect 'problems' "$output" '[]'
	run emulated -n 8 "$VFIX_LEGACY_DIR" "$copy"
	echo "$output"
	expect status "$status" 0
}

@test "real binaries: bash, perl and coreutils of an old system die before and work after" {
	local root found=0
	while read -r root; do
		take "$root/."
		attempt '' "$before" /bin/bash -c :
		[ "$ret" = 0 ] || { echo "# $root: its bash does not run here: $ret" >&3 && continue; }
		found=$((found + 1)) died=0
		same /bin/bash -c 'echo $((6 * 7)); for f in /bin/l*; do echo "$f"; done; (exit 3); echo $?'
		expect "$root: bash died without the page" "$died" 1
		same /usr/bin/perl -e '$t = time; print $t > 1e9 && $t <= time ? "forward\n" : "back\n"; print -M "/bin/ls" > 0, "\n"'
		same /usr/bin/mawk 'BEGIN { srand(); srand(); print (srand() > 1e9) }'
		same /bin/date -u -d @0
		same /usr/bin/find / -maxdepth 1 -newermt 2001-01-01
		same /bin/sh -c 'touch /tmp/x && ls /tmp && rm /tmp/x'
		same /usr/bin/timeout 30 /bin/echo in time
		echo "# $root: $died of the commands died before" >&3
	done < <(roots)
	[ "$found" -gt 0 ] || skip "VFIX_LEGACY_DIR has no root filesystem with a bash that runs"
}

@test "real binaries: the time functions and timed waits of old libcs and libpthreads" {
	local libc root lib objects=$build/fixtures-objects found=0
	for libc in "$VFIX_LEGACY_DIR"/*/{lib64,lib/x86_64-linux-gnu}/libc.so.6; do
		lib=${libc%/libc.so.6} root=${libc%/lib*/libc.so.6} root=${root%/lib}
		[ -e "$lib/libpthread.so.0" ] || continue
		mkdir -p "$BATS_TEST_TMPDIR/libc"
		cp -a "$root"/lib* "$BATS_TEST_TMPDIR/libc"
		gcc -nostdlib -pie -Wl,-z,now -Wl,--hash-style=both -Wl,--no-as-needed -Wl,--allow-shlib-undefined \
			-Wl,--dynamic-linker=/lib64/ld-linux-x86-64.so.2 -o "$BATS_TEST_TMPDIR/libc/check" \
			"$objects"/programs/oldlibc.o "$objects"/check/{check,vsym,stack,safecall}.o "$lib/libpthread.so.0" "$lib/libc.so.6"
		take "$BATS_TEST_TMPDIR/libc/."
		rm -r "$BATS_TEST_TMPDIR/libc"
		same /check
		found=$((found + 1))
		echo "# $libc: $(tr '\n' ' ' <<<"$out")" >&3
	done
	[ "$found" -gt 0 ] || skip "VFIX_LEGACY_DIR has no libc.so.6 with its libpthread.so.0"
	[ "$died" -gt 0 ] || fail 'control: no libc died without the page'
}

# input: what MUSCLE aligns.
input() { printf '>a\nMKTAYIAKQRQISFVKSHFSRQ\n>b\nMKTAYIAKQRQISFVKSHFSR\n'; }

@test "real binaries: static MUSCLE dies before and aligns after" {
	[ -n "$(static_muscle)" ] || skip "VFIX_LEGACY_DIR has no MUSCLE"
	input >"$BATS_TEST_TMPDIR/in.fa"
	take "$(static_muscle)" "$BATS_TEST_TMPDIR/in.fa"
	same /muscle -in /in.fa -quiet
	expect 'died before' "$died" 1
	expect_match alignment "$out" '>b'
}

@test "real binaries: under the drop-in layer or vfix-trace, bash, perl, a handler, a blocked SIGSEGV, static programs" {
	local root=$BATS_TEST_TMPDIR/root legacy n list=$BATS_TEST_TMPDIR/list way
	legacy=$(roots | head -n 1)
	[[ -n $legacy && -n $(static_muscle) ]] || skip 'VFIX_LEGACY_DIR has no root filesystem, or no MUSCLE'
	cp -a "$legacy" "$root"
	"$VFIX" layer -q -o "tar:$BATS_TEST_TMPDIR/layer.tar"
	tar -x -f "$BATS_TEST_TMPDIR/layer.tar" -C "$root"
	mv "$root/etc/ld.so.preload" "$root/etc/preload"
	cp "$build/fixtures/golike" "$(static_muscle)" "$root/usr/bin/"
	input >"$root/in.fa"
	perl_handler >"$root/handler.pl"
	# As yum and rpm do, for themselves and the programs that they start.
	cat >"$root/blocked.pl" <<-'END'
		use POSIX;
		sigprocmask(SIG_BLOCK, POSIX::SigSet->new(SIGSEGV, SIGINT, SIGTERM));
		exit 1 unless time > 1e9;
		exit(system("perl -e 'exit(time < 1e9)' && bash -c golike") != 0);
	END
	cat >"$list" <<-'END'
		bash -c 'trap "echo trapped" SEGV; kill -SEGV $$; date +%Y; sleep 0'
		perl /handler.pl
		perl /blocked.pl
		bash -c 'muscle -in /in.fa -quiet && golike'
		perl -e 'for (1 .. 20) { my $p = fork; exit(time < 1e9) unless $p; wait; exit 1 if $? }'
	END
	{
		cat "$list"
		sed 's|^|/vfix/vfix-trace |' "$list"
		echo 'sh -c "cp /etc/preload /etc/ld.so.preload"'
		cat "$list"
	} >"$list.all"
	run_vm --vsyscall none --root "$root" --commands "$list.all"
	for n in 1 2 3 4 5; do
		[ "$(cat "$vm_out/$n.status")" != 0 ] || fail "control: command $n works without the page"
	done
	for way in 5 11; do # the numbers of the commands before those under vfix-trace, and the layer
		for n in 1 2 3 4 5; do expect_vm $((way + n)) 0; done
		expect_match bash "$(cat "$vm_out/$((way + 1)).stdout")" $'trapped\n20'
		expect perl "$(cat "$vm_out/$((way + 2)).stdout")" $'later\ncaught\non'
		expect_match muscle "$(cat "$vm_out/$((way + 4)).stdout")" '>a'
		expect "what bash's loader says" "$(cat "$vm_out/$((way + 1)).stderr")" ''
	done
}

@test "real binaries: diagnose names the function and the libc of a crash" {
	local root
	root=$(roots | grep debian7) || skip 'VFIX_LEGACY_DIR has no debian7'
	run_vm --vsyscall none --root "$root" -- \
		"sh -c 'echo /tmp/core >/proc/sys/kernel/core_pattern; mkdir -p /tmp; ulimit -c unlimited; bash -c \"echo up\"; cat /tmp/core'"
	run_vfix 3 diagnose --root "$root" "$vm_out/1.stdout"
	[[ $output =~ /libc-2\.13\.so\+0x[0-9a-f]+\ in\ time,\ glibc\ 2\.13 ]] || fail "$output"
}
