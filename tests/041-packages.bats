#!/usr/bin/env bats
# References to the page in current software from Debian's packages, some of them unpacked and not installed:
# OpenJDK calls getcpu there, with instructions between mov and call; dietlibc uses the page as the fallback base
# of a vDSO image; valgrind and rr only have its address. Nothing else calls it.
# Variables come from helpers.bash.
# shellcheck disable=SC2154
load helpers

packages=$build/packages

# unpack PACKAGE...: leaves the files of each in $packages/PACKAGE. Existing files remain.
unpack() {
	local name missing=() work
	for name; do [ -d "$packages/$name" ] || missing+=("$name"); done
	[ ${#missing[@]} != 0 ] || return 0
	work=$(mktemp -d "$packages/work.XXXXXX")
	chmod 755 "$work"
	(cd "$work" && apt-get download -qq -o APT::Sandbox::User=root "${missing[@]}")
	for name in "${missing[@]}"; do
		dpkg -x "$work/${name}"_*.deb "$work/$name"
		mv "$work/$name" "$packages/"
	done
	rm -rf "$work"
}

setup_file() {
	mkdir -p "$packages"
	unpack valgrind rr dietlibc-dev
}

# sites FILTER: the output of jq for every site of the last scan, one per line.
sites() { jq -r ".results[].files[].sites[] | $1" <<<"$output"; }

# digest DIRECTORY: of its files' names and contents.
digest() { (cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum); }

@test "packages: OpenJDK's getcpu is patched in the lea form, and java runs" {
	local installed=/usr/lib/jvm/java-17-openjdk-amd64 jdk=$BATS_TEST_TMPDIR/jdk
	run_vfix 3 scan --format json "dir:$installed"
	expect "sites" "$(sites '[.function, .verdict, .form] | join(" ")')" "getcpu live lea"
	cp -a "$installed" "$jdk"
	run_vfix patch -i "$jdk"
	run_vfix verify "$jdk/lib/server/libjvm.so" --against "$installed/lib/server/libjvm.so"
	run "$novsyscall" "$jdk/bin/java" -Xint -Xshare:off -XX:-UsePerfData -version
	expect "exit status of java" "$status" 0
	expect_match "what java says" "$output" 'OpenJDK 64-Bit Server VM'
}

@test "packages: dietlibc's image base is dormant, and stays" {
	local copy=$BATS_TEST_TMPDIR/diet before
	run_vfix scan --format json "dir:$packages/dietlibc-dev/usr/lib/x86_64-linux-gnu/diet/bin"
	expect "verdicts" "$(sites '[.verdict, .form] | join(" ")' | sort -u)" "dormant left"
	cp -a "$packages/dietlibc-dev" "$copy"
	before=$(digest "$copy")
	run_vfix patch -i "$copy"
	expect "its files" "$(digest "$copy")" "$before"
}

@test "packages: valgrind and rr compare with the address and stay" {
	local name copy before
	for name in valgrind rr; do
		run_vfix 4 scan --format json "dir:$packages/$name" # its libraries are in other packages
		expect "verdicts of $name" "$(sites '[.verdict, .form] | join(" ")' | sort -u)" "benign left"
		copy=$BATS_TEST_TMPDIR/$name
		cp -a "$packages/$name" "$copy"
		before=$(digest "$copy")
		run_vfix patch -i "$copy"
		expect "the files of $name" "$(digest "$copy")" "$before"
	done
}

@test "packages: of all that is installed, OpenJDK alone calls the page" {
	mkdir "$BATS_TEST_TMPDIR/control"
	cp "$build/fixtures/pie" "$BATS_TEST_TMPDIR/control"
	# Its status is not 0: files of other architectures are not examined.
	run ! --separate-stderr "$VFIX" scan -q --format json /usr/bin /usr/sbin /usr/lib /usr/libexec "$BATS_TEST_TMPDIR/control"
	expect "files with a site that is live or unknown, except libjvm.so" \
		"$(jq -r '.results[].files[] | select(any(.sites[]; .verdict == "live" or .verdict == "unknown")) | .path' <<<"$output" | grep -v '/libjvm\.so$')" pie
	[ "$(jq '[.results[].summary.elf_files] | add' <<<"$output")" -ge 1000 ]
}
