#!/usr/bin/env bats
# Apptainer's SIF files and sandbox directories: read, and written from another one or from any image. siftool is
# from the module with which singularity writes these files.
load helpers

has_squashfs() { has_commands mksquashfs unsquashfs sqfs2tar tar2sqfs; }
has_siftool() { [ -x "$build/siftool" ] || { echo "make siftool has not been run" && return 1; }; }

setup() {
	requires root squashfs siftool image_tools legacy_image
	work=$BATS_TEST_TMPDIR/work
	mkdir "$work"
	cd "$work" || return
	export DOCKER_HOST=unix://$BATS_TEST_TMPDIR/none.sock
}

# sandbox: a root filesystem as apptainer builds it, with a legacy program in it.
sandbox() {
	mkdir -p box/.singularity.d/env box/bin box/usr/bin box/etc box/home/u
	cp "$legacy_image/rootfs/usr/local/bin/clock" box/bin/clock
	ln box/bin/clock box/usr/bin/time-of-day
	cp /bin/busybox box/bin/busybox
	printf '#!/bin/sh\nexec /bin/clock "$@"\n' >box/.singularity.d/runscript
	chmod 755 box/.singularity.d/runscript
	ln -s .singularity.d/runscript box/singularity
	echo data >box/home/u/data
	chown -h 1000:1000 box/home/u box/home/u/data
	chmod 4711 box/bin/clock
	chmod 750 box
	find box -exec touch -h -d @1400000000 {} +
}

# sif [COMPRESSION]: x.sif with a definition file, a squashfs, labels and a signature.
sif() {
	local tool=$build/siftool
	[ -d box ] || sandbox
	mksquashfs box root.squashfs -noappend -quiet -no-progress -comp "${1:-gzip}" -b 65536 -mkfs-time 1400000000
	echo 'bootstrap: docker' >deffile
	echo '{"labels": "kept"}' >labels.json
	echo signed >signature
	rm -f x.sif
	"$tool" new x.sif
	"$tool" add --datatype 1 --groupid 1 x.sif deffile
	"$tool" add --datatype 4 --partfs 1 --parttype 2 --partarch 2 --groupid 1 --filename rootfs x.sif root.squashfs
	"$tool" add --datatype 5 --signentity 433FE984155206BD962725E20E8713472A879943 --signhash 1 --link 1 x.sif signature
	"$tool" add --datatype 6 --groupid 1 --link 2 x.sif labels.json
	chmod 755 x.sif
}

# types FILE: the types of the data objects, one word each.
types() { "$build/siftool" list "$1" | sed -n 's/^[0-9].*|//p' | tr '\n' ';'; }

# unpacked FILE DIRECTORY: the root filesystem of a SIF file.
unpacked() {
	local id
	id=$("$build/siftool" list "$1" | sed -n 's/^\([0-9]*\) .*Squashfs.*/\1/p')
	"$build/siftool" dump "$id" "$1" >"$2.squashfs"
	unsquashfs -quiet -no-progress -dest "$2" "$2.squashfs"
}

# listing DIRECTORY: everything except the content of patched files.
listing() {
	(cd "$1" && find . -printf '%p %y %m %U:%G %n %Ts %l\n' | sort && find . -type f ! -name clock ! -name time-of-day -exec sha256sum {} + | sort)
}

# prober FILE: a program that reports on stderr what it can see and do, and fails.
prober() {
	cat >"$1" <<-'END'
		#!/usr/bin/python3 -I
		import resource
		files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
		import os, socket, sys

		def can(what, *args):
		    try:
		        what(*args)
		        return "yes"
		    except OSError:
		        return "no"

		image = sys.argv[-1]
		print("uid", os.getuid(), "sees", *sorted(os.listdir("/")), "interfaces", *(n for _, n in socket.if_nameindex()),
		      "pid", os.getpid(), "image", can(open, image, "rb"), "writes image", can(open, image, "ab"),
		      "writes usr", can(open, "/usr/vfix-test", "w"), "writes out", can(open, "/out/x", "w"),
		      "files", files, "owner", can(os.chown, "/out/x", 1234, 1234), "chroot", can(os.chroot, "/usr"),
		      file=sys.stderr)
		sys.exit(1)
	END
	chmod 755 "$1"
}

@test "scan: the programs that read a squashfs are confined: no network, no file of the machine, no right that they do not need" {
	requires root own_root
	local fake=$BATS_TEST_TMPDIR/fake real=$VFIX
	sif
	mkdir "$fake"
	printf '#!/bin/sh\nPATH=%s exec %s "$@"\n' "$fake" "$VFIX" >"$BATS_TEST_TMPDIR/vfix"
	chmod 755 "$BATS_TEST_TMPDIR/vfix"
	VFIX=$BATS_TEST_TMPDIR/vfix
	chmod 755 "$fake"
	prober "$fake/sqfs2tar"
	run_vfix 1 scan x.sif
	expect_match sqfs2tar "$stderr" 'sqfs2tar: uid 65534 sees '
	[[ $stderr =~ sees\ ([a-z0-9 ]*)\ interfaces ]]
	for seen in ${BASH_REMATCH[1]}; do
		[[ " bin image lib lib64 usr ${fake:1} $(cut -d / -f 2 <<<"$fake") " = *" $seen "* ]] || fail "it sees /$seen"
	done
	expect_match sqfs2tar "$stderr" 'interfaces lo pid 1 image yes writes image no writes usr no writes out no files 256 owner no chroot no'
	# unsquashfs writes files of any owner, into one directory.
	mv "$fake/sqfs2tar" "$fake/unsquashfs"
	sed -i 's/image = sys.argv\[-1\]/image = "\/image"/' "$fake/unsquashfs"
	run_vfix 1 scan x.sif
	expect_match unsquashfs "$stderr" 'unsquashfs: uid 0 sees '
	expect_match unsquashfs "$stderr" 'interfaces lo pid 1 image yes writes image no writes usr no writes out yes files 256 owner yes chroot no'
	# The controls: both read the image there, with the owners in it.
	VFIX=$real run_vfix 3 scan x.sif
	rm "$fake/unsquashfs"
	printf '#!/bin/sh\nexec /usr/bin/unsquashfs "$@"\n' >"$fake/unsquashfs"
	chmod 755 "$fake/unsquashfs"
	VFIX=$real run_vfix convert x.sif -o oci:with-sqfs2tar:x
	[[ $stderr != *confined* ]] || fail 'sqfs2tar was not confined'
	run_vfix convert x.sif -o oci:with-unsquashfs:x
	[[ $stderr != *confined* ]] || fail 'unsquashfs was not confined'
	# Owners, modes and hard links, as in tar.
	members() {
		local index=$1/index.json layer
		layer=$(jq -r '.layers[0].digest' "$1/blobs/sha256/$(jq -r '.manifests[0].digest' "$index" | cut -d : -f 2)" | cut -d : -f 2)
		tar --numeric-owner --full-time -t -v -f "$1/blobs/sha256/$layer" | sed 's, \./, ,; s,link to \./,link to ,; /^d.* $/d' | sort
	}
	members with-unsquashfs >unsquashfs.list
	grep -q '^-rw.*1000/1000 .*home/u/data$' unsquashfs.list
	grep -q '^-rws--x--x .*bin/clock$' unsquashfs.list
	diff <(members with-sqfs2tar) unsquashfs.list
}

@test "rebuild: a SIF file to a SIF file, which runs where the first is killed" {
	requires oracle
	sif
	run_vfix 3 scan x.sif
	expect_match stdout "$output" bin/clock
	run_vfix rebuild x.sif -o sif:y.sif
	expect reference "$output" sif:y.sif
	expect_match 'word about the signature' "$stderr" 'omitted; sign it again'
	unpacked x.sif before
	unpacked y.sif after
	diff <(listing before) <(listing after)
	[ after/bin/clock -ef after/usr/bin/time-of-day ] || fail 'the hard link is broken'
	run "$novsyscall" chroot before /bin/clock
	expect 'status of the base' "$status" "$status_sigsys"
	run "$novsyscall" chroot after /bin/clock
	expect 'status of the result' "$status" 0
	run_vfix scan y.sif
	run_vfix verify y.sif --against x.sif
	expect 'mode of the file' "$(stat -c %a y.sif)" 755
}

@test "rebuild: a SIF file keeps its other objects, compression, times; twice gives the same bytes" {
	sif zstd
	expect 'objects before' "$(types x.sif)" 'Def.FILE;FS (Squashfs/*System/amd64);Signature (SHA-256);JSON.Generic;'
	run_vfix rebuild sif:x.sif -o sif:y.sif
	expect 'objects after' "$(types y.sif)" 'Def.FILE;FS (Squashfs/*System/amd64);JSON.Generic;'
	expect labels "$("$build/siftool" dump 3 y.sif)" '{"labels": "kept"}'
	expect 'link of the labels' "$("$build/siftool" info 3 y.sif | sed -n 's/ *Linked ID: *//p')" 2
	"$build/siftool" dump 2 y.sif >new.squashfs
	expect_match squashfs "$(unsquashfs -s new.squashfs)" 'Compression zstd'
	expect_match squashfs "$(unsquashfs -s new.squashfs)" 'Block size 65536'
	expect 'time of the squashfs' "$(unsquashfs -mkfs-time new.squashfs)" 1400000000
	run env TZ=Asia/Tokyo SOURCE_DATE_EPOCH=5 TMPDIR="$BATS_TEST_TMPDIR" "$VFIX" rebuild x.sif -o sif:z.sif
	expect status "$status" 0
	cmp y.sif z.sif
	# The result needs no patch, and is copied.
	run_vfix rebuild y.sif -o sif:again.sif
	cmp y.sif again.sif
}

@test "rebuild, convert: a SIF file to an OCI image" {
	sif xz
	run_vfix convert x.sif -o oci:plain:x
	"$build/validate" plain
	expect entrypoint "$(skopeo inspect --config oci:plain:x | jq -c .config.Entrypoint)" '["/.singularity.d/runscript"]'
	umoci raw unpack --image plain:x rootfs
	diff <(listing box | grep -v '^\. ') <(listing rootfs | grep -v '^\. ')
	run_vfix rebuild x.sif -o oci:fixed:x
	run_vfix scan oci:fixed:x
	run_vfix verify oci:fixed:x --against oci:plain:x
}

@test "patch: a sandbox directory, in place and elsewhere" {
	requires oracle
	sandbox
	listing box >before
	run_vfix patch box -o fixed
	diff before <(listing fixed)
	run "$novsyscall" chroot fixed /bin/clock
	expect 'status of the copy' "$status" 0
	run "$novsyscall" chroot box /bin/clock
	expect 'status of the sandbox' "$status" "$status_sigsys"
	run_vfix patch -i box
	run "$novsyscall" chroot box /bin/clock
	expect 'status after -i' "$status" 0
	run_vfix rebuild fixed -o oci:image:x
	"$build/validate" image
}

# archive: image.tar, a docker archive of the sandbox and of a second layer with whiteouts, xattrs and devices.
archive() {
	sandbox
	rm -r box/.singularity.d box/singularity
	mkdir -p box/opt/hidden box/dev
	echo old >box/opt/hidden/old
	echo gone >box/opt/gone
	setcap cap_net_raw+ep box/bin/busybox
	python3 -c 'import os; os.setxattr("box/home/u", "user.note", b"kept")'
	mknod box/dev/null c 1 3
	find box -exec touch -h -d @1400000000 {} +
	tar --sort=name --xattrs --xattrs-include='*' -C box -c -f 1.tar .
	mkdir -p above/opt/hidden
	touch above/opt/.wh.gone above/opt/hidden/.wh..wh..opq above/opt/hidden/new
	# The name of a user that has another ID here.
	tar --owner=daemon:4321 --group=daemon:4321 --mtime=@1400000000 -C above -c -f 2.tar opt
	jq -n --arg one "sha256:$(sha256sum 1.tar | cut -d ' ' -f 1)" --arg two "sha256:$(sha256sum 2.tar | cut -d ' ' -f 1)" \
		'{architecture: "amd64", os: "linux", created: "2014-05-13T16:53:20Z", rootfs: {type: "layers", diff_ids: [$one, $two]},
		config: {Entrypoint: ["/bin/clock"], Env: ["PATH=/bin"], Labels: {"org.example": "x"}, User: "1000", WorkingDir: "/opt"}}' >config.json
	echo '[{"Config": "config.json", "RepoTags": ["app:1"], "Layers": ["1.tar", "2.tar"]}]' >manifest.json
	tar -c -f image.tar manifest.json config.json 1.tar 2.tar
}

# made_with PROGRAM: a SIF file of the archive, on a machine with only this program for it; then what a squashfs
# must keep.
made_with() {
	local programs=$BATS_TEST_TMPDIR/programs
	mkdir -p "$programs"
	rm -f "$programs"/*
	ln -s "$(command -v "$1")" "$programs/"
	run env PATH="$programs" TZ=Asia/Tokyo SOURCE_DATE_EPOCH=5 "$VFIX" convert image.tar -o "sif:$1.sif"
	echo "$output"
	expect "status with $1" "$status" 0
	expect 'objects' "$(types "$1.sif")" 'Def.FILE;JSON.Generic;JSON.Generic;FS (Squashfs/*System/amd64);'
	expect 'launch script' "$(head -c 30 "$1.sif")" '#!/usr/bin/env run-singularity'
	expect 'mode' "$(stat -c %a "$1.sif")" 755
	unpacked "$1.sif" "$1"
	expect 'names in /opt' "$(cd "$1/opt" && find . | sort | tr '\n' ' ')" '. ./hidden ./hidden/new '
	expect 'an owner by number' "$(stat -c %u:%g "$1/opt/hidden/new")" 4321:4321
	expect 'a device' "$(stat -c '%F %t,%T' "$1/dev/null")" 'character special file 1,3'
	expect 'a capability' "$(getcap "$1/bin/busybox" | sed 's/.* //')" cap_net_raw=ep
	expect 'an attribute' "$(python3 -c 'import os, sys; print(os.getxattr(sys.argv[1], "user.note").decode())' "$1/home/u")" kept
	expect 'setuid' "$(stat -c %a "$1/bin/clock")" 4711
	[ "$1/bin/clock" -ef "$1/usr/bin/time-of-day" ] || fail 'the hard link is broken'
	diff <(listing box | grep -Ev '^\. | \./opt|^\./(opt|dev|etc|home) |/opt/') \
		<(listing "$1" | grep -Ev '^\. | \./opt|^\./(opt|dev|etc|home) |/opt/|singularity| \./etc/|^\./(\.|environment|etc/|proc|root|sys|tmp|var)')
}

@test "convert, rebuild: an image to a SIF file: owners, setuid, xattrs, hard links, devices, whiteouts" {
	requires oracle
	archive
	made_with tar2sqfs
	expect 'the root directory' "$(stat -c '%a %U:%G %Y' tar2sqfs)" '750 root:root 1400000000'
	made_with mksquashfs
	[[ $(mksquashfs -version) != *version\ 4.5* ]] || expect_match 'a word about the time' "$output" 'install tar2sqfs'
	# The same image gives the same bytes, whatever the place and the time.
	run_vfix convert image.tar -o sif:again.sif
	cmp tar2sqfs.sif again.sif
	# The runscript is the entrypoint; patched programs do not crash.
	run "$novsyscall" chroot tar2sqfs /bin/clock
	expect 'status unpatched' "$status" "$status_sigsys"
	run_vfix rebuild image.tar -o sif:fixed.sif
	run_vfix scan fixed.sif
	unpacked fixed.sif fixed
	run "$novsyscall" chroot fixed /bin/clock
	expect 'status patched' "$status" 0
	run "$novsyscall" chroot fixed /bin/busybox sh /.singularity.d/runscript
	expect 'status of the runscript' "$status" 0
	expect_match labels "$(cat fixed/.singularity.d/labels.json)" '"dev.vfix.base.name": "app:1"'
	# The way that can be proved: a SIF file of the unchanged image, and a rebuild of that.
	run_vfix rebuild tar2sqfs.sif -o sif:proved.sif
	run_vfix verify proved.sif --against tar2sqfs.sif
}

@test "rebuild: the SIF file of a sandbox keeps Apptainer's scripts; an image without a place for them is an error" {
	sandbox
	run_vfix rebuild box -o sif:y.sif
	unpacked y.sif after
	diff <(cd box && find .singularity.d singularity -printf '%p %y %m %l\n' | sort) \
		<(cd after && find .singularity.d/runscript .singularity.d/env singularity .singularity.d -maxdepth 0 -printf '%p %y %m %l\n' | sort)
	cmp box/.singularity.d/runscript after/.singularity.d/runscript
	rm -r box/.singularity.d
	echo file >box/.singularity.d
	run_vfix 1 rebuild box -o sif:z.sif
	expect_match stderr "$stderr" '/.singularity.d: not a directory'
	[ ! -e z.sif ] || fail 'something was written'
}

@test "convert: without a program that writes a squashfs, with one that is too old, with an attribute that has no place" {
	archive
	local programs=$BATS_TEST_TMPDIR/programs before
	mkdir "$programs"
	before=$(ls -A)
	run env PATH="$programs" "$VFIX" convert image.tar -o sif:out.sif
	expect 'status without a program' "$status" 1
	expect_match output "$output" 'out.sif: squashfs: tar2sqfs and mksquashfs: not installed'
	expect_match hint "$output" 'install squashfs-tools'
	printf '#!/bin/sh\necho "mksquashfs version 4.4-git.1 (2021/03/12)"\n' >"$programs/mksquashfs"
	chmod 755 "$programs/mksquashfs"
	run env PATH="$programs" "$VFIX" convert image.tar -o sif:out.sif
	expect 'status with mksquashfs 4.4' "$status" 1
	expect_match output "$output" 'cannot read tar streams'
	expect_match hint "$output" squashfs-tools-ng
	expect files "$(ls -A)" "$before"
	# An access control list (linux/posix_acl_xattr.h): owner, user 1234, group, mask, others.
	python3 -c '
import os, struct
acl = [(1, 6, 2**32 - 1), (2, 4, 1234), (4, 4, 2**32 - 1), (16, 4, 2**32 - 1), (32, 4, 2**32 - 1)]
os.setxattr("box/home/u/data", "system.posix_acl_access", struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *e) for e in acl))'
	run_vfix convert box -o sif:out.sif
	expect_match warning "$stderr" 'home/u/data: system.posix_acl_access not kept'
}

@test "scan: a partition beside the root filesystem makes the verdict incomplete" {
	mkdir -p clean/bin
	cp "$build/siftool" clean/bin/
	"$VFIX" convert dir:clean -o sif:clean.sif
	run_vfix 0 scan clean.sif # the control
	truncate -s 64K overlay
	"$build/siftool" add --datatype 4 --parttype 4 --partfs 2 --partarch 2 --groupid 1 clean.sif overlay
	run_vfix 4 scan --format json clean.sif
	expect JSON "$(jq -c '.results[] | [.verdict, .complete, [.not_examined[].path]]' <<<"$output")" '["incomplete",false,["partition 5"]]'
}

@test "rebuild: a damaged SIF file is an error, and leaves nothing" {
	sif
	size=$(stat -c %s root.squashfs)
	head -c 40000 x.sif >short.sif
	run_vfix 1 scan short.sif
	"$build/siftool" new none.sif
	run_vfix 1 scan none.sif
	expect_match stderr "$stderr" '0 root filesystems'
	cp x.sif broken.sif
	offset=$("$build/siftool" list x.sif | sed -n 's/.*|\([0-9]*\)-[0-9]* .*Squashfs.*/\1/p')
	# The tables of a squashfs are at its end.
	head -c 3000 /dev/zero | dd of=broken.sif bs=1 seek=$((offset + size - 3500)) conv=notrunc status=none
	before=$(ls -A)
	run_vfix 1 rebuild broken.sif -o sif:out.sif
	expect stdout "$output" ''
	expect files "$(ls -A)" "$before"
	mkdir nothing
	run env PATH="$work/nothing" "$VFIX" rebuild x.sif -o sif:out.sif
	expect 'status without the programs' "$status" 1
	expect_match 'hint without the programs' "$output" 'install squashfs-tools'
}

@test "convert: a SIF file to a sandbox directory, as it is, which vfix patch then makes run" {
	requires oracle
	sif
	run_vfix convert x.sif -o dir:sandbox
	expect reference "$output" dir:sandbox
	unpacked x.sif before
	diff <(listing before) <(listing sandbox)
	[ sandbox/bin/clock -ef sandbox/usr/bin/time-of-day ] || fail 'the hard link is broken'
	run "$novsyscall" chroot sandbox /bin/clock
	expect 'status as it is' "$status" "$status_sigsys"
	run_vfix patch -i sandbox
	run "$novsyscall" chroot sandbox /bin/clock
	expect 'status patched' "$status" 0
	run_vfix 1 convert x.sif -o dir:sandbox
	expect_match stderr "$stderr" 'sandbox: exists'
	run_vfix rebuild x.sif -o dir:fixed
	# Except for the times of the directories that patch wrote into.
	diff <(listing sandbox | sed 's/^\(.* d .*\) [0-9]* $/\1/') <(listing fixed | sed 's/^\(.* d .*\) [0-9]* $/\1/')
}

@test "convert: an image to a sandbox directory" {
	run_vfix convert "oci:$small_image/oci" -o dir:root
	run chroot root /usr/local/bin/clock
	expect status "$status" 0
	# For an ordinary user, all files are the user's own.
	local open
	open_dir "$VFIX" "$small_image/oci"
	chown -R 65534:65534 "$open"
	run -0 --separate-stderr setpriv --reuid=65534 --regid=65534 --clear-groups env TMPDIR="$open" \
		"$open/vfix" convert "oci:$open/oci" -o "dir:$open/root"
	expect owners "$(find "$open/root" -printf '%U\n' | sort -u)" 65534
	cmp root/usr/local/bin/clock "$open/root/usr/local/bin/clock"
}
