#!/usr/bin/env bats
# bats file_tags=long
# Small C and C++ programs, each with one difficulty (tests/fixtures/lone): exceptions, hot and cold parts, tables,
# threads, signals; by two compilers. Each prints "ok" before and after, also stripped before or after, and no longer
# calls the page if vfix leaves nothing.
# Variables come from helpers.bash.
# shellcheck disable=SC2154
load helpers

lone=$BATS_TEST_DIRNAME/fixtures/lone

setup_file() { get_unicorn; }

@test "lone: programs with one difficulty each are right, and call the page no longer" {
	requires oracle compilers
	"$lone/try" -v "$VFIX" -o "$novsyscall" -d "$BATS_FILE_TMPDIR/made"
}

@test "lone: the emulator finds no difference in them" {
	requires oracle compilers
	run emulated -n 4 "$BATS_FILE_TMPDIR/made/bin" "$BATS_FILE_TMPDIR/made/after"
	echo "$output"
	expect status "$status" 0
	run emulated -n 4 "$BATS_FILE_TMPDIR/made/bare" "$BATS_FILE_TMPDIR/made/bare-after"
	echo "$output"
	expect status "$status" 0
}

@test "lone: what is wrong is noticed" {
	requires oracle
	mkdir "$BATS_TEST_TMPDIR/sources"
	# One crashes before; one does not call the page; one calls it by an address that cannot be found.
	printf '/* build: gcc -O2 */\n#include "lone.h"\nint main(void) { CHECK(RECENT(PAGE_TIME(0) == 0)); OK(); }\n' >"$BATS_TEST_TMPDIR/sources/dies.c"
	printf '/* build: gcc -O2 */\n#include "lone.h"\nint main(void) { OK(); }\n' >"$BATS_TEST_TMPDIR/sources/never.c"
	printf '/* build: gcc -O2 */\n#include "lone.h"\nint main(void) { long at = -0x9ffbff; HIDE(at); at--; CHECK(RECENT(((time_f)at)(0))); OK(); }\n' >"$BATS_TEST_TMPDIR/sources/hidden.c"
	run "$lone/try" -v "$VFIX" -o "$novsyscall" -s "$BATS_TEST_TMPDIR/sources" -d "$BATS_TEST_TMPDIR/made"
	echo "$output"
	expect status "$status" 1
	expect_match 'what try says' "$output" 'dies.0 (gcc -O2): before'
	expect_match 'what try says' "$output" 'never.0 (gcc -O2): before, oracle'
	expect_match 'what try says' "$output" 'hidden.0 (gcc -O2): after, oracle'
}
