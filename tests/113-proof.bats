#!/usr/bin/env bats
# The proofs of a rebuild: the same bytes everywhere, the statement of provenance, package databases, marks and
# signatures.
load helpers

legacy_image=$small_image

setup_file() {
	load helpers
	start_legacy_registry
}

teardown_file() {
	load helpers
	stop_services
}

setup() {
	requires image_tools legacy_image
	enter_work
	layout=oci:$legacy_image/oci:legacy
}

# api PATH [CURL OPTION...]: the registry's answer.
api() {
	local path=$1
	shift
	curl --silent --show-error --fail --user "$registry_user:$registry_password" "$@" "http://$registry/v2/legacy/$path"
}

@test "rebuild: the same bytes for another user, directory, umask, time zone, locale and number of jobs" {
	requires root
	run_vfix rebuild "$layout" -o oci-archive:one.tar:x -j 1
	open_dir "$legacy_image/oci" "$VFIX"
	mkdir "$open/tmp" "$open/deeper"
	chown -R nobody "$open"
	(
		cd "$open/deeper"
		umask 077
		export TMPDIR=$open/tmp TZ=Asia/Kathmandu LC_ALL=C HOME=/nonexistent SOURCE_DATE_EPOCH=1
		setpriv --reuid nobody --regid nogroup --clear-groups \
			"$open/vfix" rebuild oci:../oci:legacy -o oci-archive:one.tar:x -j 7 --progress quiet
	)
	expect 'image' "$(sha256sum <"$open/deeper/one.tar")" "$(sha256sum <one.tar)"
	expect 'statement' "$(sha256sum <"$open/deeper/one.tar.intoto.json")" "$(sha256sum <one.tar.intoto.json)"
	expect 'what is left in the temporary directory' "$(ls -A "$open/tmp")" ''
	# The control: another base gives other bytes.
	run_vfix rebuild "$layout" -o oci-archive:two.tar:x --fallback always
	[ "$(sha256sum <two.tar)" != "$(sha256sum <one.tar)" ] || fail 'two images are one'
}

@test "rebuild: the statement beside a layout says what the bytes say" {
	run_vfix rebuild "$layout" -o oci:out:x
	statement=out.x.intoto.json
	expect_match stderr "$stderr" "statement of provenance: $statement"
	expect subject "sha256:$(jq -r '.subject[0].digest.sha256' $statement)" "$(skopeo inspect --format '{{.Digest}}' oci:out:x)"
	expect base "sha256:$(jq -r .predicate.base.digest.sha256 $statement)" "$(skopeo inspect --format '{{.Digest}}' "$layout")"
	# With other tools: both sides' hashes, and each range of bytes.
	umoci raw unpack --rootless --image out:x rootfs
	jq -r '.predicate.files[] | "\(.before.sha256)  '"$legacy_image"'/rootfs/\(.path)", "\(.after.sha256)  rootfs/\(.path)"' $statement >sums
	expect 'files stated' "$(wc -l <sums)" 4
	sha256sum --check --quiet sums
	jq -r '.predicate.files[] | .path as $p | (.sites + .edits)[] | "\($p) \(.offset) \(.before) \(.after)"' $statement >runs
	[ "$(wc -l <runs)" -gt 4 ]
	while read -r path offset before after; do
		expect "$path at $offset, before" "$(bytes_at "$legacy_image/rootfs/$path" "$offset" "$before")" "$before"
		expect "$path at $offset, after" "$(bytes_at "rootfs/$path" "$offset" "$after")" "$after"
	done <runs
	# All differences that cmp finds are in those ranges, or behind the old end.
	while read -r path; do
		cmp -l "$legacy_image/rootfs/$path" "rootfs/$path" 2>/dev/null | awk '{print $1 - 1}'
	done <<<"$(jq -r '.predicate.files[0].path' $statement)" >differ
	jq -r '.predicate.files[0] | (.sites + .edits)[] | "\(.offset) \(.before | length / 2)"' $statement >spans
	run awk 'NR == FNR {from[NR] = $1; to[NR] = $1 + $2; n = NR; next}
		{ok = 0; for (i = 1; i <= n; i++) if ($1 >= from[i] && $1 < to[i]) ok = 1; if (!ok) {print; bad = 1}} END {exit bad}' spans differ
	expect 'bytes that are not stated' "$output" ''
	[ -s differ ]
}

# bytes_at FILE OFFSET HEX: as many bytes as HEX has, in hex.
bytes_at() { dd if="$1" iflag=skip_bytes,count_bytes skip="$2" count=$((${#3} / 2)) status=none | od -An -v -tx1 | tr -d " \n"; }

@test "verify: --provenance prints the statement as it is, and proves it from the image alone" {
	run_vfix rebuild "$layout" -o oci-archive:out.tar:x --fallback always
	run_vfix verify out.tar --provenance
	expect statement "$output" "$(cat out.tar.intoto.json)"
	expect_match stderr "$stderr" 'the image matches its statement: 2 patched files, 3 added files'
	run_vfix verify out.tar --provenance --against "$layout"
	run_vfix verify out.tar --provenance --format json
	expect 'statement in JSON' "$(jq -c .provenance.statement <<<"$output")" "$(jq -c . out.tar.intoto.json)"
}

@test "verify: --provenance finds one bit that is not as stated, and an image that is another" {
	run_vfix rebuild "$layout" -o oci-archive:out.tar:x
	jq -c '.predicate.files[0].sites[0].after |= sub("^."; "f")' out.tar.intoto.json >false.json
	run_vfix 3 verify out.tar --statement false.json
	expect_match stderr "$stderr" 'statement: files: *: sites: offset *: after: got '
	expect_match stderr "$stderr" 'vfix: hint: '
	run_vfix rebuild "$layout" -o oci-archive:other.tar:x --fallback always
	run_vfix 3 verify other.tar --statement out.tar.intoto.json
	expect_match stderr "$stderr" 'about another image'
	run_vfix verify other.tar --provenance # the control
	mv other.tar.intoto.json away
	run_vfix 1 verify other.tar --provenance
	expect stdout "$output" ''
	expect_match stderr "$stderr" 'vfix: hint: name its file: --statement FILE'
}

@test "rebuild: --provenance none leaves none, FILE says where" {
	run_vfix rebuild "$layout" -o oci:out:x --provenance none
	expect files "$(ls -A)" out
	run_vfix rebuild "$layout" -o oci:out:x --provenance kept.json
	expect files "$(find . -mindepth 1 -maxdepth 1 | sort | tr '\n' ' ')" './kept.json ./out '
	run_vfix verify oci:out:x --statement kept.json
	run_vfix 2 rebuild "$layout" -o oci:out:x --provenance ''
}

@test "rebuild: a registry gets the statement as a referrer, found by the tag of its digest" {
	requires registry
	login
	run_vfix rebuild "docker://$registry/legacy:1" --push
	digest=${output#*@}
	expect_match stderr "$stderr" "statement of provenance: $registry/legacy@sha256:"
	# This registry has no referrers API: the list is an index with the digest as a tag.
	api "manifests/${digest/:/-}" -H 'Accept: application/vnd.oci.image.index.v1+json' >list
	expect 'type of the referrer' "$(jq -r '.manifests[0].artifactType' list)" application/vnd.in-toto+json
	expect 'predicate type' "$(jq -r '.manifests[0].annotations["in-toto.io/predicate-type"]' list)" https://vfix.dev/provenance/v1
	api "manifests/$(jq -r '.manifests[0].digest' list)" -H 'Accept: application/vnd.oci.image.manifest.v1+json' >referrer
	expect subject "$(jq -r .subject.digest referrer)" "$digest"
	api "blobs/$(jq -r '.layers[0].digest' referrer)" >statement
	expect 'digest in the statement' "sha256:$(jq -r '.subject[0].digest.sha256' statement)" "$digest"
	run_vfix verify "docker://$registry/legacy:1-vfix" --provenance --against "docker://$registry/legacy:1"
	expect statement "$output" "$(cat statement)"
	for file in statement list referrer; do
		run grep -c -e "$registry_password" -e "$BATS_TEST_TMPDIR" "$file"
		expect "passwords and paths in the $file" "$output" 0
	done
	# Repeating it changes nothing, and there is one referrer.
	run_vfix rebuild "docker://$registry/legacy:1" --push
	expect digest "${output#*@}" "$digest"
	api "manifests/${digest/:/-}" -H 'Accept: application/vnd.oci.image.index.v1+json' >again
	cmp list again
}

# make_packaged: the image oci:packaged:base. A package of dpkg that is installed for several architectures has a
# program under /lib, which is a symlink to usr/lib, as on a merged /usr.
make_packaged() {
	mkdir -p deb/DEBIAN deb/lib/old root/usr/lib root/var/lib/dpkg
	ln -s usr/lib root/lib
	: >root/var/lib/dpkg/status
	printf '%s\n' 'Package: vfix-old' 'Version: 1' 'Architecture: amd64' 'Multi-Arch: same' \
		'Maintainer: nobody <nobody@localhost>' 'Description: a program with call sites' >deb/DEBIAN/control
	cp "$build/fixtures/static-4k" deb/lib/old/program
	echo text >deb/lib/old/text
	dpkg-deb --root-owner-group --build deb old.deb
	dpkg --root="$work/root" --force-script-chrootless --install old.deb
	[ -e root/var/lib/dpkg/info/vfix-old:amd64.md5sums ]
	umoci init --layout packaged
	umoci new --image packaged:base
	umoci insert --image packaged:base root /
}

# dpkg_says IMAGE: the output of dpkg --verify about the packages in an image.
dpkg_says() {
	rm -rf unpacked
	umoci raw unpack --image "$1" unpacked >/dev/null
	dpkg --root="$work/unpacked" --verify
}

@test "rebuild: dpkg --verify sees the patched file, and with --update-dpkg nothing" {
	requires root
	make_packaged
	expect 'dpkg about the base' "$(dpkg_says packaged:base)" ''
	run_vfix rebuild oci:packaged:base -o oci:plain:x
	expect_match stderr "$stderr" 'dpkg package vfix-old:amd64: usr/lib/old/program no longer matches its md5sum'
	expect_match stderr "$stderr" '--update-dpkg'
	expect_match 'dpkg about the result' "$(dpkg_says plain:x)" /lib/old/program
	run_vfix rebuild oci:packaged:base -o oci:updated:x --update-dpkg
	expect_match stderr "$stderr" 'dpkg package vfix-old:amd64: updated the md5sum of usr/lib/old/program'
	expect 'dpkg about the corrected result' "$(dpkg_says updated:x)" ''
	run_vfix verify oci:updated:x --against oci:packaged:base --provenance
	expect_match stderr "$stderr" 'updated: the md5sums of patched files: var/lib/dpkg/info/vfix-old:amd64.md5sums'
	run_vfix rebuild oci:packaged:base --dry-run --format json --update-dpkg
	expect 'records in JSON' "$(jq -c '.packages[] | [.path, .package, .corrected]' <<<"$output")" '["usr/lib/old/program","vfix-old:amd64",true]'
}

@test "verify: another change of dpkg's md5sums is a difference" {
	requires root
	make_packaged
	run_vfix rebuild oci:packaged:base -o oci:updated:x --update-dpkg
	umoci raw unpack --image updated:x unpacked
	sums=var/lib/dpkg/info/vfix-old:amd64.md5sums
	sed -i '/text$/s/^./g/' "unpacked/$sums"
	run_vfix 3 verify dir:unpacked --against dir:root
	expect_match stdout "$output" "$sums: offset 0x*: got byte "
	sed -i '/text$/s/^g/0/' "unpacked/$sums"
	run_vfix 3 verify dir:unpacked --against dir:root
}

@test "rebuild: xattrs that vouch for the old content are dropped, with a warning" {
	cat >layer.py <<-'END'
		import io, sys, tarfile
		with tarfile.open(sys.argv[1], "w", format=tarfile.PAX_FORMAT) as t:
		    for name in ("patched", "kept"):
		        body = open(sys.argv[2] if name == "patched" else sys.argv[0], "rb").read()
		        i = tarfile.TarInfo(name)
		        i.size, i.mode = len(body), 0o755
		        i.pax_headers = {"SCHILY.xattr.security.ima": "\x03\x02x", "SCHILY.xattr.security.evm": "\x05y",
		                         "SCHILY.xattr.user.fsverity.sig": "z", "SCHILY.xattr.user.other": "1"}
		        t.addfile(i, io.BytesIO(body))
	END
	python3 layer.py layer.tar "$build/fixtures/static-4k"
	umoci init --layout marked
	umoci new --image marked:base
	umoci raw add-layer --image marked:base layer.tar
	run_vfix rebuild oci:marked:base -o oci:out:x --progress quiet
	expect_match stderr "$stderr" 'vfix: warning: patched: security.evm, security.ima, user.fsverity.sig dropped'
	[[ $stderr != *kept* ]] || fail 'a file that is not patched has a warning'
	blob=$(skopeo inspect --raw oci:out:x | jq -r '.layers[-1].digest | sub(":"; "/")')
	expect xattrs "$(python3 -c 'import sys, tarfile
for m in tarfile.open(sys.argv[1]): print(m.name, *sorted(m.pax_headers))' "out/blobs/$blob")" 'patched SCHILY.xattr.user.other'
	run_vfix verify oci:out:x --against oci:marked:base --provenance
	expect 'dropped, as stated' "$(jq -c '.predicate.files[0].droppedXattrs' <<<"$output")" '["security.evm","security.ima","user.fsverity.sig"]'
}

@test "patch: prelink's undo data are set aside, and the file runs" {
	requires oracle
	echo 'what prelink keeps' >undo
	objcopy --add-section .gnu.prelink_undo=undo "$build/fixtures/static-4k" prelinked
	run_vfix patch -o patched prelinked
	expect_match stderr "$stderr" 'prelink -u'
	expect 'sections with the name' "$(readelf -SW patched | grep -c ' \.gnu\.prelink_undo ')" 0
	objcopy -O binary --only-section=.vfix.prelink_undo --set-section-flags .vfix.prelink_undo=alloc patched aside
	cmp undo aside
	run "$novsyscall" ./prelinked
	expect 'status before' "$status" "$status_sigsys"
	"$novsyscall" ./patched
	eu-strip -o stripped patched
	"$novsyscall" ./stripped
	run_vfix verify ./patched --against ./prelinked
	# The control: a file that was not prelinked has no such warning.
	run_vfix patch -o other "$build/fixtures/static-4k"
	[[ $stderr != *prelink* ]] || fail 'a warning about a file that is not prelinked'
}

@test "verify: --explain disassembles both sides, as objdump does" {
	cp "$build/fixtures/static-4k" before
	run_vfix patch -o after before
	run_vfix verify ./after --against ./before --explain
	expect_match stdout "$output" 'what else changes'
	# Each instruction is also one of objdump's.
	run_vfix verify ./after --against ./before --explain --format json
	jq -r '.differences[0].sites[] | select(.form != "left") | .listing.before[] |
		(.vaddr | ltrimstr("0x")) + " " + (.bytes | gsub("(?<b>..)"; "\(.b) ") | rtrimstr(" "))' <<<"$output" | sort -u >said
	[ "$(wc -l <said)" -gt 10 ]
	expect 'instructions that objdump does not see so' "$(grep -cvxFf <(disassembled) said)" 0
	expect 'bytes of after' "$(jq -r '[.differences[0].sites[] | select(.form == "lea") | .change][0] | .after' <<<"$output")" \
		"$(bytes_at after "$(jq -r '[.differences[0].sites[] | select(.form == "lea") | .change][0] | .offset' <<<"$output")" 00000000000000)"
}

# disassembled: address and bytes of each instruction of the file before.
disassembled() { objdump -d --insn-width=15 before | sed -n 's/^ *\([0-9a-f]*\):\t\([0-9a-f ]*[0-9a-f]\) *\(\t.*\)*$/\1 \2/p'; }

@test "verify: --explain shows the code where something else differs" {
	cp "$build/fixtures/static-4k" before
	run_vfix patch -o after before
	# The first byte of the entry's code.
	entry=$(readelf -h before | sed -n 's/.*Entry point address: *0x//p')
	base=$(readelf -lW before | awk '$1 == "LOAD" && $2 ~ /^0x0*$/ {print $3; exit}')
	offset=$((16#$entry - base))
	printf '\xcc' | dd of=after bs=1 seek="$offset" conv=notrunc status=none
	run_vfix 3 verify ./after --against ./before --explain
	expect_match stdout "$output" "offset $(printf '%#x' "$offset"): got byte 0xcc"
	expect_match stdout "$output" int3
	run_vfix 2 verify ./after --explain
}

@test "rebuild: a signature of the base is reported, with the command to type" {
	requires registry
	login
	run_vfix rebuild "docker://$registry/legacy:1" --push
	[[ $stderr != *cosign* ]] || fail 'a signature that does not exist'
	digest=$(skopeo inspect --tls-verify=false --creds "$registry_user:$registry_password" --format '{{.Digest}}' "docker://$registry/legacy:1")
	# cosign's signature is an image under a tag; its contents do not matter here.
	umoci init --layout sig
	umoci new --image sig:x
	skopeo copy --quiet --dest-tls-verify=false --dest-creds "$registry_user:$registry_password" oci:sig:x "docker://$registry/legacy:${digest/:/-}.sig"
	run_vfix rebuild "docker://$registry/legacy:1" --push
	expect_match stderr "$stderr" "the base has a cosign signature (${digest/:/-}.sig)"
	expect_match stderr "$stderr" "cosign sign $output"
}

# make_rpm_databases PATH: sqlite/rpmdb.sqlite and Packages, rpm's current database and that of CentOS 6, with one
# package that has the file.
make_rpm_databases() {
	mkdir -p top
	cat >old.spec <<-END
		Name: old-libs
		Version: 2.12
		Release: 1.el6
		Summary: a program with call sites
		License: none
		BuildArch: noarch
		%description
		%install
		mkdir -p %{buildroot}${1%/*}
		echo x >%{buildroot}$1
		%files
		$1
	END
	rpmbuild -bb --define "_topdir $PWD/top" old.spec
	mkdir sqlite
	rpm --dbpath "$PWD/sqlite" --install --justdb --nodeps --ignorearch --nosignature top/RPMS/noarch/*.rpm
	python3 -c '
import sqlite3, struct
print("VERSION=3\nformat=bytevalue\ntype=hash\nHEADER=END")
for number, header in sqlite3.connect("sqlite/rpmdb.sqlite").execute("select hnum, blob from Packages"):
    print("", struct.pack("<I", number).hex(), sep=" ")
    print("", header.hex(), sep=" ")
print("DATA=END")' | db5.3_load Packages
}

@test "rebuild: the rpm package of a patched file is reported, from both kinds of database" {
	has_commands rpm rpmbuild db5.3_load python3 || fail 'they are in tests/install-deps'
	# Under /lib64, as before it was a symlink.
	make_rpm_databases /lib64/old/program
	for db in sqlite/rpmdb.sqlite Packages; do
		rm -rf root layout
		mkdir -p root/usr/lib64/old root/var/lib/rpm
		cp "$build/fixtures/static-4k" root/usr/lib64/old/program
		cp "$db" root/var/lib/rpm/
		umoci init --layout layout
		umoci new --image layout:base
		umoci insert --rootless --image layout:base root /
		run_vfix rebuild oci:layout:base -o "oci:layout:x"
		expect_match stderr "$stderr" 'rpm package old-libs-2.12-1.el6.noarch: usr/lib64/old/program no longer matches its recorded digest'
		expect_match stderr "$stderr" 'the record is signed and cannot be updated'
	done
	# A damaged database is reported, but is not an error.
	printf '\1' | dd of=root/var/lib/rpm/Packages bs=1 seek=12 conv=notrunc status=none # its magic number
	umoci init --layout damaged
	umoci new --image damaged:base
	umoci insert --rootless --image damaged:base root /
	run_vfix rebuild oci:damaged:base -o oci:damaged:x
	expect_match stderr "$stderr" 'vfix: warning: whether rpm has digests'
}
