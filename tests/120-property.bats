#!/usr/bin/env bats
# Random legacy programs (tests/property), made from a seed that is printed: each is patched and
# finds itself in order after, under the oracle and on a kernel without the page, stripped too.
# VFIX_SEED=N tries another seed, VFIX_PROGRAMS=N more of them.
# Variables come from helpers.bash; each calls the functions that are named one.
# shellcheck disable=SC2154,SC2317
load helpers

setup_file() {
	local seed=${VFIX_SEED:-2013} count=${VFIX_PROGRAMS:-60}
	echo "# seed $seed, $count programs" >&3
	export made=$BATS_FILE_TMPDIR/made
	(cd "$tree" && "${GO:-go}" run ./tests/property -seed "$seed" -count "$count" -out "$made") >&2
	run -0 "$VFIX" patch -o "$made/after" "$made/bin"
	echo "$output"
}

# each COMMAND...: runs the command with the name of each program at its end; says which
# programs it failed for, and what these are.
each() {
	local name bad=0
	while read -r name; do
		"$@" "$name" || { grep "^$name" "$made/programs.txt" >&2 && bad=1; }
	done < <(cut -f 1 "$made/programs.txt")
	return $bad
}

# ends STATUS COMMAND...: the command ends so, and prints the program's line where it is 0.
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
			ends 0 "$made/after/$1" && ends 0 "$novsyscall" "$made/after/$1"
	}
	each one
}

@test "property: patched again, nothing changes" {
	run_vfix patch -o "$BATS_TEST_TMPDIR/again" "$made/after"
	diff -r "$made/after" "$BATS_TEST_TMPDIR/again"
}

@test "property: the patched call sites are all that differs" {
	one() {
		local file
		for file in "$1" "$1.so"; do
			[ ! -e "$made/bin/$file" ] || "$VFIX" verify "$made/after/$file" --against "$made/bin/$file" >/dev/null || return
		done
	}
	each one
}

@test "property: eu-elflint finds nothing new" {
	requires elf_tools
	one() {
		local file
		for file in "$1" "$1.so"; do
			[ ! -e "$made/bin/$file" ] || expect "$file" "$(new_words "$made/bin/$file" "$made/after/$file" eu-elflint --gnu-ld)" '' || return
		done
	}
	each one
}

@test "property: patched programs survive strip and eu-strip" {
	requires oracle elf_tools
	local tool copy
	one() {
		local file
		for file in "$copy/$1" "$copy/$1.so"; do
			# Without section headers there is nothing to strip.
			[ ! -e "$file" ] || [ "$(readelf -h "$file" | awk '/Number of section headers/ { print $NF }')" = 0 ] || "$tool" "$file" || return
		done
		ends 0 "$novsyscall" "$copy/$1"
	}
	for tool in strip eu-strip; do
		copy=$BATS_TEST_TMPDIR/$tool
		cp -a "$made/after" "$copy"
		each one
	done
}

@test "property: on a kernel without the page" {
	requires root vm
	local root=$BATS_TEST_TMPDIR/root n=0
	mkdir -p "$root"
	cp -a "$made/bin" "$root/before"
	cp -a "$made/after" "$root/after"
	copy_libraries "$made/bin" "$root"
	while read -r name; do
		printf '/before/%s\n/after/%s\n' "$name" "$name"
	done < <(cut -f 1 "$made/programs.txt") >"$BATS_TEST_TMPDIR/commands"
	run_vm --vsyscall none --root "$root" --commands "$BATS_TEST_TMPDIR/commands"
	one() {
		echo "$1"
		expect_vm $((n += 1)) "$status_sigsegv" && expect_vm $((n += 1)) 0 || return
	}
	each one
	grep -qF "$kernel_line" "$vm_out/kernel.log"
}
