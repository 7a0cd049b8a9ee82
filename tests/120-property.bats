#!/usr/bin/env bats
# bats file_tags=long
# Random legacy programs (tests/property), made from a seed that is printed: each is patched and
# finds itself in order after, under the oracle and on a kernel without the page, also stripped. One
# of which vfix says that a call site stays does so where the page is: no patch may break it.
# VFIX_SEED=N tries another seed, VFIX_PROGRAMS=N another number of them.
# Variables come from helpers.bash; each calls the functions that are named one.
# shellcheck disable=SC2154,SC2317
load helpers

setup_file() {
	local seed=${VFIX_SEED:-2013} count=${VFIX_PROGRAMS:-240}
	echo "# seed $seed, $count programs" >&3
	export made=$BATS_FILE_TMPDIR/made
	(cd "$tree" && "${GO:-go}" run ./tests/property -seed "$seed" -count "$count" -out "$made") >&2
	# 3: in some a call site stays
	run -3 --separate-stderr "$VFIX" patch --format json -o "$made/after" "$made/bin"
	jq -r '.results[].files[] | select(any(.sites[]; .form == "left" and (.verdict | IN("live", "dormant-call", "unknown")))) |
		.path' <<<"$output" | sed 's/\.so$//; s/.*\///' | sort -u >"$made/left.txt"
	echo "# $(wc -l <"$made/left.txt") of them keep a call site" >&3
}

# stays PROGRAM: vfix said that a call site of it stays.
stays() { [[ $left == *" $1 "* ]]; }

# each COMMAND...: runs the command with the name of each program at its end; says which
# programs it failed for, and what these are. bats' trap takes longer than most of what is run.
each() (
	trap - DEBUG
	bad=0 left=" $(tr '\n' ' ' <"$made/left.txt")"
	while IFS=$'\t' read -r name what; do
		"$@" "$name" || { echo "$name: $what" >&2 && bad=1; }
	done <"${list:-$made/programs.txt}"
	return $bad
)

# ends STATUS COMMAND...: the command ends so, and prints the program's line if it is 0.
ends() {
	local want=$1 got=0 said
	shift
	said=$("$@" 2>&1) || got=$?
	expect "status of $*: $said" "$got" "$want" || return
	[ "$want" != 0 ] || expect_match "$*" "$said" ' shapes'
}

@test "property: random programs call the page before, and find themselves in order after" {
	requires oracle
	one() {
		ends 0 "$made/bin/$1" && ends "$status_sigsys" "$novsyscall" "$made/bin/$1" &&
			ends 0 "$made/after/$1" && { stays "$1" || ends 0 "$novsyscall" "$made/after/$1"; }
	}
	each one
}

@test "property: patched again, nothing changes" {
	run_vfix 3 patch -o "$BATS_TEST_TMPDIR/again" "$made/after"
	diff -r "$made/after" "$BATS_TEST_TMPDIR/again"
}

@test "property: the patched call sites are all that differs" {
	# Where a call site stays, the exit status is 3.
	run -3 --separate-stderr "$VFIX" verify --format json "$made/after" --against "$made/bin"
	expect problems "$(jq -c '.problems + .added' <<<"$output")" '[]'
	expect 'files examined' "$(jq .result.summary.elf_files <<<"$output")" "$(find "$made/bin" -type f | wc -l)"
	expect 'files that differ' "$(jq .compared <<<"$output")" "$(diff -rq "$made/bin" "$made/after" | wc -l)"
}

# lint FOLDER: what eu-elflint says of its files, a line each, behind the file's name.
lint() {
	(cd "$1" && eu-elflint --gnu-ld ./*) 2>&1 | awk '/^\.\/.*:$/ { file = $0; next } $0 != "No errors" { print file, $0 }' | sort
}

@test "property: eu-elflint finds nothing new" {
	requires elf_tools
	lint "$made/bin" >"$BATS_TEST_TMPDIR/before"
	[ -s "$BATS_TEST_TMPDIR/before" ] || fail 'control: eu-elflint finds nothing at all'
	lint "$made/after" >"$BATS_TEST_TMPDIR/after"
	expect 'new words' "$(comm -13 "$BATS_TEST_TMPDIR/before" "$BATS_TEST_TMPDIR/after")" ''
}

@test "property: patched programs survive strip and eu-strip" {
	requires oracle elf_tools
	local tool copy files
	one() { if stays "$1"; then ends 0 "$copy/$1"; else ends 0 "$novsyscall" "$copy/$1"; fi; }
	# Without section headers there is nothing to strip.
	files=$(cd "$made/after" && readelf -h ./* | awk '/^File: / { file = $2 } /Number of section headers/ && $NF != 0 { print file }')
	for tool in strip eu-strip; do
		copy=$BATS_TEST_TMPDIR/$tool
		cp -a "$made/after" "$copy"
		(cd "$copy" && xargs "$tool" <<<"$files")
		each one
	done
}

@test "property: on a kernel without the page" {
	requires root vm
	local root=$BATS_TEST_TMPDIR/root n=0 list=$BATS_TEST_TMPDIR/few name files=()
	head -n 60 "$made/programs.txt" >"$list" # what fits into its memory
	mkdir -p "$root/before" "$root/after"
	while read -r name _; do
		files+=("$name")
		[ ! -e "$made/bin/$name.so" ] || files+=("$name.so")
		printf '/before/%s\n/after/%s\n' "$name" "$name"
	done <"$list" >"$BATS_TEST_TMPDIR/commands"
	(cd "$made/bin" && cp -a "${files[@]}" "$root/before")
	(cd "$made/after" && cp -a "${files[@]}" "$root/after")
	copy_libraries "$root/before" "$root"
	run_vm --vsyscall none --root "$root" --commands "$BATS_TEST_TMPDIR/commands"
	one() {
		echo "$1"
		expect_vm $((n += 1)) "$status_sigsegv" || return
		n=$((n + 1))
		stays "$1" || expect_vm "$n" 0 || return
	}
	each one
	grep -qF "$kernel_line" "$vm_out/kernel.log"
}
