#!/usr/bin/env bats
# bats file_tags=long
# Whatever happens, the destination has the old result or the whole new one.
# Functions are called by name.
# shellcheck disable=SC2317
load helpers
legacy_image=$small_image

# setup_file: an image that is killed at as many places as a large one: it has as many layers, and a program in one
# of them.
setup_file() {
	load helpers
	(has_image_tools && has_fixtures) >/dev/null || return 0
	local n tiny=$BATS_FILE_TMPDIR/tiny
	umoci init --layout "$tiny"
	umoci new --image "$tiny:x"
	umoci config --image "$tiny:x" --os linux --architecture amd64
	for n in 1 2 3; do
		mkdir "$BATS_FILE_TMPDIR/$n"
		echo text >"$BATS_FILE_TMPDIR/$n/text$n"
		[ $n != 2 ] || cp "$build/fixtures/libstubs.so" "$BATS_FILE_TMPDIR/$n"
		umoci insert --image "$tiny:x" "$BATS_FILE_TMPDIR/$n" /usr/lib
	done
}

setup() {
	requires image_tools legacy_image fixtures
	export DOCKER_HOST=unix://$BATS_TEST_TMPDIR/none.sock
	cd "$BATS_TEST_TMPDIR" || return
	layout=oci:$legacy_image/oci:legacy tiny=oci:$BATS_FILE_TMPDIR/tiny:x
}

# killed LEAST COMMAND...: runs the command, killed at the entry of each of several calls in turn, each time after
# the test's function prepare and before its function check. Fails if it succeeds after fewer than LEAST kills.
killed() {
	local call n kills=0 least=$1
	shift
	for call in fsync renameat unlinkat; do
		for n in 1 2 3 4 5 6 7; do
			prepare
			run "$build/killat" "$call" "$n" "$@"
			[ "$status" = 137 ] || break
			kills=$((kills + 1))
			echo "killed at $call $n"
			check
			# The remains do not affect the next run, which removes them.
			run -0 "$@"
			expect "left behind after a kill at $call $n" "$(find . -name '.vfix-*' | tr '\n' ' ')" ''
		done
	done
	echo "killed $kills times" >&3
	[ "$kills" -ge "$least" ] || fail "killed $kills times"
}

@test "rebuild: killed while it writes a layout, there is none or all of it" {
	prepare() { rm -rf out .vfix-* .out*; }
	check() { [ ! -e out ] || "$build/validate" out; }
	killed 5 "$VFIX" rebuild --progress quiet "$tiny" -o oci:out:x
	"$build/validate" out
}

@test "rebuild: killed while it adds to a layout, the old image is whole" {
	run_vfix rebuild "$tiny" -o oci:first:old --provenance none
	prepare() { rm -rf out && cp -r first out; }
	check() { "$build/validate" out && run_vfix scan oci:out:old; }
	# Only new content is written: the patched layer and the manifest of another fallback mode.
	killed 5 "$VFIX" rebuild --progress quiet --provenance none --fallback always "$tiny" -o oci:out:new
}

@test "rebuild: killed while it writes an archive, the old one is there" {
	run_vfix rebuild "$tiny" -o oci-archive:old.tar --provenance none
	run_vfix rebuild "$tiny" -o oci-archive:new.tar --provenance none --fallback always
	prepare() { rm -f .vfix-* && cp old.tar out.tar; }
	check() { cmp out.tar old.tar || cmp out.tar new.tar; }
	killed 3 "$VFIX" rebuild --progress quiet --provenance none --fallback always "$tiny" -o oci-archive:out.tar
}

@test "rebuild: a full disk is an error, and leaves nothing on it" {
	requires root
	mkdir small root
	full() { # DEST MEGABYTES
		# shellcheck disable=SC2016 # for the other shell
		"$tree/tests/own-mounts" "$PWD/root" sh -c 'mount -t tmpfs -o size="$4m" none small && "$1" rebuild --progress quiet "$2" -o "$3" 2>err; echo "status $?"; ls -A small' \
			sh "$VFIX" "$layout" "$1" "$2"
	}
	for dest in oci:small/out:x oci-archive:small/out.tar docker-archive:small/out.tar:x:1; do
		run full "$dest" 1
		expect "$dest" "$output" 'status 1'
		expect_match stderr "$(cat err)" 'no space left'
		expect_match stderr "$(cat err)" 'free some space'
		run full "$dest" 40
		expect_match "$dest with room" "$output" 'status 0'
	done
	# The disk with the temporary files is full.
	# shellcheck disable=SC2016 # for the other shell
	run "$tree/tests/own-mounts" "$PWD/root" sh -c 'mount -t tmpfs -o size=16k none small && TMPDIR=small "$1" rebuild --progress quiet "$2" -o oci:out:x 2>err; echo "status $?"; ls -A small' \
		sh "$VFIX" "$layout"
	expect 'full TMPDIR' "$output" 'status 1'
	expect_match stderr "$(cat err)" 'TMPDIR'
	[ ! -e out ] || fail 'there is a result'
}

@test "rebuild: two at once into one layout, and both images are in it" {
	for tag in a b c; do
		"$VFIX" rebuild --progress quiet "$layout" -o "oci:out:$tag" >"$tag.out" 2>&1 3>&- &
		pids[${#pids[@]}]=$!
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || fail "$(cat ./*.out)"
	done
	expect tags "$(jq -r '.manifests[].annotations["org.opencontainers.image.ref.name"] // empty' out/index.json | sort | tr '\n' ' ')" 'a b c '
	"$build/validate" out
	expect 'left behind' "$(find . -maxdepth 1 -name '.*' ! -name . | tr '\n' ' ')" ''
}

@test "rebuild: two at once into one archive, and it is whole" {
	for n in 1 2; do
		"$VFIX" rebuild --progress quiet "$layout" -o oci-archive:out.tar >"$n.out" 2>&1 3>&- &
		pids[${#pids[@]}]=$!
	done
	for pid in "${pids[@]}"; do
		wait "$pid" || fail "$(cat ./*.out)"
	done
	run_vfix verify oci-archive:out.tar --against "$layout"
}

@test "patch -i: killed at any moment, each file is the old or the new one, and the next run removes what is left" {
	mkdir want
	cp "$build/fixtures/libstubs.so" want/old
	"$VFIX" patch --quiet -o want/new want/old
	killed=0 left=0
	for call in pwrite64 fchmod fsync renameat; do
		for n in 1 2 3 4; do
			rm -rf tree
			mkdir -p tree/a tree/b
			cp want/old tree/a/one
			cp want/old tree/a/two
			cp want/old tree/b/three
			# Another user's file, whatever it looks like.
			touch tree/a/.vfix-0123456789abcdef tree/a/.vfix-in-notes
			run "$build/killat" "$call" "$n" "$VFIX" patch --quiet -i tree
			[ "$status" = 137 ] || continue
			killed=$((killed + 1))
			for f in tree/a/one tree/a/two tree/b/three; do
				cmp -s "$f" want/old || cmp "$f" want/new
			done
			left=$((left + $(find tree -name '.vfix-in-*' ! -name '*notes' | wc -l)))
			run_vfix patch --quiet -i tree
			for f in tree/a/one tree/a/two tree/b/three; do
				cmp "$f" want/new
			done
			expect "left behind after a kill at $call $n" "$(find tree -type f | sort | tr '\n' ' ')" \
				'tree/a/.vfix-0123456789abcdef tree/a/.vfix-in-notes tree/a/one tree/a/two tree/b/three '
		done
	done
	# The control: there was something to remove.
	expect 'killed, and files left' "$((killed > 9)) $((left > 9))" '1 1'
}
