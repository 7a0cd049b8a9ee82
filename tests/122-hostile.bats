#!/usr/bin/env bats
# bats file_tags=long
# Files and images with deliberate errors (tests/hostile), one named defect each. The expected result of each is in
# tests/hostile/expected.txt. The kernel limits memory, processor time, sizes of files and open files, instead of a
# stopwatch.
# Variables come from helpers.bash.
# shellcheck disable=SC2154
load helpers

mib=$((1 << 20))

setup_file() {
	export made=$BATS_FILE_TMPDIR/made
	(cd "$tree" && "${GO:-go}" run ./tests/hostile -program "$build/fixtures/static-2m" \
		-library "$build/hostile/libboth.so" -out "$made") >&2
}

# bounded COMMAND...: 300 MiB of writable memory, a minute of processor time, files of at most 32 MiB, 200 of them
# open at once. The bombs of the corpus need more.
bounded() {
	prlimit --data=$((300 * mib)) --cpu=60 --fsize=$((32 * mib)) --nofile=200 --core=0 -- "$@"
}

# expected KIND: the name, status and words of each, separated by tabs.
expected() { sed -n "s/^$1\t//p" "$tree/tests/hostile/expected.txt"; }

# ended STATUS WANT: with the expected status, an empty temporary directory, and no panic.
ended() {
	[ "$1" = "$2" ] || fail "exit status: got $1, want $2; stderr: $(head -c 2000 "$work/stderr")" || return
	expect "temporary files" "$(ls -A "$work/tmp")" '' || return
	! grep -E '^(panic|fatal error|goroutine )' "$work/stderr" || return
	[ "$1" != 1 ] || expect_match stderr "$(<"$work/stderr")" 'vfix: error: '
}

# fresh: an empty directory for the next one, in $work.
fresh() {
	work=$BATS_TEST_TMPDIR/work
	rm -rf "$work"
	mkdir -p "$work/tmp" "$work/out"
}

# vfix_bounded ARGUMENT...: its exit status in $got.
vfix_bounded() {
	got=0
	TMPDIR=$work/tmp bounded "$VFIX" "$@" >"$work/stdout" 2>"$work/stderr" </dev/null || got=$?
}

@test "hostile: the bounds bite" {
	run bounded python3 -c 'b = bytearray(400 << 20)'
	expect_match memory "$output" MemoryError
	run bounded sh -c "head -c $((64 * mib)) /dev/zero >'$BATS_TEST_TMPDIR/big'"
	[ "$status" -ne 0 ]
	run prlimit --cpu=1 --core=0 -- sh -c 'while :; do :; done'
	[ "$status" -gt 128 ]
}

@test "hostile: every file of the corpus is expected, and no other" {
	expect files "$(LC_ALL=C ls "$made/elf")" "$(expected elf | cut -f 1 | LC_ALL=C sort)"
	expect images "$(LC_ALL=C ls "$made/image")" "$(expected image | cut -f 1 | LC_ALL=C sort)"
}

@test "hostile: ELF files are passed over, or patched as far as can be proved" {
	local name want change before bad=0
	while IFS=$'\t' read -r name want change; do
		fresh
		cp -p "$made/elf/$name" "$work/out/"
		vfix_bounded patch -i "$work/out/$name"
		ended "$got" "$want" || { echo "# $name" && bad=1 && continue; }
		before=same
		cmp -s "$made/elf/$name" "$work/out/$name" || before=changed
		expect "$name" "$before" "$change" || bad=1
		expect "$name: files beside it" "$(ls -A "$work/out")" "$name" || bad=1
		[ "$change" = changed ] || continue
		vfix_bounded verify "$work/out/$name" --against "$made/elf/$name"
		ended "$got" "$want" || { echo "# verify $name" && bad=1; }
		cp "$work/out/$name" "$work/once"
		vfix_bounded patch -i "$work/out/$name"
		cmp "$work/once" "$work/out/$name" || bad=1
	done <<<"$(expected elf)"
	[ $bad = 0 ]
}

@test "hostile: an image gives a whole result, or an error that names what is wrong and nothing else" {
	local name want words source digest bad=0
	digest=$(find "$made/image" -type f -size -1000k -print0 | sort -z | xargs -0 sha256sum | sha256sum)
	while IFS=$'\t' read -r name want words; do
		fresh
		source=oci:$made/image/$name
		[[ $name != *.tar ]] || source=docker-archive:$made/image/$name
		vfix_bounded rebuild "$source" -o "oci:$work/out/result"
		ended "$got" "$want" || { echo "# $name" && bad=1 && continue; }
		if [ "$want" = 1 ]; then
			expect_match "$name" "$(cat "$work/stderr")" "$words" || bad=1
			expect "$name: results" "$(ls -A "$work/out")" '' || bad=1
		else
			vfix_bounded verify "oci:$work/out/result" --against "$source"
			[[ $words == "verify "* ]] || words="verify 0"
			ended "$got" "${words#verify }" || { echo "# verify $name" && bad=1; }
		fi
	done <<<"$(expected image)"
	[ $bad = 0 ]
	[ ! -e /etc/vfix-hostile ]
	expect "the corpus" "$(find "$made/image" -type f -size -1000k -print0 | sort -z | xargs -0 sha256sum | sha256sum)" "$digest"
}

@test "scan: what a small layer unpacks to is bounded: in all, with a line, and with an option" {
	requires root
	local i
	fresh
	mkdir "$work/root"
	# Twenty libraries with call sites, of 16 MiB that compress well and are not holes: 320 MiB.
	for i in {1..20}; do
		cp "$build/fixtures/libstubs.so" "$work/root/lib$i.so"
		head -c $((16 * mib)) /dev/zero | tr '\0' '\1' >>"$work/root/lib$i.so"
	done
	tar -C "$work/root" -czf "$work/x.tar.gz" .
	rm -r "$work/root"
	expect 'bytes of the layer, in MiB' "$(($(stat -c %s "$work/x.tar.gz") / mib))" 0
	mount -t tmpfs -o size=200M tmpfs "$work/tmp"
	TMPDIR=$work/tmp run_vfix 1 scan --max-temp 100M "$work/x.tar.gz"
	umount "$work/tmp"
	expect_match stderr "$stderr" 'temporary files: more than 104857600 bytes'
	expect_match hint "$stderr" --max-temp
	# The control: there is space for all of it.
	TMPDIR=$work/tmp run_vfix 3 scan --max-temp 1G "$work/x.tar.gz"
	run_vfix 2 scan --max-temp much "$work/x.tar.gz"
	expect_match stderr "$stderr" '--max-temp much'
}
