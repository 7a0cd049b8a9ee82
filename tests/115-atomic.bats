#!/usr/bin/env bats
# Whatever happens there is the old result or the whole new one.
load helpers

setup() {
	requires image_tools legacy_image
	export DOCKER_HOST=unix://$BATS_TEST_TMPDIR/none.sock
	cd "$BATS_TEST_TMPDIR" || return
	layout=oci:$legacy_image/oci:legacy
}

blobs() { find "$1" -path '*/blobs/*' -type f 2>/dev/null | wc -l; }

# interrupted N DEST: starts a rebuild and kills it as soon as N blobs of it are there, in a
# folder that is going to be the layout or is it. Prints how it ended.
interrupted() {
	local pid
	"$VFIX" rebuild --progress quiet "$layout" -o "$2" >/dev/null 2>&1 3>&- &
	pid=$!
	until has_ended "$pid" || [ "$(blobs .)" -ge "$1" ]; do :; done
	kill -KILL "$pid" 2>/dev/null
	wait "$pid"
	echo "$?"
}

@test "rebuild: killed while it writes a layout, there is none or all of it" {
	for n in 1 3 5; do
		rm -rf out .vfix-* .out*
		run interrupted "$n" oci:out:x
		echo "at $n blobs: $output"
		if [ -e out ]; then
			"$build/validate" out
		fi
		# The next run is not hindered by what is left, and removes it.
		run_vfix rebuild "$layout" -o oci:out:x
		"$build/validate" out
		expect 'left behind' "$(find . -name '.vfix-*' | tr '\n' ' ')" ''
	done
}

@test "rebuild: killed while it adds to a layout, the old image is whole" {
	run_vfix rebuild "$layout" -o oci:first:old --provenance none
	for n in 1 3; do
		rm -rf out
		cp -r first out
		# Only what is new is written: the patched layer and the manifest of another fallback mode.
		"$VFIX" rebuild --progress quiet --provenance none --fallback always "$layout" -o oci:out:new >/dev/null 2>&1 3>&- &
		pid=$!
		until has_ended "$pid" || [ "$(blobs out)" -ge "$(($(blobs first) + n))" ]; do :; done
		kill -KILL "$pid" 2>/dev/null || true
		wait "$pid" || true
		"$build/validate" out
		run_vfix scan oci:out:old
	done
}

@test "rebuild: killed while it writes an archive, the old one is there" {
	run_vfix rebuild "$layout" -o oci-archive:old.tar --provenance none
	run_vfix rebuild "$layout" -o oci-archive:new.tar --provenance none --fallback always
	# It may be through before it is seen to write; one of a few is not.
	for _ in 1 2 3 4 5 6 7 8; do
		cp old.tar out.tar
		rm -f .vfix-*
		"$VFIX" rebuild --progress quiet --provenance none --fallback always "$layout" -o oci-archive:out.tar >/dev/null 2>&1 3>&- &
		pid=$!
		until ! [ -e "/proc/$pid/exe" ] || compgen -G '.vfix-*' >/dev/null; do :; done
		kill -KILL "$pid" 2>/dev/null || true
		wait "$pid" && status=0 || status=$?
		if [ "$status" = 137 ] && cmp out.tar old.tar; then
			run_vfix rebuild "$layout" -o oci-archive:out.tar --provenance none
			expect 'left behind' "$(find . -name '.vfix-*' | tr '\n' ' ')" ''
			return
		fi
		cmp out.tar new.tar
	done
	fail 'it was never killed while it wrote'
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
		run full "$dest" 4
		expect "$dest" "$output" 'status 1'
		expect_match stderr "$(cat err)" 'no space left'
		expect_match stderr "$(cat err)" 'free some space'
		run full "$dest" 400
		expect_match "$dest with room" "$output" 'status 0'
	done
	# The place for what is needed for a while is full.
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
	cp "$legacy_image/rootfs/usr/lib/x86_64-linux-gnu/libc.so.6" want/old
	"$VFIX" patch --quiet -o want/new want/old
	killed=0 left=0
	for call in pwrite64 fchmod fsync renameat; do
		for n in 1 2 3 4; do
			rm -rf tree
			mkdir -p tree/a tree/b
			cp want/old tree/a/one
			cp want/old tree/a/two
			cp want/old tree/b/three
			# Of somebody else, whatever it looks like.
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
