#!/usr/bin/env bats
# References to the page in software of today, from Debian's packages, unpacked and not
# installed: OpenJDK calls getcpu there, with instructions between mov and call; dietlibc has
# the page as the base of a vDSO image to fall back on; valgrind and rr only know its address.
# Variables come from helpers.bash.
# shellcheck disable=SC2154
load helpers

packages=$build/packages

# unpack PACKAGE: leaves its files in $packages/PACKAGE. Files that are there stay.
unpack() {
	local dir=$packages/$1 work
	[ ! -d "$dir" ] || return 0
	work=$(mktemp -d "$packages/work.XXXXXX")
	chmod 755 "$work"
	(cd "$work" && apt-get download -qq -o APT::Sandbox::User=root "$1")
	dpkg -x "$work"/*.deb "$work/root"
	mv "$work/root" "$dir"
	rm -rf "$work"
}

setup_file() {
	mkdir -p "$packages"
	local name
	for name in valgrind rr dietlibc-dev openjdk-17-jre-headless; do unpack "$name"; done
}

# sites FILTER: what jq makes of every site of the last scan, one a line.
sites() { jq -r ".results[].files[].sites[] | $1" <<<"$output"; }

# digest FOLDER: of its files' names and contents.
digest() { (cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum); }

@test "packages: OpenJDK's getcpu is patched in the lea form, and java runs" {
	local jdk=$BATS_TEST_TMPDIR/jdk
	run_vfix 3 scan --format json "dir:$packages/openjdk-17-jre-headless"
	expect "sites" "$(sites '[.function, .verdict, .form] | join(" ")')" "getcpu live lea"
	cp -a "$packages/openjdk-17-jre-headless/usr/lib/jvm/java-17-openjdk-amd64" "$jdk"
	run_vfix patch -i "$jdk"
	run_vfix verify "$jdk/lib/server/libjvm.so" --against "$packages/openjdk-17-jre-headless/usr/lib/jvm/java-17-openjdk-amd64/lib/server/libjvm.so"
	# Its configuration lies in /etc, which is not unpacked there.
	find "$jdk" -xtype l -delete
	mkdir -p "$jdk/lib" "$jdk/conf/security"
	cp "$packages"/openjdk-17-jre-headless/etc/java-17-openjdk/jvm-amd64.cfg "$jdk/lib/jvm.cfg"
	[ ! -d "$packages/openjdk-17-jre-headless/etc/java-17-openjdk" ] ||
		cp -a "$packages"/openjdk-17-jre-headless/etc/java-17-openjdk/. "$jdk/conf/"
	run "$novsyscall" "$jdk/bin/java" -Xint -Xshare:off -XX:-UsePerfData -version
	expect "exit status of java" "$status" 0
	expect_match "what java says" "$output" 'OpenJDK 64-Bit Server VM'
}

@test "packages: dietlibc's image base is dormant in programs, unknown in the library's objects, and stays" {
	local copy=$BATS_TEST_TMPDIR/diet before
	run_vfix scan --format json "dir:$packages/dietlibc-dev/usr/lib/x86_64-linux-gnu/diet/bin"
	expect "verdicts" "$(sites '[.verdict, .form] | join(" ")' | sort -u)" "dormant left"
	run_vfix 3 scan --format json "dir:$packages/dietlibc-dev/usr/lib/x86_64-linux-gnu/diet/lib-x86_64"
	expect "verdicts in libc.a" "$(sites '[.verdict, .form] | join(" ")' | sort -u)" "unknown left"
	cp -a "$packages/dietlibc-dev" "$copy"
	before=$(digest "$copy")
	run_vfix 3 patch -i "$copy"
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
