#!/usr/bin/env bats
# bats file_tags=long
# The drop-in layer, put over the legacy image as by COPY --from: the steps of a Dockerfile, one after the other,
# on a kernel with vsyscall=none. One of them installs a package that brings back the legacy libc and a static
# helper.
# Variables come from helpers.bash; the shell of the root expands what is in single quotes.
# shellcheck disable=SC2154,SC2016
load helpers

setup_file() {
	load helpers
	export layer_tar=$BATS_FILE_TMPDIR/layer.tar plain=$BATS_FILE_TMPDIR/plain with=$BATS_FILE_TMPDIR/with
	(has_root && has_vm && has_legacy_image) >/dev/null || return 0
	"$VFIX" layer -o "tar:$layer_tar" -q
	cp -a "$legacy_image/rootfs" "$plain"
	make_package "$plain/legacy.deb"
	cp -a "$plain" "$with"
	tar -x -f "$layer_tar" -C "$with"
}

has_python() { has_commands python3; }

# make_package FILE: a package with the legacy libc, a static program that calls the page, and a postinst that runs
# both it and bash, like the scripts of libc's own package.
make_package() {
	local dir=$BATS_FILE_TMPDIR/package
	mkdir -p "$dir/DEBIAN" "$dir/usr/local/bin" "$dir/usr/lib/x86_64-linux-gnu"
	cat >"$dir/DEBIAN/control" <<-'END'
		Package: legacy-libc
		Version: 2.13
		Architecture: amd64
		Maintainer: nobody <nobody@example.com>
		Replaces: libc6
		Description: the libc of the legacy image
	END
	printf '#!/bin/sh\nset -e\n/usr/local/bin/clock\nbash -c "echo legacy libc is configured"\n' >"$dir/DEBIAN/postinst"
	chmod 755 "$dir/DEBIAN/postinst"
	cp "$legacy_image/rootfs/usr/lib/x86_64-linux-gnu/libc.so.6" "$dir/usr/lib/x86_64-linux-gnu/"
	cp -p "$legacy_image/rootfs/usr/local/bin/clock" "$dir/usr/local/bin/"
	dpkg-deb --root-owner-group -Znone --build "$dir" "$1" >/dev/null
}

install='sh -c "apt-get -y install /legacy.deb 2>&1"'
scan='/vfix/vfix scan -q /usr/lib/x86_64-linux-gnu/libc.so.6 /usr/local/bin/clock'

@test "layer: without it a RUN step dies, and so does a package's script" {
	requires root vm legacy_image
	run_vm --vsyscall none --root "$plain" -- 'sh -c "bash -c \"echo up\""' clock "$install"
	expect_vm 1 "$status_sigsegv"
	expect_vm 2 "$status_sigsegv"
	[ "$(cat "$vm_out/3.status")" -ne 0 ] || fail "the package is installed"
}

@test "layer: with it RUN steps work, and what a package brings back is patched before its script runs" {
	requires root vm legacy_image
	local n
	run_vm --vsyscall none --root "$with" -- \
		'sh -c "bash -c \"echo up\""' \
		clock \
		'/vfix/vfix-trace /bin/sh -c "clock && echo traced"' \
		'/vfix/vfix patch -i -x --since /vfix/patched -q /' \
		"$scan" \
		clock \
		"$install" \
		"$scan" \
		clock \
		'sh -c "rm /etc/dpkg/dpkg.cfg.d/vfix && mv /etc/ld.so.preload /preload && dpkg -i /legacy.deb 2>&1"' \
		"$scan" \
		'/vfix/vfix-trace /bin/sh -c "dpkg --configure -a 2>&1"' \
		'sh -c "mv /preload /etc/ld.so.preload && dpkg -i /legacy.deb 2>&1"' \
		'sh -c "bash -c \"echo still up\""'
	expect_vm 1 0
	expect 'a dynamic program' "$(cat "$vm_out/1.stdout")" up
	expect 'the loader and libvfix.so' "$(cat "$vm_out/1.stderr")" ''
	# A program that no preload reaches: it needs the SHELL line until it is patched.
	expect_vm 2 "$status_sigsegv"
	expect_vm 3 0
	expect 'the SHELL line' "$(cat "$vm_out/3.stdout")" traced
	for n in 4 5 6; do expect_vm $n 0; done
	# The package is unpacked, patched, configured.
	expect_vm 7 0
	expect_match 'the package' "$(cat "$vm_out/7.stdout")" 'legacy libc is configured'
	expect_vm 8 0
	expect_vm 9 0
	# The control: without hook and preload library, the static helper of the same package crashes.
	[ "$(cat "$vm_out/10.status")" -ne 0 ] || fail "installed without both: $(cat "$vm_out/10.stdout")"
	expect_match 'why' "$(cat "$vm_out/10.stdout")" 'Segmentation fault'
	expect_vm 11 3
	# Under vfix-trace it does not, nor with the preload library, which starts static programs under vfix-trace.
	for n in 12 13; do
		expect_vm $n 0
		expect_match 'the package' "$(cat "$vm_out/$n.stdout")" 'legacy libc is configured'
	done
	expect_vm 14 0
	expect 'with the libc that came back' "$(cat "$vm_out/14.stdout")" 'still up'
}

@test "layer: an OCI image, the same each time, and the tar has the same files" {
	requires image_tools
	local image=$BATS_TEST_TMPDIR/oci digest
	run_vfix layer -o "oci:$image" --format json
	digest=$(jq -r .digest <<<"$output")
	run_vfix layer -o "oci:$BATS_TEST_TMPDIR/again" --format json
	expect digest "$(jq -r .digest <<<"$output")" "$digest"
	expect 'config' "$(skopeo inspect --config "oci:$image:vfix:latest" | jq -c '[.os, .architecture, .config.Entrypoint]')" '["linux","amd64",["/vfix/vfix"]]'
	umoci raw unpack --rootless --image "$image:vfix:latest" "$BATS_TEST_TMPDIR/image"
	run_vfix layer -o "tar:$BATS_TEST_TMPDIR/layer.tar"
	expect stdout "$output" "$BATS_TEST_TMPDIR/layer.tar"
	mkdir "$BATS_TEST_TMPDIR/tar"
	tar -x -f "$BATS_TEST_TMPDIR/layer.tar" -C "$BATS_TEST_TMPDIR/tar"
	diff -r "$BATS_TEST_TMPDIR/image" "$BATS_TEST_TMPDIR/tar"
	cmp "$BATS_TEST_TMPDIR/tar/vfix/vfix" "$VFIX"
	"$BATS_TEST_TMPDIR/tar/vfix/vfix-trace" true
}

# A yum with only the parts that the plugin uses; the plugin is for Python 2.4 to 3.
fake_yum() {
	mkdir -p "$1/yum"
	: >"$1/yum/__init__.py"
	echo 'TYPE_CORE = 1' >"$1/yum/plugins.py"
	cat >"$1/yum/rpmtrans.py" <<-'END'
		class RPMTransaction(object):
		    test = False
		    seen = 0
		    def _getTxmbr(self, key):
		        return ('name', key)
		    def _instProgress(self, amount, total, key):
		        self.seen += 1
	END
}

@test "layer: the yum plugin patches a package's files at the report before its %post" {
	requires python
	local dir=$BATS_TEST_TMPDIR
	fake_yum "$dir"
	cp "$build/fixtures/static-2m" "$dir/program"
	cp "$build/fixtures/libstubs.so" "$dir/library.so"
	ln -s program "$dir/link"
	echo text >"$dir/text"
	cat >"$dir/try.py" <<-END
		import sys
		sys.path[:0] = ['$dir', '$tree/images/base']
		sys.dont_write_bytecode = True
		import vfix, yum.rpmtrans
		vfix.VFIX, vfix.STAMP = '$VFIX', '$dir/stamp'
		vfix.config_hook(None)
		names = ['$dir/' + n for n in ('program', 'library.so', 'link', 'text', 'gone')]
		old = ({'filenames': names[:1]}, '/x.rpm')
		class Member(object):
		    class po:
		        @staticmethod
		        def returnLocalHeader():
		            return {'filenames': names}
		ran = []
		real = vfix.patch
		vfix.patch = lambda *a: (ran.append(a), real(*a))
		t = yum.rpmtrans.RPMTransaction()
		t._instProgress(50, 100, old)       # under way: nothing to do yet
		t._instProgress(100, 100, None)
		t._instProgress(100, 100, 'name')   # repackaging
		assert ran == [], ran
		t._instProgress(100, 100, old)
		assert ran == [(names[0],)], ran
		t._instProgress(100, 100, Member())
		assert ran[1:] == [tuple(names[:2])], ran
		t.test = True
		t._instProgress(100, 100, old)
		assert len(ran) == 2 and t.seen == 6, (ran, t.seen)
		vfix.patch = lambda *a: ran.append(a)
		t.test = False
		t._instProgress(100, 100, object()) # a yum that is not known: everything that changed
		vfix.posttrans_hook(None)
		assert ran[2:] == [('-x', '--since', '$dir/stamp', '/')] * 2, ran
	END
	run_vfix 3 scan "$dir/program" "$dir/library.so" # the control
	python3 "$dir/try.py"
	run_vfix 4 scan "$dir/program" "$dir/library.so" # a reference of the program cannot be judged, and stays
	[[ $output != *": AFFECTED"* ]] || fail "$output"
}
