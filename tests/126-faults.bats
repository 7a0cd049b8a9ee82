#!/usr/bin/env bats
# bats file_tags=long
# Each system call of a verb fails once, with EIO: the verb fails with a message that names the object, or is right in spite of
# it, and nothing is there half-written. tests/oracle/killat.c lets them fail.
# shellcheck disable=SC2154
load helpers

setup() {
	requires root fixtures
	export DOCKER_HOST=unix://$BATS_TEST_TMPDIR/none.sock
	cd "$BATS_TEST_TMPDIR" || return
	mkdir -p root/usr/lib root/etc
	cp "$build/fixtures/libstubs.so" root/usr/lib/libstubs.so
	echo text >root/etc/text
	tar -C root --sort=name --owner=0 --group=0 -cf layer.tar .
	"$VFIX" convert --quiet layer.tar -o oci-archive:base.tar:x
	mkdir in
}

has_fixtures() { [ -e "$build/fixtures/libstubs.so" ] || { echo "make fixtures has not been run" && return 1; }; }

# listing: all that is in the folder work, with the content; a lock that could not be removed holds up nobody.
listing() { (cd work && find . -name '.*.vfix-lock' -o -type f -exec sha256sum {} + -o -printf '%p %y\n' | sort); }

empty() { rm -rf work && mkdir work; }

# faults OBJECT PREPARE COMMAND...: lets each call of the command fail once, in a folder work that PREPARE makes. OBJECT is a
# pattern: what the messages name. After an error the folder is as it was, or as it is after a success.
calls=(openat read pread64 write pwrite64 fstat newfstatat getdents64 fsync fchmod fchown renameat unlinkat mkdirat ftruncate flock utimensat linkat
	copy_file_range readlinkat close fsetxattr flistxattr fgetxattr execve)
faults() {
	local object=$1 prepare=$2 call n made=0 failed=0 before want after text right=0
	shift 2
	empty && "$prepare"
	before=$(listing)
	want_output=$("$@" 2>err) || right=$?
	[ "$right" = 0 ] || [ "$right" = 3 ] || fail "the control: $(<err)"
	want=$(listing)
	for call in "${calls[@]}"; do
		# The first ones are those of the program's own start.
		for ((n = 1; n < 200; n += n < 12 ? 1 : 9)); do
			empty && "$prepare"
			status=0
			text=$("$build/killat" -e 5 "$call" "$n" "$@" 2>err) || status=$?
			grep -q '^killat: failed' err || break
			sed -i '/^killat: failed/d' err
			# Go's runtime cannot do without its own pipes.
			! grep -q '^runtime: netpoll\|^runtime: epoll' err || continue
			made=$((made + 1))
			after=$(listing)
			undone "$call $n"
			if [ "$status" = "$right" ]; then
				[ "$text" = "$want_output" ] || bad "$call $n: status $status, and prints $text, want $want_output"
				# Files that cannot be removed stay, and the next run removes it.
				[ "$after" = "$want" ] || [ "$call" = unlinkat ] || bad "$call $n: status $status, and there is $(diff <(echo "$want") <(echo "$after"))"
				continue
			fi
			failed=$((failed + 1))
			# 4: incomplete, with the files that could not be read
			[ "$status" = 1 ] || [ "$status" = 4 ] || bad "$call $n: status $status: $(<err)"
			grep -qE "$object|/tmp/vfix-|stdout" err || bad "$call $n: names nothing: $(<err)"
			! grep -qE '^panic|^goroutine |^fatal error|internal error|bug in vfix' err || bad "$call $n: $(<err)"
			[ "$status" = 4 ] || [ "$after" = "$before" ] || [ "$after" = "$want" ] || bad "$call $n: $(<err): left $(diff <(echo "$before") <(echo "$after"))"
		done
	done
	echo "$made calls failed once, $failed times that was an error"
	if [ "$made" -le 30 ] || [ "$failed" -le 10 ]; then fail "not tested: $made, $failed"; fi
	[ ! -e bad ] || fail "$(wc -l <bad) of $made: $(head -n 40 bad)"
}

# bad LINE: collects what is wrong.
bad() { echo "${1//$'\n'/ | }" >>bad; }

# undone FAULT: what else is to hold after each.
undone() { :; }

nothing() { :; }

@test "rebuild: each call fails once, to an archive" {
	faults 'base\.tar|work/out\.tar|libstubs' nothing "$VFIX" rebuild --quiet --provenance none oci-archive:base.tar -o oci-archive:work/out.tar
}

@test "rebuild: each call fails once, to a layout" {
	faults 'base\.tar|work/out|libstubs' nothing "$VFIX" rebuild --quiet --provenance none oci-archive:base.tar -o oci:work/out:x
}

@test "patch -i: each call fails once" {
	tree() { cp -r root/. work; }
	faults 'work|libstubs' tree "$VFIX" patch --quiet -i work
}

@test "patch: each call fails once, to a file" {
	faults 'root|work/out' nothing "$VFIX" patch --quiet -o work/out root/usr/lib/libstubs.so
}

@test "convert: each call fails once, to a folder" {
	faults 'base\.tar|work/out|libstubs|text' nothing "$VFIX" convert --quiet oci-archive:base.tar -o dir:work/out
}

@test "scan: each call fails once" {
	faults 'base\.tar|libstubs' nothing "$VFIX" scan --quiet --format json oci-archive:base.tar
}

@test "hotfix: each call fails once" {
	empty() { { chattr -R -f -i work || true; } && rm -rf work && mkdir work; } # copies are immutable
	# The store's notes beside copies are removed by the next run if no copy has their name.
	listing() { (cd work && find . -type f ! -regex '\./copies/v1/\(sums\|leases\|tmp\)/.*' -exec sha256sum {} + | sort); }
	faults 'base\.tar|/work\b|libstubs' nothing "$VFIX" hotfix --quiet --for docker -o work/copies oci-archive:base.tar
	empty
}

@test "install: each call fails once, and uninstall leaves the machine as it was" {
	head -c 100000 "$VFIX" >small # as the program, which is copied each time
	engine() {
		mkdir -p work/usr/{bin,sbin} work/etc/docker work/usr/local/bin work/var/lib
		install -m 755 /dev/null work/usr/sbin/dockerd
		install -m 755 /dev/null work/usr/bin/runc
		echo '{"labels": ["a=b"]}' >work/etc/docker/daemon.json
	}
	# Its records, for uninstall, are there before anything else changes.
	listing() { (cd work && find . -path ./var/lib/vfix-install -prune -o -type f -exec sha256sum {} + -o -printf '%p %y\n' | sort); }
	undone() {
		"$VFIX" uninstall docker --root work >/dev/null 2>err || grep -q 'is not installed' err || bad "uninstall after $1: $(<err)"
		[ "$(listing)" = "$before" ] || bad "uninstall after $1: left $(diff <(echo "$before") <(listing))"
	}
	faults 'work|vfix' engine "$VFIX" install docker --root work --program small
}
