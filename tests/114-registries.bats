#!/usr/bin/env bats
# Registries that are slow, fail, or need certificates.
load helpers

legacy_image=$small_image

setup_file() {
	load helpers
	start_legacy_registry
	if [ -n "${registry:-}" ]; then
		start_service proxy "$tree/tests/flaky-proxy" "$registry" "$BATS_FILE_TMPDIR/flaky"
		await_service proxy grep -q listening "$BATS_FILE_TMPDIR/flaky"
		export flaky
		flaky=$(sed -n 's/listening on //p' "$BATS_FILE_TMPDIR/flaky")
		start_tls_registry
	fi
}

teardown_file() {
	load helpers
	stop_services
}

setup() {
	requires registry image_tools legacy_image
	export DOCKER_HOST=unix://$BATS_TEST_TMPDIR/none.sock
	export HOME=$BATS_TEST_TMPDIR
	unset XDG_CONFIG_HOME
}

# sign NAME USAGE: a key and a certificate of the file's own authority.
sign() {
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1.key" -out "$1.csr" -subj "/CN=$1" 2>/dev/null
	openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -out "$1.cert" \
		-extfile <(printf 'subjectAltName=IP:127.0.0.1\nextendedKeyUsage=%s\n' "$2") 2>/dev/null
}

# start_tls_registry: one with a private authority that requires a client certificate from it.
start_tls_registry() {
	local dir=$BATS_FILE_TMPDIR/tls
	mkdir -p "$dir/data"
	(
		cd "$dir" || exit
		openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.crt -days 2 -subj '/CN=an authority' 2>/dev/null
		sign server serverAuth
		sign client clientAuth
	)
	cat >"$dir/config.yml" <<-END
		version: 0.1
		log: {level: info, formatter: text}
		storage: {filesystem: {rootdirectory: $dir/data}}
		http: {addr: "127.0.0.1:0", tls: {certificate: $dir/server.cert, key: $dir/server.key, clientcas: [$dir/ca.crt]}}
	END
	start_service tls docker-registry serve "$dir/config.yml"
	await_service tls grep -q 'listening on 127' "$BATS_FILE_TMPDIR/tls.log"
	export tls_registry
	tls_registry=$(sed -n 's/.*listening on \(127[0-9.]*:[0-9]*\).*/\1/p' "$BATS_FILE_TMPDIR/tls.log")
}

# login_to REGISTRY: the registry's credentials for another name of it.
login_to() { registry=$1 login; }

@test "rebuild: through a registry that resets, refuses and asks to wait" {
	login_to "$flaky"
	run_vfix rebuild "docker://$flaky/legacy:1" -o "docker://$flaky/other/legacy:fixed"
	expect_match reference "$output" "$flaky/other/legacy:fixed@sha256:"
	run_vfix verify "docker://$flaky/other/legacy:fixed" --against "docker://$flaky/legacy:1"
	said=$(cat "$BATS_FILE_TMPDIR/flaky")
	for moment in 429 503 'download cut'; do
		expect_match 'bad moments' "$said" "$moment"
	done
	# The download resumed.
	expect_match 'requests for parts' "$said" 'part GET bytes='
}

@test "rebuild: an upload that is cut off is done all the same" {
	login_to "$flaky"
	# From a layout: all of it must be sent.
	run_vfix rebuild "oci:$legacy_image/oci:legacy" -o "docker://$flaky/sent/legacy:fixed"
	expect_match 'bad moments' "$(cat "$BATS_FILE_TMPDIR/flaky")" 'upload cut'
	skopeo copy --quiet --src-tls-verify=false --src-creds "$registry_user:$registry_password" \
		"docker://$registry/sent/legacy:fixed" "oci:$BATS_TEST_TMPDIR/fetched:x"
	"$build/validate" "$BATS_TEST_TMPDIR/fetched"
}

@test "rebuild: a push sends the new layer and no other" {
	login_to "$registry"
	before=$(wc -l <"$BATS_FILE_TMPDIR/registry.log")
	run_vfix rebuild "docker://$registry/legacy:1" -o "docker://$registry/mounted/legacy:fixed" --provenance none
	poll grep -q 'uri=/v2/mounted/legacy/manifests/fixed' "$BATS_FILE_TMPDIR/registry.log"
	requests=$(tail -n "+$((before + 1))" "$BATS_FILE_TMPDIR/registry.log" | grep 'response completed')
	count_of() { grep -c "$1" <<<"$requests" || true; }
	layers=$(skopeo inspect --tls-verify=false --creds "$registry_user:$registry_password" --raw "docker://$registry/legacy:1" | jq '.layers | length')
	expect 'mounts' "$(count_of 'method=POST.*mount=')" "$layers"
	expect 'uploads, of the layer and the config' "$(count_of 'method=PUT.*/blobs/')" 2
}

@test "rebuild: no answer is an error that says so, and soon enough" {
	start_service silent "$tree/tests/flaky-proxy" "$registry" "$BATS_FILE_TMPDIR/silent"
	await_service silent grep -q listening "$BATS_FILE_TMPDIR/silent"
	host=$(sed -n 's/listening on //p' "$BATS_FILE_TMPDIR/silent")
	pid=$(sed -n 's/ silent$//p' "$BATS_FILE_TMPDIR/services")
	kill -STOP "$pid"
	run_vfix 1 rebuild "docker://$host/legacy:1" -o "oci:$BATS_TEST_TMPDIR/out:x" --stall-timeout 300ms
	kill -CONT "$pid"
	expect_match stderr "$stderr" 'no progress for 300ms'
	expect_match stderr "$stderr" 'stall-timeout'
	[ ! -e "$BATS_TEST_TMPDIR/out" ] || fail 'there is a result'
}

@test "rebuild: a registry with an authority of its own that requires a certificate" {
	export DOCKER_CONFIG=$BATS_TEST_TMPDIR/empty
	certs=$HOME/.config/docker/certs.d/$tls_registry
	mkdir -p "$certs"
	push() { run_vfix "$1" rebuild "oci:$legacy_image/oci:legacy" -o "docker://$tls_registry/legacy:fixed"; }
	push 1
	expect_match stderr "$stderr" 'certificate'
	expect_match stderr "$stderr" "certs.d/$tls_registry"
	cp "$BATS_FILE_TMPDIR/tls/ca.crt" "$certs"
	push 1
	expect_match stderr "$stderr" 'bad certificate' # that of the client: none
	cp "$BATS_FILE_TMPDIR"/tls/client.{cert,key} "$certs"
	push 0
	run_vfix scan "docker://$tls_registry/legacy:fixed"
	# The system's authorities can also be replaced; the client certificate is still the directory's.
	rm "$certs/ca.crt"
	SSL_CERT_FILE=$BATS_FILE_TMPDIR/tls/ca.crt run_vfix scan "docker://$tls_registry/legacy:fixed"
	run_vfix 1 scan "docker://$tls_registry/legacy:fixed"
	run_vfix scan --insecure "docker://$tls_registry/legacy:fixed"
}
