#!/usr/bin/env bats
# bats file_tags=long
# The patched call sites in an emulator without any code of vfix (tests/emulate): each runs before and after, from
# every way into its function, with random registers, flags, red zones and stacks, and with exceptions; only
# allowed differences may occur. Patches that are deliberately wrong must be detected.
# Variables come from helpers.bash.
# shellcheck disable=SC2154
load helpers

fixtures=$BATS_TEST_DIRNAME/build/fixtures

setup_file() {
	[ -e "$fixtures/manifest.txt" ] || { echo "make fixtures has not been run" >&2 && return 1; }
	get_unicorn
	# 3: some of them are findings
	run -3 "$VFIX" patch -o "$BATS_FILE_TMPDIR/after" "$fixtures"
}

@test "emulate: the fixtures do after what they did before" {
	run emulated -n 4 "$fixtures" "$BATS_FILE_TMPDIR/after"
	echo "$output"
	expect status "$status" 0
	[[ $output =~ \ ([0-9]+)\ call\ sites ]] && [ "${BASH_REMATCH[1]}" -gt 400 ]
}

@test "emulate: each kind of wrong patch is noticed" {
	local name words n=0 file=libstubs.so
	mkdir "$BATS_TEST_TMPDIR/astray"
	"$venv/bin/python" "$tree/tests/emulate/astray.py" "$fixtures/$file" "$BATS_FILE_TMPDIR/after/$file" "$BATS_TEST_TMPDIR/astray" >"$BATS_TEST_TMPDIR/list"
	while IFS=$'\t' read -r name words; do
		run emulated -n 6 -m 1 --first 1 "$fixtures/$file" "$BATS_TEST_TMPDIR/astray/$name"
		expect "$name: $output" "$status" 1
		expect_match "$name" "${lines[0]}" "$words"
		n=$((n + 1))
	done <"$BATS_TEST_TMPDIR/list"
	[ "$n" -ge 18 ]
}
