#!/usr/bin/env bats
# bats file_tags=long
# The files of a release: built twice, in two directories, and used as its users do. The tree is copied and
# committed there, so that a tree with changes is tested unchanged.
# Variables come from helpers.bash.
# shellcheck disable=SC2154,SC2016
load helpers

setup_file() {
	load helpers
	export one=$BATS_FILE_TMPDIR/one two="$BATS_FILE_TMPDIR/a longer name/two"
	export work=$BATS_FILE_TMPDIR/work
	export GOGC=400 # from the Makefile, for compilers and what reads all code
	mkdir -p "$work"
	(has_dist_tools) >/dev/null || return 0
	copy_tree "$one"
	copy_tree "$two"
	vulnerabilities "$work/vulndb" '[]'
	openssl genpkey -algorithm ed25519 -out "$work/key.pem"
	export SIGNING_KEY=$work/key.pem IMAGE=registry.example.org/vfix DOWNLOADS="file://$work/published-{version}"
	make_dist "$one" release
	(umask 077 && export TZ=Asia/Tokyo LC_ALL=C.UTF-8 GOFLAGS=-tags=nothing TMPDIR=$work && make_dist "$two") # what a release refuses is known by now
	# The next version, for an upgrade: only the version in the programs differs.
	mv "$one/dist" "$work/v1"
	ln -s v1 "$work/published-1.2.3"
	in_tree "$one" commit -q --allow-empty -m 'one more'
	make_dist "$one"
	mv "$one/dist" "$work/v2"
}

has_dist_tools() { has_commands git make musl-gcc dpkg-deb dpkg rpm jq man mandoc openssl; }

# vulnerabilities DIRECTORY MODULES: a database of govulncheck (https://go.dev/doc/security/vuln/database).
vulnerabilities() {
	mkdir -p "$1/index"
	echo '{"modified": "2023-11-14T22:13:20Z"}' >"$1/index/db.json"
	echo "$2" >"$1/index/modules.json"
}

in_tree() {
	local dir=$1
	shift
	GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000' \
		git -C "$dir" -c user.name=test -c user.email=test@example.com -c safe.directory='*' "$@"
}

# copy_tree DIRECTORY: the files of this tree that git has, or would add, as a commit with the tag v1.2.3.
copy_tree() {
	mkdir -p "$1"
	git -c safe.directory='*' -C "$tree" ls-files -z -co --exclude-standard |
		tar -C "$tree" --null --no-recursion --ignore-failed-read --warning=no-failed-read -T - -c | tar -C "$1" -x
	mkdir -p "$1/.cache" # a Go that install-deps fetched
	[ ! -d "$tree/.cache/go" ] || ln -s "$tree/.cache/go" "$1/.cache/go"
	sed -i '0,/^## \[Unreleased\]$/s//&\n\n## [1.2.3] - 2023-11-14/' "$1/CHANGELOG.md"
	in_tree "$1" init -q -b main
	in_tree "$1" add -A
	in_tree "$1" commit -q -m 'a release'
	in_tree "$1" tag v1.2.3
}

make_dist() { # DIRECTORY [TARGET]
	local status=0
	make -C "$1" "${2-dist}" PLATFORMS=linux/amd64 VULNDB="file://$work/vulndb" MAKEFLAGS= >"$work/make.log" 2>&1 || status=$?
	[ "$status" = 0 ] || {
		tail -n 30 "$work/make.log" >&2
		fail "make ${2-dist} in $1: status $status"
	}
}

@test "dist: two directories, umasks, time zones and locales give the same bytes" {
	requires dist_tools
	diff -r "$work/v1" "$two/dist"
	expect 'files' "$(cd "$work/v1" && echo *)" "SHA256SUMS SHA256SUMS.sig vfix-1.2.3-1.x86_64.rpm vfix-1.2.3-ci.tar.gz vfix-1.2.3-kubernetes.tar.gz vfix-1.2.3-licenses.csv \
vfix-1.2.3-linux-amd64.cdx.json vfix-1.2.3-linux-amd64.oci.tar vfix-1.2.3-linux-amd64.tar.gz vfix-1.2.3.intoto.json vfix.pub vfix_1.2.3_amd64.deb"
	# The control: another commit has another version, and other bytes.
	run ! cmp -s "$work/v1/SHA256SUMS" "$work/v2/SHA256SUMS"
}

@test "dist: the checksums and the provenance are those of the files, and name the commit and all modules" {
	requires dist_tools
	cd "$work/v1"
	sha256sum --quiet --strict -c SHA256SUMS
	expect 'files in SHA256SUMS' "$(wc -l <SHA256SUMS)" "$(find . -type f ! -name 'SHA256SUMS*' ! -name vfix.pub | wc -l)"
	# According to docs/start.md, with the control.
	verify() { openssl pkeyutl -verify -rawin -in "$1" -sigfile SHA256SUMS.sig -pubin -inkey vfix.pub; }
	verify SHA256SUMS
	sed 1d SHA256SUMS >"$work/fewer"
	run ! verify "$work/fewer"
	jq -r '.subject[] | .digest.sha256 + "  " + .name' ./*.intoto.json >"$work/subjects"
	sha256sum --quiet --strict -c "$work/subjects"
	expect 'subjects' "$(wc -l <"$work/subjects")" 8
	expect 'parameters' "$(jq -c '.predicate.buildDefinition.externalParameters | [.repository, .image, .platforms, .maintainer]' ./*.intoto.json)" \
		'["git+https://vfix.dev/vfix","registry.example.org/vfix","linux/amd64","test <test@example.com>"]'
	expect 'commit' "$(jq -r '.predicate.buildDefinition.resolvedDependencies[0].digest.gitCommit' ./*.intoto.json)" "$(in_tree "$two" rev-parse HEAD)"
	tar -x -f vfix-1.2.3-linux-amd64.tar.gz -C "$work"
	"$("$tree/tests/install-deps" --print-go)" version -m "$work/vfix-1.2.3-linux-amd64/bin/vfix" "$tree/bin/vfix-runtime" | awk '$1 == "dep" { print $2 "@" $3 }' | sort -u >"$work/modules"
	[ -s "$work/modules" ]
	diff "$work/modules" <(jq -r '.components[] | select(.purl // "" | startswith("pkg:golang/")) | .name + "@" + .version' ./*.cdx.json | grep -v ^std@ | sort)
	diff "$work/modules" <(jq -r '.predicate.buildDefinition.resolvedDependencies[1:][].uri' ./*.intoto.json | sed 's|^pkg:golang/||' | sort)
	# The C code, file by file.
	jq -r '.components[] | select(.name == "vfix-shim") | .components[] | .hashes[0].content + "  " + .name' ./*.cdx.json >"$work/shim"
	[ "$(wc -l <"$work/shim")" -ge 10 ]
	(cd "$two/shim/embedded" && sha256sum --quiet --strict -c "$work/shim")
}

@test "dist: the tarball's vfix is static, knows its version, and has the licence of each module" {
	requires dist_tools
	local root=$work/vfix-1.2.3-linux-amd64 module
	tar -x -f "$work/v1/vfix-1.2.3-linux-amd64.tar.gz" -C "$work"
	VFIX=$root/bin/vfix run_vfix version
	expect_match version "$output" 'vfix v1.2.3'
	run readelf -l "$root/bin/vfix"
	[[ $output != *INTERP* ]]
	while IFS=@ read -r module _; do
		find "$root/share/doc/vfix/licenses/$module" -type f -size +0 | grep -q . || fail "no licence of $module"
	done < <("$("$tree/tests/install-deps" --print-go)" version -m "$root/bin/vfix" | awk '$1 == "dep" { print $2 "@" $3 }')
	[ -s "$root/share/doc/vfix/licenses/go/LICENSE" ]
	# The list has a row with a license for each module, the standard library and musl.
	diff <(tail -n +2 "$work/v1/vfix-1.2.3-licenses.csv" | cut -d , -f 1 | sort) \
		<({ echo go && echo musl && awk -F @ '{ print $1 }' "$work/modules"; } | sort)
	run ! grep -E '^[^,]*,[^,]*,,' "$work/v1/vfix-1.2.3-licenses.csv"
	grep -q 'Rich Felker' "$root/share/doc/vfix/licenses/musl/COPYRIGHT"
	tar -t -v -f "$work/v1/vfix-1.2.3-linux-amd64.tar.gz" | grep -v '^[-d]r.xr.xr.x 0/0\|^-rw-r--r-- 0/0' | grep . && fail 'odd owners or modes'
	true
}

@test "dist: every page of the manual renders without a complaint, and each verb has one" {
	requires dist_tools
	local root=$work/manual page verb said locale
	mkdir -p "$root"
	tar -x -f "$work/v1/vfix-1.2.3-linux-amd64.tar.gz" -C "$root" --strip-components=1
	for page in "$root"/share/man/man?/*; do
		for locale in C.UTF-8 C; do
			said=$(LC_ALL=$locale MANWIDTH=100 man --warnings=w -l "$page" 2>&1 >"$work/page")
			expect "complaints of $page, $locale" "$said" ''
		done
		grep -q '^DESCRIPTION' "$work/page" || fail "$page: no description"
		zcat -f "$page" | mandoc -T lint -W error >"$work/lint" || fail "$page: $(cat "$work/lint")"
	done
	"$VFIX" help | sed -n '/^Verbs:/,/^$/s/^  \([a-z]*\) .*/\1/p' >"$work/verbs"
	[ "$(wc -l <"$work/verbs")" -gt 12 ]
	while read -r verb; do
		[ "$verb" = help ] || [ -s "$root/share/man/man1/vfix-$verb.1.gz" ] || fail "no page for vfix $verb"
	done <"$work/verbs"
	man -M "$root/share/man" vfix-rebuild | grep -qi 'exit status'
}

# deb_root: a root into which dpkg can install a static program, as that has no scripts to run.
deb_root() {
	local root=$1
	mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates"
	: >"$root/var/lib/dpkg/status"
	: >"$root/var/lib/dpkg/available"
}

@test "dist: the deb installs, upgrades and purges; nothing is left, and what vfix install set up stays" {
	requires root dist_tools
	local root=$work/deb dpkg=(dpkg --root="$work/deb" --force-not-root --log=/dev/null)
	deb_root "$root"
	mkdir -p "$root/usr/local/bin"
	echo mine >"$root/usr/local/bin/vfix-runtime"
	find "$root" -path "$root/var" -prune -o -print | sort >"$work/before"
	"${dpkg[@]}" -i "$work/v1/vfix_1.2.3_amd64.deb"
	VFIX=$root/usr/bin/vfix run_vfix version
	expect_match version "$output" 'vfix v1.2.3'
	for file in man/man1/vfix.1.gz man/man1/vfix-rebuild.1.gz bash-completion/completions/vfix \
		zsh/vendor-completions/_vfix fish/vendor_completions.d/vfix.fish doc/vfix/copyright; do
		[ -s "$root/usr/share/$file" ] || fail "$file is not installed"
	done
	"${dpkg[@]}" -i "$work"/v2/*.deb
	expect 'version' "$(dpkg-query --root="$root" -W -f '${Version}' vfix)" "1.2.3+1.g$(in_tree "$one" rev-parse --short=12 HEAD)"
	"$root/usr/bin/vfix" version | grep -q '^vfix v1.2.3-1-g'
	"${dpkg[@]}" --purge vfix
	find "$root" -path "$root/var" -prune -o -print | sort >"$work/after"
	diff "$work/before" "$work/after"
}

@test "dist: the rpm installs, upgrades and is removed; nothing is left" {
	requires root dist_tools
	local root=$work/rpm
	mkdir -p "$root/usr/local/bin"
	rpm --root "$root" --initdb
	rpm --root "$root" --nodeps -U "$work/v1/vfix-1.2.3-1.x86_64.rpm"
	rpm --root "$root" -V vfix
	"$root/usr/bin/vfix" version | grep -q '^vfix v1.2.3$'
	[ -s "$root/usr/share/zsh/site-functions/_vfix" ]
	rpm --root "$root" --nodeps -U "$work"/v2/*.rpm
	"$root/usr/bin/vfix" version | grep -q '^vfix v1.2.3-1-g'
	# The control: a changed file is detected.
	echo changed >>"$root/usr/share/doc/vfix/copyright"
	run ! rpm --root "$root" -V vfix
	rpm --root "$root" -e vfix
	expect 'what is left' "$(cd "$root/usr" && find . -mindepth 1 ! -path './local*' | sort | tr '\n' ' ')" \
		'./bin ./share ./share/doc ./share/man ./share/man/man1 '
}

@test "dist: packages need nothing and run no script" {
	requires dist_tools
	expect depends "$(dpkg-deb -f "$work/v1/vfix_1.2.3_amd64.deb" Depends)" ''
	expect control "$(dpkg-deb -I "$work/v1/vfix_1.2.3_amd64.deb" | grep -cE '(pre|post)(inst|rm)')" 0
	expect scripts "$(rpm -qp --scripts "$work/v1/vfix-1.2.3-1.x86_64.rpm")" ''
	rpm -K --nosignature "$work/v1/vfix-1.2.3-1.x86_64.rpm"
	expect host "$(rpm -qp --qf '%{BUILDHOST}' "$work/v1/vfix-1.2.3-1.x86_64.rpm")" reproducible
}

@test "dist: the image has that vfix as its entrypoint" {
	requires dist_tools image_tools
	skopeo inspect --config "oci-archive:$work/v1/vfix-1.2.3-linux-amd64.oci.tar" >"$work/config"
	expect entrypoint "$(jq -r '.config.Entrypoint[0]' "$work/config")" /vfix/vfix
	skopeo copy -q "oci-archive:$work/v1/vfix-1.2.3-linux-amd64.oci.tar" "oci:$work/image:x"
	"$build/validate" "$work/image"
	umoci raw unpack --image "$work/image:x" "$work/unpacked"
	tar -x -O -f "$work/v1/vfix-1.2.3-linux-amd64.tar.gz" vfix-1.2.3-linux-amd64/bin/vfix | cmp - "$work/unpacked/vfix/vfix"
}

@test "dist: the Kubernetes manifests name the image by its digest" {
	requires dist_tools image_tools
	local digest
	digest=$(skopeo inspect --format '{{.Digest}}' "oci-archive:$work/v1/vfix-1.2.3-linux-amd64.oci.tar")
	tar -x -f "$work/v1/vfix-1.2.3-kubernetes.tar.gz" -C "$work"
	grep -h ' image: registry.*vfix@' "$work"/vfix-1.2.3-kubernetes/*.yaml | sort -u >"$work/images"
	expect 'images' "$(sed 's/^ *//' "$work/images" | sort -u)" "image: registry.example.org/vfix@$digest"
	expect 'files' "$(cd "$work/vfix-1.2.3-kubernetes" && echo *)" "$(cd "$tree/deploy/kubernetes" && echo *)"
}

@test "release: refused without a tag, a section of the changelog, a key, and with a known vulnerability" {
	requires dist_tools
	local refused=$work/refused # a copy
	refused() { # TEXT [SETTING...]
		run env "${@:2}" make -C "$refused" release PLATFORMS=linux/amd64 MAKEFLAGS= </dev/null
		[ "$status" -ne 0 ]
		expect_match "release with ${*:2}" "$output" "$1"
		[ ! -e "$refused/dist" ] || fail 'something was built'
	}
	copy_tree "$refused"
	refused 'SIGNING_KEY is not set: the file of an Ed25519 key' SIGNING_KEY=
	refused 'IMAGE is not set: the name of the image' IMAGE=
	refused 'DOWNLOADS is not set: the address of the directory' DOWNLOADS=
	openssl genpkey -algorithm rsa -out "$work/rsa.pem" 2>/dev/null
	refused 'not an Ed25519 key' SIGNING_KEY="$work/rsa.pem"
	# The standard library of each Go version is affected.
	vulnerabilities "$work/bad" '[{"path": "stdlib", "vulns": [{"id": "GO-2023-0001", "modified": "2023-11-14T22:13:20Z"}]}]'
	mkdir "$work/bad/ID"
	cat >"$work/bad/ID/GO-2023-0001.json" <<-'END'
		{"schema_version": "1.3.1", "id": "GO-2023-0001", "modified": "2023-11-14T22:13:20Z", "published": "2023-11-14T22:13:20Z", "summary": "a test",
		 "affected": [{"package": {"name": "stdlib", "ecosystem": "Go"}, "ranges": [{"type": "SEMVER", "events": [{"introduced": "0"}]}],
		 "ecosystem_specific": {"imports": [{"path": "os", "symbols": ["ReadFile"]}]}}],
		 "database_specific": {"url": "https://example.org/GO-2023-0001"}}
	END
	refused GO-2023-0001 VULNDB="file://$work/bad"
	sed -i '/^## \[1.2.3\]/d' "$refused/CHANGELOG.md"
	in_tree "$refused" commit -q -a -m changes
	refused 'HEAD has no tag'
	in_tree "$refused" tag v1.2.4
	refused "no section '## \[1.2.4\] - DATE'"
}

@test "dist: a tree with changes is refused, and one without git too" {
	requires dist_tools
	echo >>"$two/README.md"
	run make -C "$two" dist PLATFORMS=linux/amd64 MAKEFLAGS=
	[ "$status" -ne 0 ]
	expect_match stderr "$output" 'the tree has changes that are not committed'
	[ -e "$two/dist/SHA256SUMS" ] || fail 'a failed run removed the last release'
	in_tree "$two" checkout -q README.md
	in_tree "$two" tag -f v1.2_3 >/dev/null
	in_tree "$two" tag -d v1.2.3 >/dev/null
	run make -C "$two" dist PLATFORMS=linux/amd64 MAKEFLAGS=
	[ "$status" -ne 0 ]
	expect_match stderr "$output" 'want vMAJOR.MINOR.PATCH'
	mv "$two/.git" "$two/.gone"
	run make -C "$two" dist PLATFORMS=linux/amd64 MAKEFLAGS=
	[ "$status" -ne 0 ]
	expect_match stderr "$output" 'not a git checkout'
}

# zsh_tab is a zsh on a terminal that gets a Tab: `zsh -c "$zsh_tab" zsh DIRECTORY`.
zsh_tab='zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "PS1=; fpath=($1 \${fpath:#/usr/local/*}); autoload -Uz compinit; compinit -u -D; echo ready"
zpty -r -m z all "*ready*ready*"
zpty -w -n z "vfix rebui"$'"'\\t'"'
zpty -r -m z got "*rebuild*" && echo "completed: rebuild"'

# zsh and fish complete the same as bash; see 050-cli.bats for bash.
@test "dist: completions work in bash, zsh and fish, from where the package puts them" {
	requires dist_tools shells
	local root=$work/shells
	mkdir -p "$root"
	tar -x -f "$work/v1/vfix-1.2.3-linux-amd64.tar.gz" -C "$root" --strip-components=1
	export PATH=$root/bin:$PATH DOCKER_HOST=unix:///nonexistent
	run bash -c '. /usr/share/bash-completion/bash_completion; . "$1"; COMP_WORDS=(vfix rebui) COMP_CWORD=1 COMP_LINE="vfix rebui" COMP_POINT=10; __start_vfix; echo "${COMPREPLY[*]}"' sh "$root/share/bash-completion/completions/vfix"
	expect_match bash "$output" rebuild
	run env HOME="$work" XDG_DATA_DIRS="$root/share:/usr/share" fish -c 'complete -C "vfix rebui"'
	expect_match fish "$output" rebuild
	run timeout "$patience" zsh -f -c "$zsh_tab" zsh "$root/share/zsh/site-functions"
	expect_match zsh "$output" 'completed: rebuild'
	run timeout 5 zsh -f -c "$zsh_tab" zsh /nonexistent
	expect 'status without the completion' "$status" 124
}

has_shells() { has_commands bash zsh fish && { [ -r /usr/share/bash-completion/bash_completion ] || { echo 'not installed: bash-completion' && return 1; }; }; }

# of_yaml FILE EXPRESSION: a value in a YAML file, f.
of_yaml() { /usr/bin/python3 -c 'import sys, yaml; f = yaml.safe_load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$@"; }

# run_ci SOURCE SHA256: runs the script $work/ci.sh as the CI does, without a vfix on PATH, in $work/ci.
run_ci() {
	rm -rf "$work/ci"
	mkdir "$work/ci"
	run env -C "$work/ci" -u CI_REGISTRY_USER PATH=/usr/bin:/bin VFIX_SOURCE="$1" VFIX_REPORT=out.json \
		VFIX_URL="$url" VFIX_SHA256="$2" bash -e -o pipefail "$work/ci.sh"
}

@test "dist: the GitHub Action and the GitLab job fail on the legacy image, pass a clean one, and trust no other tarball" {
	requires dist_tools legacy_image ci_tools
	local repository=$work/repository file url sum script
	mkdir "$repository"
	tar -x -f "$work/v1/vfix-1.2.3-ci.tar.gz" -C "$repository"
	"$VFIX" rebuild --quiet -o "oci:$work/clean:x" "oci:$small_image/oci"
	while read -r file url sum script; do
		script=$(of_yaml "$repository/$file" "$script") url=$(of_yaml "$repository/$file" "$url") sum=$(of_yaml "$repository/$file" "$sum")
		echo "$script" >"$work/ci.sh"
		expect "$file: address" "$url" "file://$work/published-1.2.3/vfix-1.2.3-linux-amd64.tar.gz"
		run_ci "oci:$small_image/oci" "$sum"
		expect "$file: status on the legacy image: $output" "$status" 3
		expect 'verdict' "$(jq -r '.results[0].verdict' "$work/ci/out.json")" affected
		run_ci "oci:$work/clean:x" "$sum"
		expect "$file: status on a clean image: $output" "$status" 0
		expect 'verdict' "$(jq -r '.results[0].verdict' "$work/ci/out.json")" not-affected
		run_ci "oci:$work/clean:x" "${sum//[0-8]/9}"
		expect "$file: status with another tarball" "$status" 1
		run_ci "oci:$work/nothing:x" "$sum"
		expect "$file: status without an image" "$status" 1
		[ ! -e "$work/ci/out.json" ]
	done <<-'END'
		.github/actions/vfix-scan/action.yml f['inputs']['url']['default'] f['inputs']['sha256']['default'] f['runs']['steps'][0]['run']
		.gitlab/vfix-scan.yml f['vfix-scan']['variables']['VFIX_URL'] f['vfix-scan']['variables']['VFIX_SHA256'] '\n'.join(f['vfix-scan']['before_script']+f['vfix-scan']['script'])
	END
	# In the tree they have none.
	expect 'address in the tree' "$(of_yaml "$tree/contrib/github-action/action.yml" "f['inputs']['url']['default']")" ''
}

has_ci_tools() { has_commands curl jq && { /usr/bin/python3 -c 'import yaml' 2>/dev/null || { echo 'not installed: python3-yaml' && return 1; }; }; }

@test "go install from the module's zip: compiles, and the program names the missing part and the page" {
	requires dist_tools
	local proxy=$work/proxy/vfix.dev/vfix/@v go
	go=$("$tree/tests/install-deps" --print-go)
	mkdir -p "$proxy"
	in_tree "$one" archive --format=zip --prefix=vfix.dev/vfix@v1.2.3/ -o "$proxy/v1.2.3.zip" HEAD
	cp "$one/go.mod" "$proxy/v1.2.3.mod"
	echo '{"Version": "v1.2.3", "Time": "2023-11-14T22:13:20Z"}' >"$proxy/v1.2.3.info"
	echo v1.2.3 >"$proxy/list"
	# In a separate module cache for vfix, with the modules that the build downloaded. Libraries are compiled with
	# the tests' flags, once.
	run env -C "$work" GOPROXY="file://$work/proxy,file://$("$go" env GOMODCACHE)/cache/download" GONOSUMDB='*' GONOSUMCHECK=1 GOFLAGS="-modcacherw -trimpath -gcflags=all=-dwarf=false" \
		GOMODCACHE="$work/modules-cache" GOBIN="$work/gobin" CGO_ENABLED=0 "$go" install vfix.dev/vfix/cmd/vfix@latest
	expect "go install: $output" "$status" 0
	VFIX=$work/gobin/vfix run_vfix 1 scan /bin/true
	expect_match stderr "$stderr" 'go install'
	expect_match stderr "$stderr" 'vfix help start'
	VFIX=$work/gobin/vfix run_vfix help start
	expect_match "the page" "$output" "go install"
}
