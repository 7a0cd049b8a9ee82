#!/usr/bin/env bats
# bats file_tags=long
# Each system call of a verb fails once, with EIO: the verb fails with a message that names the object, or is right in spite of
# it, and nothing is there half-written. tests/oracle/killat.c lets them fail.
# shellcheck disable=SC2154
load helpers

setup() {
	requires root fixtures
	shopt -s extglob
	export DOCKER_HOST=unix://$BATS_TEST_TMPDIR/none.sock
	cd "$BATS_TEST_TMPDIR" || return
	mkdir -p root/usr/lib root/etc
	cp "$build/fixtures/libstubs.so" root/usr/lib/libstubs.so
	echo text >root/etc/text
	tar -C root --sort=name --owner=0 --group=0 -cf layer.tar .
	"$VFIX" convert --quiet layer.tar -o oci-archive:base.tar:x
	mkdir in
}

teardown() { chattr -R -f -i work || true; } # hotfix's copies, of a test that failed

has_fixtures() { [ -e "$build/fixtures/libstubs.so" ] || { echo "make fixtures has not been run" && return 1; }; }

# same DIRECTORY: the folder work is as that one is; a lock that could not be removed holds up nobody.
same() { diff -rq --no-dereference -x '.*.vfix-lock' "$1" work >differs; }

empty() { rm -rf work && mkdir work; }

# faults OBJECT PREPARE COMMAND...: lets each call of the command fail once, in a folder work that PREPARE makes. OBJECT is a
# pattern: what the messages name, if it is not a folder that all this is in. After an error the folder is as it was, or as it is after a success. Without bats' trap,
# which takes longer than most of its commands.
calls=(openat read pread64 write pwrite64 fstat newfstatat getdents64 fsync fchmod fchown renameat unlinkat mkdirat ftruncate flock utimensat linkat
	copy_file_range readlinkat close fsetxattr flistxattr fgetxattr execve)
faults() (
	trap - DEBUG
	object=$1 prepare=$2 made=0 failed=0 right=0 above='' folder=$BATS_TEST_TMPDIR
	while [ "$folder" ]; do above+=${above:+|}${folder//./\\.}': ' folder=${folder%/*}; done
	shift 2
	empty && "$prepare" && cp -a work before
	want_output=$("$@" 2>err) || right=$?
	[ "$right" = 0 ] || [ "$right" = 3 ] || fail "the control: $(<err)"
	cp -a work want
	for call in "${calls[@]}"; do
		# The first ones are those of the program's own start.
		for ((n = 1; n < 200; n += n < 12 ? 1 : 9)); do
			empty && "$prepare"
			status=0
			text=$("$build/killat" -e 5 "$call" "$n" "$@" 2>err) || status=$?
			err=$'\n'$(<err)$'\n'
			[[ $err == *$'\nkillat: failed'* ]] || break
			# Go's runtime cannot do without its own pipes.
			[[ $err != *$'\nruntime: netpoll'* && $err != *$'\nruntime: epoll'* ]] || continue
			made=$((made + 1))
			left=$(same want || cat differs)
			if [ "$status" = "$right" ]; then
				[ "$text" = "$want_output" ] || bad "$call $n: status $status, and prints $text, want $want_output"
				# Files that cannot be removed stay, and the next run removes it.
				[ -z "$left" ] || [ "$call" = unlinkat ] || bad "$call $n: status $status, and there is $left"
				undone "$call $n"
				continue
			fi
			failed=$((failed + 1))
			# 4: incomplete, with the files that could not be read
			[ "$status" = 1 ] || [ "$status" = 4 ] || bad "$call $n: status $status: $err"
			[[ ${err//$'\n'killat: failed*([^$'\n'])/} =~ $object|$above|/tmp/vfix-|stdout ]] || bad "$call $n: names nothing: $err"
			[[ ! $err =~ (^|$'\n')(panic|'goroutine '|'fatal error')|internal\ error|bug\ in\ vfix ]] || bad "$call $n: $err"
			[ "$status" = 4 ] || [ -z "$left" ] || same before || bad "$call $n: $err: left $(<differs)"
			undone "$call $n"
		done
	done
	echo "$made calls failed once, $failed times that was an error"
	if [ "$made" -le 30 ] || [ "$failed" -le 10 ]; then fail "not tested: $made, $failed"; fi
	[ ! -e bad ] || fail "$(wc -l <bad) of $made: $(head -n 40 bad)"
)

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
	# The store's notes beside copies, and locks, are removed by the next run if no copy has their name. Empty folders may stay.
	files() { (cd "$1" && find . -type f ! -regex '\./copies/v1/\(sums\|leases\|locks\|tmp\)/.*' -exec sha256sum {} + | sort); }
	same() { diff <(files "$1") <(files work) >differs; }
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
	same() { diff -rq --no-dereference -x vfix-install "$1" work >differs; }
	undone() {
		local said
		said=$("$VFIX" uninstall docker --root work 2>&1 >/dev/null) || [[ $said == *'is not installed'* ]] || bad "uninstall after $1: $said"
		same before || bad "uninstall after $1: left $(<differs)"
	}
	faults 'work|vfix' engine "$VFIX" install docker --root work --program small
}

# Not read and close: os/exec reads from a pipe whether a child could be started, and waits for its end after an error; a
# pipe that is not closed has no end.
@test "start: each call fails once, and the record says what happened" {
	requires runtime
	legacy_program clock
	ln -s "$(command -v busybox)" true
	(cd in && runc spec)
	jq '.process.args = ["/clock"] | .root.readonly = true' in/config.json >config.json
	echo "{\"record\": \"$PWD/starts.jsonl\", \"cache_dir\": \"$PWD/cache\", \"fail_closed\": true, \"trusted_hooks\": \"$PWD/true\"}" >runtime.json
	chmod 600 runtime.json
	bundle() {
		rm -rf cache starts.jsonl
		mkdir work/rootfs
		cp clock work/rootfs/
		cp config.json work/
	}
	# Its own notes, and the names of copies in a lease's directory, differ.
	same() { diff <(jq -c '[.mounts[].destination]' "$1/config.json") <(jq -c '[.mounts[].destination]' work/config.json) >differs; }
	undone() {
		local said
		said=$(tail -n 1 starts.jsonl | jq -r .outcome) || said=nothing
		case $status in
		0) [ "$said" = patched ] || [[ $err == *'record: '* || $err == *starts.jsonl* ]] || bad "$1: starts, recorded as $said: $err" ;;
		*) [ "$said" != patched ] || bad "$1: status $status, recorded as $said: $err" ;;
		esac
	}
	calls=(openat write fstat newfstatat getdents64 fsync fchmod renameat unlinkat mkdirat flock execve)
	faults 'work|cache|clock|runtime' bundle "$VFIX_RUNTIME" --vfix-config runtime.json --runtime "$PWD/true" create --bundle work id
}
has_runtime() { has_commands runc jq busybox && [ -x "$VFIX_RUNTIME" ]; }
