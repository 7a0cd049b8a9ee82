#!/usr/bin/env bats
# rebuild --from-file: many images in one run.
load helpers

legacy_image=$small_image

setup_file() {
	load helpers
	if (has_registry && has_image_tools && has_legacy_image) >/dev/null; then
		start_registry
		local dir=$BATS_FILE_TMPDIR/images name
		cp -r "$legacy_image/oci" "$dir"
		for name in a b c d e f; do # six images over one base
			umoci config --image "$dir:legacy" --tag "$name" --config.label "name=$name"
		done
		umoci new --image "$dir:clean"
		umoci config --image "$dir:clean" --os linux --architecture amd64
		for name in a b c d e f clean; do
			skopeo copy --quiet --dest-tls-verify=false --dest-creds "$registry_user:$registry_password" \
				"oci:$dir:$name" "docker://$registry/team/$name:1"
		done
	fi
}

teardown_file() {
	load helpers
	stop_services
}

setup() {
	requires registry image_tools legacy_image
	login
	export DOCKER_HOST=unix://$BATS_TEST_TMPDIR/none.sock
	cd "$BATS_TEST_TMPDIR" || return
}

# list NAME...: the file list, one line for each image of the registry.
list() { printf "docker://$registry/team/%s:1\n" "$@" >list; }

# requests FROM: the registry's answers since its log had FROM lines.
requests() { tail -n "+$(($1 + 1))" "$BATS_FILE_TMPDIR/registry.log" | grep 'response completed'; }

@test "rebuild: a list, whose shared layers are read once and mounted, and which is done the second time" {
	list a b c nothing clean
	before=$(wc -l <"$BATS_FILE_TMPDIR/registry.log")
	command=(rebuild --from-file list --dest-template "docker://$registry/once/{name}:{tag}-x")
	run_vfix 1 "${command[@]}"
	expect_match table "$output" '5 images: 1 failed, 1 incomplete, 3 done'
	expect_match table "$output" 'not found'
	requests "$before" >seen
	for layer in $(skopeo inspect --tls-verify=false --creds "$registry_user:$registry_password" --raw "docker://$registry/team/a:1" | jq -r '.layers[].digest'); do
		[ "$(grep -c "method=GET.*team/[abc]/blobs/$layer" seen)" -le 1 ] || fail "layer $layer was read more than once"
	done
	# The layers of the base are mounted: only a config and the patched layer are sent to each repository.
	expect 'uploads' "$(grep -c 'method=PUT.*once/[abc]/blobs/' seen)" 6
	for name in a clean; do
		"$VFIX" verify "docker://$registry/once/$name:1-x" --against "docker://$registry/team/$name:1" >/dev/null || [ $? = 4 ]
	done
	before=$(wc -l <"$BATS_FILE_TMPDIR/registry.log")
	run_vfix 1 "${command[@]}" --format json
	expect statuses "$(jq -r '[.images[] | .status + (if .before then " before" else "" end)] | join(", ")' <<<"$output")" 'done before, done before, done before, failed, incomplete'
	expect summary "$(jq -c '.summary' <<<"$output")" '{"affected":0,"done":3,"failed":1,"incomplete":1,"not run":0,"unaffected":0}'
	requests "$before" >seen
	expect 'layers read again' "$(grep -c "method=GET.*team/[abc]/blobs/$layer" seen)" 0
}

@test "rebuild: a list that is interrupted ends cleanly, and goes on the next time" {
	list a b c d e f
	"$VFIX" rebuild --from-file list --jobs 1 --dest-template 'oci:out:{name}' >out.txt 2>err.txt 3>&- &
	pid=$!
	# shellcheck disable=SC2317 # poll calls it
	some() { grep -q '^vfix: 1/6 ' err.txt; }
	poll some
	kill -TERM "$pid"
	wait "$pid" && status=0 || status=$?
	expect 'exit status' "$status" 143
	expect_match stderr "$(cat err.txt)" 'run the command again to resume'
	"$build/validate" out
	run_vfix rebuild --from-file list --dest-template 'oci:out:{name}'
	expect_match table "$output" 'by an earlier run'
	"$build/validate" out
}

@test "list, scan: a registry in parts, from its list to the report of what is affected" {
	run_vfix list "docker://$registry/team"
	expect images "$(sort <<<"$output" | tr '\n' ' ')" "$(printf "docker://$registry/team/%s:1 " a b c clean d e f)"
	run_vfix list "docker://$registry" --match 'team/?:2'
	expect 'none matches' "$output" ''
	run_vfix list "docker://$registry/team"
	echo "$output" >list
	rows=0
	for part in 0 1; do
		status=0
		"$VFIX" scan --from-file list --shard "$part/2" --report "r$part.csv" >/dev/null 2>&1 || status=$?
		[[ $status =~ ^[034]$ ]] || fail "part $part: status $status"
		rows=$((rows + $(grep -c ',affected,' "r$part.csv")))
	done
	expect 'affected in both parts' "$rows" 6
	run_vfix 3 scan --from-file list --report r.html
	expect_match table "$output" '7 images: 1 incomplete, 6 affected'
	expect_match page "$(tail -n 3 r.html)" '</html>'
}

@test "list: the images of a cluster, from what kubectl prints" {
	cat >pods.json <<-'END'
		{"kind": "List", "items": [
		  {"kind": "Pod", "spec": {"containers": [{"image": "old.example/app:1"}], "initContainers": [{"image": "redis:2.8.22"}]}},
		  {"kind": "Pod", "spec": {"containers": [{"image": "old.example/app:1", "env": [{"name": "image", "value": "no"}]}]}}]}
	END
	run_vfix list - <pods.json
	expect images "$output" $'docker://old.example/app:1\ndocker://redis:2.8.22'
	head -c 100 pods.json >half.json
	run_vfix 1 list - <half.json
	expect_match stderr "$stderr" 'incomplete JSON'
}

@test "rebuild: the command of the Kubernetes job is one" {
	local job=$tree/deploy/kubernetes/rebuild-job.yaml
	# A part for each pod, and no part without a pod.
	expect 'parts' "$(sed -n 's/^ *- --shard=.*)\///p' "$job")" "$(sed -n 's/^  completions: \([0-9]*\).*/\1/p' "$job")"
	# Its options are those of this vfix: only the list is missing.
	# shellcheck disable=SC2016 # Kubernetes expands it
	mapfile -t command < <(sed -n 's/^ *- \(--.*\)$/\1/p' "$job" | sed 's/\$(JOB_COMPLETION_INDEX)/0/')
	expect 'number of options' "${#command[@]}" 4
	run_vfix 1 rebuild "${command[@]}"
	expect_match stderr "$stderr" '/list/list: no such file'
}
