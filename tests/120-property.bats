#!/usr/bin/env bats
# bats file_tags=long
# Random legacy programs (tests/property), from a printed seed: each is patched and passes its own checks after,
# under the oracle and on a kernel without the page, also stripped. A program with a call site that vfix leaves
# passes them with the page: no patch may break it. VFIX_SEED=N sets another seed, VFIX_PROGRAMS=N another number
# of programs.
# Variables come from helpers.bash.
# shellcheck disable=SC2154
load helpers

setup_file() {
	local seed=${VFIX_SEED:-2013} count=${VFIX_PROGRAMS:-240}
	export made=$BATS_FILE_TMPDIR/made compared=0
	(cd "$tree" && "${GO:-go}" run ./tests/property -seed "$seed" -count "$count" -out "$made" -vfix "$VFIX" -novsyscall "$novsyscall") \
		>"$BATS_FILE_TMPDIR/said" 2>&1 || compared=$?
	sed "1s/^/# seed $seed: /; 1q" "$BATS_FILE_TMPDIR/said" >&3
}

@test "property: random programs call the page before, and find themselves in order after, stripped too" {
	requires oracle elf_tools
	# A second patch changes nothing, and only the patched call sites differ.
	expect "status: $(<"$BATS_FILE_TMPDIR/said")" "$compared" 0
}

# lint DIRECTORY: the output of eu-elflint for its files, one line each, after the file's name.
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

@test "property: on a kernel without the page" {
	requires root vm
	local root=$BATS_TEST_TMPDIR/root when name status want left files=()
	mkdir -p "$root/before" "$root/after"
	cp /bin/busybox "$root/"
	# One command for all: to start one takes an emulated machine as long as a program. The first 60 fit into its
	# memory.
	while read -r name _; do
		files+=("$name")
		[ ! -e "$made/bin/$name.so" ] || files+=("$name.so")
		printf '/%s/%s >&2; echo "%s %s $?"\n' before "$name" before "$name" after "$name" after "$name"
	done < <(head -n 60 "$made/programs.txt") >"$root/all.sh"
	(cd "$made/bin" && cp -a "${files[@]}" "$root/before")
	(cd "$made/after" && cp -a "${files[@]}" "$root/after")
	copy_libraries "$root/before" "$root"
	run_vm --vsyscall none --root "$root" -- '/busybox sh /all.sh'
	expect_vm 1 0
	left=" $(tr '\n' ' ' <"$made/left.txt")"
	expect 'runs' "$(grep -cE '^(before|after) ' "$vm_out/1.stdout")" "$(wc -l <"$root/all.sh")"
	while read -r when name status; do
		want=0
		[ "$when" = after ] || want=$status_sigsegv
		[[ $when == after && $left == *" $name "* ]] || [ "$status" = "$want" ] ||
			fail "$when: status $status, want $want: $(grep "^$name" "$made/programs.txt")"
	done <"$vm_out/1.stdout"
	grep -qF "$kernel_line" "$vm_out/kernel.log"
}
