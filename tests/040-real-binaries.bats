#!/usr/bin/env bats
# Real old binaries, which are not in a checkout: VFIX_LEGACY_DIR is a directory with some. Its contents are
# recognized, so any mixture works: root filesystems (a Debian 7, a CentOS 5), their lib directories, static
# programs (MUSCLE, MAFFT, BLAT). Each test declares its requirements and is skipped if the directory lacks them.
#
# The programs are untrusted: they run in a chroot as nobody, in separate namespaces, without network. Before: as
# the host runs them, which serves the page, and under novsyscall, which kills a program that calls it. After: under
# novsyscall, with the same output.
# Variables come from helpers.bash, and each test has its own; the dollars are for old shells.
# shellcheck disable=SC2016,SC2030,SC2031,SC2154
load helpers

nobody=65534

setup() {
	requires root legacy oracle own_root
	died=0 compared=0
}

# sandbox ROOT COMMAND...: see above.
sandbox() {
	local root=$1
	shift
	timeout "$patience" "${wrapper[@]}" unshare --net --ipc --uts --pid --mount --fork --kill-child \
		chroot --userspec="$nobody:$nobody" --groups="$nobody" "$root" "$@"
}

# attempt WRAPPER ROOT COMMAND...: leaves the results in $out, $err and $ret. The input is /input if the root has
# it.
attempt() {
	local wrapper=() dir=$BATS_TEST_TMPDIR
	[ -z "$1" ] || wrapper=("$1")
	shift
	ret=0
	PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C HOME=/ TZ=UTC \
		sandbox "$@" >"$dir/out" 2>"$dir/err" </dev/null || ret=$?
	out=$(tr -d '\0' <"$dir/out") err=$(tr -d '\0' <"$dir/err")
}

# furnish ROOT: adds files that programs expect in a root filesystem, as far as nobody may read them.
furnish() {
	mkdir -p "$1/dev" "$1/proc" "$1/tmp"
	chmod 755 "$1"
	chmod 1777 "$1/tmp"
	[ -e "$1/dev/null" ] || mknod -m 666 "$1/dev/null" c 1 3
}

# digest DIRECTORY: of its files' names and contents.
digest() { (cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum); }

# patched: patches $after twice; the second time must change nothing.
patched() {
	local once
	run_vfix patch -i "$after"
	once=$(digest "$after")
	[ "$once" != "$(digest "$before")" ] || fail "$after: nothing was patched"
	run_vfix patch -i "$after"
	expect "files patched twice" "$(digest "$after")" "$once"
}

# same KIND COMMAND...: the command has the same result natively in $before as without the page in $after. KIND:
# "exact", "digits" if numbers may differ (they are times), "status". Counts in $died how often it crashed in
# $before without the page.
same() {
	local kind=$1 native status_native
	shift
	[ -x "$before$1" ] || return 0
	attempt '' "$before" "$@"
	native=$out status_native=$ret
	if [ "$ret" -ge 126 ]; then
		echo "# not compared, $ret on this machine: $*: $err" >&3
		return 0
	fi
	attempt "$novsyscall" "$before" "$@"
	[ "$ret" != "$status_sigsys" ] || died=$((died + 1))
	[ "$ret" = "$status_sigsys" ] || expect "status without the page, without a call: $*" "$ret" "$status_native"
	attempt "$novsyscall" "$after" "$@"
	echo "$*: $ret: $out: $err"
	expect "status after: $*" "$ret" "$status_native"
	case $kind in
	exact) expect "output after: $*" "$out" "$native" ;;
	digits) expect "output after: $*" "$(sed -E 's/[0-9]+ */N /g' <<<"$out")" "$(sed -E 's/[0-9]+ */N /g' <<<"$native")" ;; # padded
	status) ;;
	*) fail "same: unknown kind '$kind'" ;;
	esac
	compared=$((compared + 1))
}

# elf_files: every 64-bit x86-64 ELF file in the directory, one per line.
elf_files() {
	[ -e "$BATS_FILE_TMPDIR/elf" ] || find "$VFIX_LEGACY_DIR" -type f -size +1k -print0 |
		xargs -0 -n 200 readelf -h 2>/dev/null -W |
		awk '/^File: /{f=substr($0,7)} /Class: .*ELF64/{c=f} /Machine: .*X86-64/{if (c==f) print f}' >"$BATS_FILE_TMPDIR/elf"
	cat "$BATS_FILE_TMPDIR/elf"
}

# static_programs TEXT: the static programs among them with the text in them.
static_programs() {
	elf_files | while read -r file; do
		grep -qaF -- "$1" "$file" || continue
		case $(readelf -lW "$file" 2>/dev/null) in
		*INTERP* | *DYNAMIC*) ;;
		*) echo "$file" ;;
		esac
	done
}

# roots: every directory that is the root filesystem of an old system with a working bash.
roots() {
	local bash root
	elf_files | grep '/bin/bash$' | while read -r bash; do
		root=${bash%/bin/bash}
		compgen -G "$root/lib*/ld-linux-x86-64.so.2" >/dev/null && echo "$root"
	done
}

# libcs: every directory with a libc.so.6 and a libpthread, as ROOT and the directory in it.
libcs() {
	local libc dir
	elf_files | grep -E '/libc([-.][0-9.]*)?\.so(\.6)?$' | while read -r libc; do
		dir=${libc%/*}
		[[ -e $dir/libpthread.so.0 && -e $dir/libc.so.6 ]] || continue
		case $dir in
		*/lib/x86_64-linux-gnu) echo "${dir%/lib/x86_64-linux-gnu} lib/x86_64-linux-gnu" ;;
		*/lib64) echo "${dir%/lib64} lib64" ;;
		esac
	done | sort -u
}

# the_root SOURCE: copies of a root filesystem, $before and $after.
the_root() {
	before=$BATS_TEST_TMPDIR/before after=$BATS_TEST_TMPDIR/after
	rm -rf "$before" "$after"
	mkdir "$before"
	cp -a "$1/." "$before"
	furnish "$before"
	cp -a "$before" "$after"
}

# the_program FILE…: $before and $after with only static programs in them.
the_program() {
	before=$BATS_TEST_TMPDIR/before after=$BATS_TEST_TMPDIR/after
	rm -rf "$before" "$after"
	mkdir -p "$before/bin"
	install -m 755 "$@" "$before/bin"
	furnish "$before"
}

# proteins: five related sequences, always the same.
proteins() {
	awk 'BEGIN {
		srand(1)
		letters = "ACDEFGHIKLMNPQRSTVWY"
		for (i = 0; i < 120; i++) s[i] = int(20 * next_number())
		for (n = 0; n < 5; n++) {
			print ">s" n
			line = ""
			for (i = 0; i < 120; i++) line = line substr(letters, 1 + (next_number() < n / 20 ? int(20 * next_number()) : s[i]), 1)
			print line
		}
	}
	function next_number() { seed = (seed * 16807 + 11) % 2147483647; return seed / 2147483647 }'
}

@test "real binaries: every file of the directory is patched, and proved to differ in call sites only" {
	local copy=$BATS_TEST_TMPDIR/copy incomplete=0
	# A user's directory may have damaged files, which are reported.
	"$VFIX" scan --format json "$VFIX_LEGACY_DIR" >"$BATS_TEST_TMPDIR/scan.json" || true
	if jq -r '.results[].not_examined[] | select(.unread) | "# not examined: \(.path): \(.reason)"' "$BATS_TEST_TMPDIR/scan.json" | tee /dev/fd/3 | grep -q .; then
		incomplete=4
	fi
	run_vfix "$incomplete" patch --format json -o "$copy" "$VFIX_LEGACY_DIR"
	jq -r '.results[].files[] | . as $f | .sites[] | "\($f.libc)\t\(.verdict)\t\(.form)"' <<<"$output" |
		sort | uniq -c | sed 's/^/# /' >&3
	expect "call sites left" "$(jq '[.results[].summary.left_over] | add' <<<"$output")" 0
	[ "$(jq '[.results[].summary.patched] | add' <<<"$output")" -gt 0 ] || fail "nothing to patch in $VFIX_LEGACY_DIR"
	run_vfix "$incomplete" verify "dir:$copy" --against "dir:$VFIX_LEGACY_DIR"
}

@test "real binaries: bash, perl and coreutils of an old system die before and work after" {
	local root found=0
	while read -r root; do
		the_root "$root"
		attempt '' "$before" /bin/bash -c :
		[ "$ret" = 0 ] || { echo "# $root: its bash does not run here: $ret" >&3 && continue; }
		patched
		found=$((found + 1)) died=0 compared=0
		same exact /bin/bash -c 'echo $((6 * 7)); for f in /bin/l*; do echo "$f"; done; (exit 3); echo $?'
		expect "$root: bash died without the page" "$died" 1
		same exact /usr/bin/perl -e 'print time > 1e9 ? "later\n" : "earlier\n"; print scalar(gmtime(0)), "\n"'
		same exact /usr/bin/perl -e '$t = time; print $t <= time ? "forward\n" : "back\n"; print -M "/bin/ls" > 0, "\n"'
		same exact /usr/bin/mawk 'BEGIN { srand(); srand(); print (srand() > 1e9) }'
		same digits /bin/date
		same exact /bin/date -u -d @0
		same digits /bin/ls -ln /dev
		same digits /usr/bin/stat /bin/ls
		same exact /usr/bin/find / -maxdepth 1 -newermt 2001-01-01
		same exact /bin/sh -c 'touch /tmp/x && ls /tmp && rm /tmp/x'
		same exact /usr/bin/timeout 30 /bin/echo in time
		same exact /usr/bin/sort -r /proc/version /dev/null
		same status /usr/bin/ddate
		same status /usr/bin/cal
		same status /bin/ps
		same status /usr/bin/logger -s x
		same exact /usr/bin/gcc -dumpversion
		same exact /usr/bin/python -c 'import time; print(time.time() > 1e9)'
		echo "# $root: $compared commands give the same, $died of them died before" >&3
	done < <(roots)
	[ "$found" -gt 0 ] || skip "VFIX_LEGACY_DIR has no root filesystem with a bash that runs"
}

@test "real binaries: the time functions and timed waits of old libcs and libpthreads" {
	local root lib found=0 objects=$build/fixtures-objects dir
	while read -r root lib; do
		before=$BATS_TEST_TMPDIR/before after=$BATS_TEST_TMPDIR/after
		rm -rf "$before" "$after"
		mkdir "$before"
		[[ -L $root/lib64/ld-linux-x86-64.so.2 || -e $root/lib64/ld-linux-x86-64.so.2 ]] || continue
		for dir in "$root"/lib "$root"/lib64; do
			[ ! -e "$dir" ] || cp -a "$dir" "$before"
		done
		furnish "$before"
		gcc -nostdlib -pie -Wl,-z,now -Wl,--hash-style=both -Wl,--no-as-needed -Wl,--allow-shlib-undefined \
			-Wl,--dynamic-linker=/lib64/ld-linux-x86-64.so.2 -o "$before/check" \
			"$objects"/programs/oldlibc.o "$objects"/check/{check,vsym,stack,safecall}.o \
			"$before/$lib/libpthread.so.0" "$before/$lib/libc.so.6"
		cp -a "$before" "$after"
		patched
		died=0 compared=0
		same exact /check
		expect "$root: programs compared" "$compared" 1
		found=$((found + 1))
		run_vfix 3 scan --format json "$before"
		expect "$root: died before, as it has live call sites" "$died" \
			"$(jq '[.results[].files[].sites[] | select(.verdict == "live")] | if length > 0 then 1 else 0 end' <<<"$output")"
		echo "# $root: $(tr '\n' ' ' <<<"$out"): died before: $died" >&3
	done < <(libcs)
	[ "$found" -gt 0 ] || skip "VFIX_LEGACY_DIR has no libc.so.6 with its libpthread.so.0"
}

@test "real binaries: static MUSCLE dies before and aligns after" {
	local file found=0
	while read -r file; do
		the_program "$file"
		proteins >"$before/in.fa"
		cp -a "$before" "$after"
		patched
		died=0 compared=0
		same exact "/bin/${file##*/}" -in /in.fa -quiet
		expect "$file: died before" "$died" 1
		expect_match "$file" "$out" '>s4'
		found=$((found + 1))
	done < <(static_programs 'MUSCLE v3')
	[ "$found" -gt 0 ] || skip "VFIX_LEGACY_DIR has no static MUSCLE 3"
}

# MAFFT's programs reach their call sites only in error paths of libc (syslog, a wait with a limit), so an
# alignment works before, and must give the same after.
@test "real binaries: static MAFFT aligns as before" {
	local file found=0
	while read -r file; do
		the_program "$file"
		install -m 755 "$(command -v busybox)" "$before/bin/busybox"
		proteins >"$before/in.fa"
		cp -a "$before" "$after"
		patched
		compared=0
		# Newer versions want a number behind -X, and older ones ignore it.
		same exact /bin/busybox sh -c "cd /tmp && /bin/disttbfast -s 0.0 -W 6 -O -C 0 -b 62 -f -1.53 -Q 100.0 -h 0 -F -X 0.1 </in.fa"
		expect "$file: programs compared" "$compared" 1
		expect_match "$file" "$out" '>s4'
		found=$((found + 1))
	done < <(static_programs 'nthread = ' | grep '/disttbfast$')
	[ "$found" -gt 0 ] || skip "VFIX_LEGACY_DIR has no static MAFFT"
}

# intel_vm ARGUMENT...: run_vm on an Intel processor, which programs of Intel's compiler need.
intel_vm() { run_vm --cpu Haswell,vendor=GenuineIntel --user "$nobody:$nobody" "$@"; }

@test "real binaries: static BLAT dies before and aligns after, on a kernel without the page" {
	requires vm
	local file found=0 dna root=$BATS_TEST_TMPDIR/root native
	dna=$(awk 'BEGIN { for (i = 0; i < 4000; i++) { s = (s * 16807 + 11) % 2147483647; printf "%s", substr("ACGT", 1 + int(s / 1024) % 4, 1) } }')
	while read -r file; do
		rm -rf "$root"
		mkdir -p "$root/before" "$root/after"
		furnish "$root"
		install -m 755 "$file" "$root/before/blat"
		install -m 755 "$file" "$root/after/blat"
		run_vfix patch -i "$root/after"
		printf '>db\n%s\n' "$dna" >"$root/db.fa"
		printf '>q\n%s\n' "${dna:1000:400}" >"$root/q.fa"
		intel_vm --vsyscall emulate --root "$root" -- '/before/blat /db.fa /q.fa stdout' </dev/null
		expect_vm 1 0
		native=$(<"$vm_out/1.stdout")
		expect_match "$file" "$native" 400
		intel_vm --vsyscall none --root "$root" -- '/before/blat /db.fa /q.fa stdout' '/after/blat /db.fa /q.fa stdout' </dev/null
		expect_vm 1 "$status_sigsegv"
		expect_match "kernel log" "$(<"$vm_out/1.kernel")" "$kernel_line"
		expect_vm 2 0
		expect "output after" "$(<"$vm_out/2.stdout")" "$native"
		found=$((found + 1))
	done < <(static_programs 'psLayout version' | grep -i 'blat$')
	[ "$found" -gt 0 ] || skip "VFIX_LEGACY_DIR has no static BLAT"
}
