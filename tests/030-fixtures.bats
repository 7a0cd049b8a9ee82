#!/usr/bin/env bats
# The fixtures: each call site gets the verdict and the form that its source declares, and each program passes its
# own checks after the patch, on kernels with and without the page and the vDSO. tests/fixtures/README.md describes
# them.
# Variables come from helpers.bash.
# shellcheck disable=SC2154
load helpers

fixtures=$BATS_TEST_DIRNAME/build/fixtures

# setup_file patches all of them once, into $BATS_FILE_TMPDIR/after.
setup_file() {
	[ -e "$fixtures/manifest.txt" ] || { echo "make fixtures has not been run" >&2 && return 1; }
	# 3: some of them are findings
	run -3 "$VFIX" patch -o "$BATS_FILE_TMPDIR/after" "$fixtures"
}

# programs KIND...: command lines in programs.txt of one of the kinds.
programs() {
	awk -F '\t' -v kinds=" $* " '!/^#/ && index(kinds, " " $2 " ") { print $1 }' "$fixtures/programs.txt"
}

# of_page KIND: the exit statuses before and after on a kernel without the page, on which a call to it ends with
# $died.
of_page() {
	case $1 in
	runs) echo "$died 0" ;;
	dies) echo "$died $died" ;;
	fine) echo "0 0" ;;
	wrong) echo "1 1" ;;
	deep) echo "$status_sigsegv $status_sigsegv" ;;
	*) fail "programs.txt: unknown kind '$1'" ;;
	esac
}

@test "fixtures: scan gives each call site the verdict and form of the manifest" {
	run_vfix 3 scan --format json "$fixtures"
	jq -r '.results[].files[] | .path as $p | .sites[] |
		[$p, .vaddr, .function, .kind, .verdict, .form, if .symbol == "" then "-" else .symbol end] | @tsv' <<<"$output" |
		sort >"$BATS_TEST_TMPDIR/got"
	diff -u <(sort "$fixtures/manifest.txt") "$BATS_TEST_TMPDIR/got"
}

@test "fixtures: the checks can fail" {
	run "$fixtures/broken"
	expect "status of broken" "$status" 1
	local name
	for name in result outparameter microseconds zone cpu rbx direction; do
		expect_match "what broken says" "$output" "broken_$name, small stack: "
		expect_match "what broken says" "$output" "broken_$name, stack misaligned by 8: "
	done
	run "$fixtures/deep"
	expect "status of deep" "$status" "$status_sigsegv"
}

@test "fixtures: where the page is there, patched ones print the same" {
	requires oracle
	local command want
	while read -r command; do
		# shellcheck disable=SC2086 # words of a command line
		want=$("$fixtures/"$command)
		# shellcheck disable=SC2086
		expect "$command" "$("$BATS_FILE_TMPDIR/after/"$command)" "$want"
	done <<<"$(programs runs dies fine)"
}

@test "fixtures: no patched program calls the page, and every other one does" {
	requires oracle
	local died=$status_sigsys kind command want
	for kind in runs dies fine wrong deep; do
		while read -r command; do
			want=$(of_page $kind)
			# shellcheck disable=SC2086
			run "$novsyscall" "$fixtures/"$command
			expect "$command before: $output" "$status" "${want% *}"
			# shellcheck disable=SC2086
			run "$novsyscall" "$BATS_FILE_TMPDIR/after/"$command
			expect "$command after: $output" "$status" "${want#* }"
		done <<<"$(programs $kind)"
	done
}

@test "fixtures: not one trap is left, of hundreds" {
	requires oracle
	local name
	for name in static-2m pie use-stubs; do
		run "$build/traps" "$fixtures/$name"
		[[ $output =~ traps:\ ([0-9]+) ]] && [ "${BASH_REMATCH[1]}" -gt 100 ] || fail "$name before: $output"
		run "$build/traps" "$BATS_FILE_TMPDIR/after/$name"
		expect_match "$name after" "$output" 'traps: 0'
		expect "$name after" "$status" 0
	done
}

# vm_root: a root filesystem with the fixtures in /before and /after, and the libraries of this machine that they
# need.
vm_root() {
	local root=$BATS_FILE_TMPDIR/root
	if [ ! -e "$root" ]; then
		mkdir -p "$root.tmp"
		cp -a "$fixtures" "$root.tmp/before"
		cp -a "$BATS_FILE_TMPDIR/after" "$root.tmp/after"
		copy_libraries "$fixtures" "$root.tmp"
		mv "$root.tmp" "$root"
	fi
	echo "$root"
}

# on_kernel MODE WANT APPEND...: runs all of them before and after, and expects the results of of_page.
on_kernel() {
	local mode=$1 died=$2 kind command n=0 want list=$BATS_TEST_TMPDIR/commands
	shift 2
	for kind in runs dies fine wrong deep; do
		while read -r command; do
			printf '/before/%s\n/after/%s\n' "$command" "$command"
		done <<<"$(programs $kind)"
	done >"$list"
	run_vm --vsyscall "$mode" --root "$(vm_root)" --commands "$list" "$@"
	for kind in runs dies fine wrong deep; do
		while read -r command; do
			want=$(of_page $kind)
			echo "$command"
			expect_vm $((n += 1)) "${want% *}"
			expect_vm $((n += 1)) "${want#* }"
		done <<<"$(programs $kind)"
	done
}

@test "fixtures: on a kernel without the page" {
	requires root vm
	on_kernel none "$status_sigsegv"
	grep -qF "$kernel_line" "$vm_out/kernel.log"
}

@test "fixtures: on a kernel without the page and without a vDSO" {
	requires root vm
	on_kernel none "$status_sigsegv" --append vdso=0
}

@test "fixtures: on a kernel with the page and without a vDSO" {
	requires root vm
	on_kernel emulate 0 --append vdso=0
}

# warnings FILE: the warnings of readelf for everything that it can print.
warnings() { { readelf -aW "$1" >/dev/null; } 2>&1; }

@test "fixtures: eu-elflint, readelf and ldconfig find nothing new in patched files" {
	requires elf_tools
	local file
	for file in "$fixtures"/*; do
		file=${file##*/}
		expect "eu-elflint: $file" "$(new_words "$fixtures/$file" "$BATS_FILE_TMPDIR/after/$file" eu-elflint --gnu-ld)" ''
		expect "readelf: $file" "$(new_words "$fixtures/$file" "$BATS_FILE_TMPDIR/after/$file" warnings)" ''
	done
	# The positive control: a truncated file has warnings.
	head -c 9000 "$fixtures/static-2m" >"$BATS_TEST_TMPDIR/short"
	[ -n "$(new_words "$fixtures/static-2m" "$BATS_TEST_TMPDIR/short" eu-elflint --gnu-ld)" ]
	run ldconfig -N -v -n "$BATS_FILE_TMPDIR/after"
	expect_match ldconfig "$output" 'libstubs-prelink.so -> libstubs-prelink.so'
}

@test "fixtures: patched files survive strip and eu-strip, and LD_BIND_NOW" {
	requires oracle elf_tools
	local tool copy file command
	for tool in true strip eu-strip; do
		copy=$BATS_TEST_TMPDIR/$tool
		cp -a "$BATS_FILE_TMPDIR/after" "$copy"
		for file in "$copy"/*; do
			case $file in
			# Without section headers, strip has no effect. It removes the overlay, patched or not.
			*-noshdr* | *.txt | */overlay) ;;
			*) "$tool" "$file" ;;
			esac
		done
		while read -r command; do
			# shellcheck disable=SC2086
			run env LD_BIND_NOW=1 "$novsyscall" "$copy/"$command
			expect "$command after $tool: $output" "$status" 0
		done <<<"$(programs runs)"
	done
	# The positive control: strip has an effect.
	[ "$(stat -c %s "$copy/static-2m")" -lt "$(stat -c %s "$BATS_FILE_TMPDIR/after/static-2m")" ]
}

@test "fixtures: gdb walks the stack from inside a patched function" {
	requires elf_tools
	run gdb -q -nx -batch -ex 'set confirm off' -ex 'break __cxa_throw' -ex run -ex bt "$BATS_FILE_TMPDIR/after/throw"
	echo "$output"
	expect_match backtrace "$output" 'in fixture_callback'
	expect_match backtrace "$output" 'in main'
}
