#!/usr/bin/env bats
# bats file_tags=long
# Random legacy programs (tests/property), made from a seed that is printed: each is patched and
# finds itself in order after, under the oracle and on a kernel without the page, stripped too. One
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
stays() { grep -qx "$1" "$made/left.txt"; }

# each COMMAND...: runs the command with the name of each program at its end; says which
# programs it failed for, and what these are.
each() {
	local name bad=0
	while read -r name; do
		"$@" "$name" || { grep "^$name" "$made/programs.txt" >&2 && bad=1; }
	done < <(cut -f 1 "${list:-$made/programs.txt}")
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
			ends 0 "$made/after/$1" && { stays "$1" || ends 0 "$novsyscall" "$made/after/$1"; }
	}
	each one
}

@test "property: patched again, nothing changes" {
	run_vfix 3 patch -o "$BATS_TEST_TMPDIR/again" "$made/after"
	diff -r "$made/after" "$BATS_TEST_TMPDIR/again"
}

# proved AFTER BEFORE: nothing differs but call sites. Where one stays, the exit status is 3.
proved() {
	"$VFIX" verify --format json "$1" --against "$2" 2>/dev/null | jq -e '.problems == []' >/dev/null
}

@test "property: the patched call sites are all that differs" {
	one() {
		local file
		for file in "$1" "$1.so"; do
			[ ! -e "$made/bin/$file" ] || proved "$made/after/$file" "$made/bin/$file" || return
		done
	}
	each one
}

@test "property: eu-elflint finds nothing new" {
	requires elf_tools
	one() {
		local file
		for file in "$1" "$1.so"; do
			[ ! -e "$made/bin/$file" ] || expect "$file" "$(new_words "$made/bin/$file" "$made/after/$file" eu-elflint --gnu-ld | grep -vx 'No errors')" '' || return
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
		if stays "$1"; then ends 0 "$copy/$1"; else ends 0 "$novsyscall" "$copy/$1"; fi
	}
	for tool in strip eu-strip; do
		copy=$BATS_TEST_TMPDIR/$tool
		cp -a "$made/after" "$copy"
		each one
	done
}

@test "property: on a kernel without the page" {
	requires root vm
	local root=$BATS_TEST_TMPDIR/root n=0 list=$BATS_TEST_TMPDIR/few name
	head -n 60 "$made/programs.txt" >"$list" # what fits into its memory
	mkdir -p "$root/before" "$root/after"
	while read -r name; do
		cp -a "$made/bin/$name"{,.so} "$root/before" 2>/dev/null || [ ! -e "$made/bin/$name.so" ]
		cp -a "$made/after/$name"{,.so} "$root/after" 2>/dev/null || [ ! -e "$made/after/$name.so" ]
	done < <(cut -f 1 "$list")
	copy_libraries "$made/bin" "$root"
	while read -r name; do
		printf '/before/%s\n/after/%s\n' "$name" "$name"
	done < <(cut -f 1 "$list") >"$BATS_TEST_TMPDIR/commands"
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
