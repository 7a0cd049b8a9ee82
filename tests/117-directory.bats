#!/usr/bin/env bats
# Root filesystems as the result of a rebuild: with owners, extended attributes, devices, hard links, holes and
# times for root, and with a warning for other users.
load helpers

setup() {
	requires root oracle
	work=$BATS_TEST_TMPDIR/work
	mkdir "$work"
	cd "$work" || return
	export DOCKER_HOST=unix://$BATS_TEST_TMPDIR/none.sock
}

# make_root DIRECTORY: a root filesystem with one file of each kind.
make_root() {
	mkdir -p "$1"/{bin,dev,etc,tmp,home}
	cp "$build/fixtures/direct" "$1/bin/tool"
	chown 1000:1001 "$1/bin/tool"
	chmod 6755 "$1/bin/tool"
	ln "$1/bin/tool" "$1/bin/tool2"
	setcap cap_net_raw+ep "$1/bin/tool"
	xattr "$1/bin/tool" user.note
	mknod -m 666 "$1/dev/null" c 1 3
	mknod -m 640 "$1/dev/disk" b 8 300
	mkfifo "$1/dev/fifo"
	chown 5:6 "$1/dev/fifo"
	ln -s /bin/tool "$1/bin/link"
	chown -h 7:8 "$1/bin/link"
	ln "$1/bin/link" "$1/bin/link2"
	truncate -s 64M "$1/etc/sparse"
	echo x >>"$1/etc/sparse"
	chmod 1777 "$1/tmp"
	chown 9:9 "$1/home"
	xattr "$1/home" user.note
	find "$1" -depth -exec touch -h -d '2001-02-03 04:05:06.123456789' {} +
	chown 11:12 "$1"
	chmod 2755 "$1"
	touch -d '2002-02-03 04:05:06.987654321' "$1"
}

xattr() { python3 -c 'import os, sys; os.setxattr(sys.argv[1], sys.argv[2], b"value")' "$@"; }

# listing DIRECTORY: the metadata of each name, and the first name of its inode.
listing() {
	python3 - "$1" <<-'END'
		import hashlib, os, sys
		top, first = sys.argv[1], {}
		names = sorted([os.path.join(d, n) for d, ds, fs in os.walk(top) for n in ds + fs] + [top])
		for p in names:
		    st, rel = os.lstat(p), os.path.relpath(p, top)
		    plain = os.path.isfile(p) and not os.path.islink(p)
		    xattrs = {k: os.getxattr(p, k).hex() for k in os.listxattr(p)} if plain or os.path.isdir(p) else {}
		    print(rel, oct(st.st_mode), st.st_uid, st.st_gid, st.st_mtime_ns, st.st_rdev, sorted(xattrs.items()),
		          first.setdefault((st.st_dev, st.st_ino), rel), os.readlink(p) if os.path.islink(p) else '',
		          hashlib.sha256(open(p, 'rb').read()).hexdigest() if plain else '')
	END
}

@test "rebuild: a directory to a directory is what cp -a and patch make, and verify proves it" {
	make_root root
	run_vfix rebuild dir:root -o dir:fixed
	expect reference "$output" dir:fixed
	[[ $stderr != *warning:* ]] || fail "a warning: $stderr"
	cp -a root copied
	touch -r root copied
	run_vfix patch -i copied
	# The directories that patch wrote into have new times.
	touch -r root/bin copied/bin
	diff <(listing copied) <(listing fixed)
	[ "$(du -k fixed/etc/sparse | cut -f1)" -lt 1000 ] || fail "the hole is filled: $(du -k fixed/etc/sparse)"
	run "$novsyscall" root/bin/tool
	expect 'status before' "$status" "$status_sigsys"
	run "$novsyscall" fixed/bin/tool
	expect 'status after' "$status" 0
	run_vfix verify dir:fixed --against dir:root
	chmod 755 fixed/bin/tool
	run_vfix 3 verify dir:fixed --against dir:root
	expect_match difference "$output" 'bin/tool: mode: got 0755, want 06755'
}

@test "rebuild: an image to a directory is what umoci unpacks of the rebuilt image" {
	requires image_tools
	make_root root
	run_vfix convert dir:root -o oci:base:x
	run_vfix rebuild oci:base:x -o oci:fixed:x
	run_vfix rebuild oci:base:x -o dir:fixed-root
	umoci raw unpack --image fixed:x unpacked
	# umoci chooses the metadata of the root directory, which the layer does not contain.
	diff <(listing unpacked | grep -v '^\. ') <(listing fixed-root | grep -v '^\. ')
	tar -C root -cf root.tar .
	run_vfix rebuild root.tar -o dir:of-tar
	expect 'owner of the root directory' "$(stat -c '%u:%g %a' of-tar)" '11:12 2755'
}

@test "rebuild: to a directory by an ordinary user, with a warning about what is lost" {
	make_root root
	open_dir "$VFIX"
	cp -a root "$open/root"
	mkdir -m 700 "$open/to" "$open/tmp"
	chown 65534:65534 "$open/to" "$open/tmp"
	run --separate-stderr setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/ TMPDIR="$open/tmp" \
		"$open/vfix" rebuild "dir:$open/root" -o "dir:$open/to/fixed"
	expect status "$status" 0
	echo "$stderr"
	for what in 'warning: the copies are yours: not kept for ' 'owner of ' 'device of 2' 'setuid/setgid of 2' 'security.capability of 1'; do
		expect_match warning "$stderr" "$what"
	done
	expect owners "$(find "$open/to/fixed" -printf '%U:%G\n' | sort -u)" 65534:65534
	expect 'privileged files' "$(find "$open/to/fixed" -perm /6000)" ''
	expect fifo "$(find "$open/to/fixed" -type p -printf '%P\n')" dev/fifo
	[ "$open/to/fixed/bin/tool" -ef "$open/to/fixed/bin/tool2" ] || fail 'the hard link is broken'
	cmp root/etc/sparse "$open/to/fixed/etc/sparse"
	# The user's own files lose nothing, not even setuid bits.
	mkdir "$open/to/own"
	cp "$build/fixtures/direct" "$open/to/own/tool"
	chown -R 65534:65534 "$open/to/own"
	chmod 4755 "$open/to/own/tool"
	run --separate-stderr setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/ TMPDIR="$open/tmp" \
		"$open/vfix" rebuild "dir:$open/to/own" -o "dir:$open/to/own-fixed"
	expect status "$status" 0
	[[ $stderr != *warning:* ]] || fail "a warning: $stderr"
	expect mode "$(stat -c %a "$open/to/own-fixed/tool")" 4755
	expect 'temporary files' "$(ls -A "$open/tmp" && ls -A "$open/to")" $'fixed\nown\nown-fixed'
}

@test "rebuild: a directory that has something in it is refused, and nothing is left behind" {
	make_root root
	mkdir full empty
	touch full/file
	run_vfix 1 rebuild dir:root -o dir:full
	expect_match stderr "$stderr" 'full: exists and is not empty'
	run_vfix 1 rebuild dir:root -o dir:root/bin/new
	expect_match stderr "$stderr" 'is inside root'
	run_vfix 2 rebuild dir:root -o dir:new -t name:1
	run_vfix 2 rebuild dir:root -o dir:new --provenance new.json
	mkdir "$BATS_TEST_TMPDIR/own"
	# The disk is full in the middle of the write.
	# shellcheck disable=SC2016 # expanded by the inner shell
	run "$tree/tests/own-mounts" "$BATS_TEST_TMPDIR/own" sh -c 'mkdir small && mount -t tmpfs -o size=16k none small && "$@"; status=$?
		ls -A small >left; exit $status' sh "$VFIX" rebuild dir:root -o dir:small/new
	echo "$output"
	expect status "$status" 1
	expect left "$(cat left)" ''
	rm -r left small
	run_vfix rebuild dir:root -o dir:empty
	expect files "$(ls -A)" $'empty\nfull\nroot'
}
