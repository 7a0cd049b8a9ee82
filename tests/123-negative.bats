#!/usr/bin/env bats
# bats file_tags=long
# A few hundred packages of a modern Debian, unpacked: vfix changes none of them, but finds the affected files that
# the test adds.
# Variables come from helpers.bash.
# shellcheck disable=SC2154
load helpers

corpus=$build/negative

# digests DIRECTORY: of every regular file.
digests() { (cd "$1" && find . -type f -print0 | sort -z | xargs -0 -r sha256sum); }

@test "negative: of a few hundred packages no file is changed" {
	requires root
	"$tree/tests/negative/unpack" "$corpus"
	local copy=$BATS_TEST_TMPDIR/copy packages files
	mkdir "$copy"
	cp -a --reflink=auto "$corpus/." "$copy/"
	# The positive control: one program with call sites, among all the others.
	cp "$build/fixtures/pie" "$copy/bash/"
	# One with a hazard, which is not changed.
	{ cat /bin/busybox && printf '\0OpenSSL 1.0.2k-fips  26 Jan 2017\0\x0f\x3a\xcc'; } >"$copy/bash/libcrypto.so.10"
	packages=$(find "$corpus" -mindepth 1 -maxdepth 1 -type d ! -name '.*' | wc -l)
	digests "$copy" >"$BATS_TEST_TMPDIR/before"
	run -0 --separate-stderr "$VFIX" patch --format json -i "$copy"
	files=$(jq '.results[0].summary.elf_files' <<<"$output")
	digests "$copy" >"$BATS_TEST_TMPDIR/after"
	echo "# $packages packages, $files ELF files examined" >&3
	[ "$packages" -ge 300 ]
	[ "$files" -ge 1000 ]
	expect "changed files" "$(diff "$BATS_TEST_TMPDIR/before" "$BATS_TEST_TMPDIR/after" | sed -n 's/^> [0-9a-f]*  //p')" ./bash/pie
	# Unpatched findings: references that are proved harmless, and none that is unknown.
	expect "verdicts" "$(jq -r '.results[].files[] | select(.path | endswith("/pie") | not) | .sites[].verdict' <<<"$output" | grep -vxE 'benign|dormant' | sort | uniq -c)" ''
	expect "hazards" "$(jq -r '.results[].hazards[] | "\(.kind) \(.path)"' <<<"$output")" "openssl-sha $copy/bash/libcrypto.so.10"
}
