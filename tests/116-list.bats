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

# hold_image NAME: requests for this image wait until let_go: a read of the file with the digest of a tag blocks
# while that is a pipe without a writer.
hold_image() {
	held=$BATS_FILE_TMPDIR/registry/data/docker/registry/v2/repositories/team/$1/_manifests/tags/1/current/link
	mv "$held" "$BATS_TEST_TMPDIR/held"
	mkfifo "$held"
}

let_go() {
	exec {pipe}<>"$held" # who waits goes on
	rm "$held"
	mv "$BATS_TEST_TMPDIR/held" "$held"
	exec {pipe}<&-
}

teardown() { [ ! -p "${held:-}" ] || let_go; }

# requests FROM: the registry's answers since its log had FROM lines.
requests() { tail -n "+$(($1 + 1))" "$BATS_FILE_TMPDIR/registry.log" | grep 'response completed'; }

@test "rebuild: a list, whose shared layers are read once and sent once" {
	list a b c nothing clean
	before=$(wc -l <"$BATS_FILE_TMPDIR/registry.log")
	run_vfix 1 rebuild --from-file list --dest-template "docker://$registry/once/{name}:{tag}-x" --provenance none
	expect_match table "$output" '5 images: 3 done, 1 unaffected, 1 failed'
	expect_match table "$output" 'no such image'
	expect_match stderr "$stderr" '1 of 5 images failed'
	for name in a b c clean; do
		run_vfix verify "docker://$registry/once/$name:1-x" --against "docker://$registry/team/$name:1"
	done
	requests "$before" >seen
	for layer in $(skopeo inspect --tls-verify=false --creds "$registry_user:$registry_password" --raw "docker://$registry/team/a:1" | jq -r '.layers[].digest'); do
		[ "$(grep -c "method=GET.*team/[abc]/blobs/$layer" seen)" -le 4 ] || fail "layer $layer was read more than once" # once, and by each verify
	done
	# Three configs, three manifests, one patched layer that the two others mount.
	expect 'uploads' "$(grep -c 'method=PUT.*once/[abc]/blobs/' seen)" 4
}

@test "rebuild: a list in JSON, and its statuses" {
	list a nothing
	run_vfix 1 rebuild --from-file list --dest-template 'oci:out:{name}' --format json
	expect statuses "$(jq -r '[.images[].status] | join(" ")' <<<"$output")" 'done failed'
	expect summary "$(jq -r '.summary | to_entries | sort_by(.key)[] | "\(.key) \(.value)"' <<<"$output" | xargs)" 'affected 0 done 1 failed 1 incomplete 0 not_run 0 retries 0 unaffected 0'
	"$build/validate" out
}

@test "rebuild: a list goes on where a killed run was" {
	list a b c d e f
	hold_image e # so that it is not through before it is killed
	command=(rebuild --from-file list --state done.jsonl --jobs 1 --dest-template "docker://$registry/killed/{name}:{tag}")
	"$VFIX" "${command[@]}" >/dev/null 2>&1 3>&- &
	pid=$!
	# shellcheck disable=SC2317 # poll calls it
	some() { [ -s done.jsonl ] && [ "$(wc -l <done.jsonl)" -ge 2 ]; }
	poll some
	kill -KILL "$pid"
	wait "$pid" && fail 'it was not killed'
	finished=$(wc -l <done.jsonl)
	[ "$finished" -lt 6 ] || fail 'it was done before it was killed'
	let_go
	run_vfix "${command[@]}"
	expect 'skipped' "$(grep -c 'done before' <<<"$output")" "$finished"
	expect_match table "$output" "6 images: 6 done, 0 unaffected, 0 failed; $finished of them by an earlier run"
	run_vfix "${command[@]}"
	expect 'skipped at last' "$(grep -c 'done before' <<<"$output")" 6
}

@test "rebuild: a list that is interrupted ends cleanly, and says how to go on" {
	list a b c d e f
	hold_image e
	"$VFIX" rebuild --from-file list --state done.jsonl --jobs 1 --dest-template 'oci:out:{name}' >out.txt 2>err.txt 3>&- &
	pid=$!
	# shellcheck disable=SC2317 # poll calls it
	some() { [ -s done.jsonl ]; }
	poll some
	kill -TERM "$pid"
	wait "$pid" && status=0 || status=$?
	expect 'exit status' "$status" 143
	expect_match stdout "$(cat out.txt)" '6 images: * not run'
	expect_match stderr "$(cat err.txt)" 'run the command again to resume'
	"$build/validate" out
	expect 'left behind' "$(find . -maxdepth 1 -name '.*' ! -name . | tr '\n' ' ')" ''
}

@test "rebuild: a list in parts, as the pods of an Indexed Job have it" {
	list a b c d
	images() { grep -o 'team/[a-f]:1 ' <<<"$output"; }
	JOB_COMPLETION_INDEX=1 run_vfix rebuild --from-file list --shard 2 --dry-run
	images >one
	run_vfix rebuild --from-file - --shard 1/2 --dry-run <list
	expect 'part 1 of 2, by its variable' "$(images)" "$(cat one)"
	run_vfix rebuild --from-file list --shard 0/2 --dry-run
	images >>one
	expect 'both parts' "$(sort one | tr -d '\n')" 'team/a:1 team/b:1 team/c:1 team/d:1 '
	# A new line does not move the others.
	{ echo "docker://$registry/team/e:1" && cat list; } >longer
	run_vfix rebuild --from-file longer --shard 0/2 --dry-run
	expect 'of part 0, longer' "$(images | grep -v team/e)" "$(tail -n "+$(($(JOB_COMPLETION_INDEX=1 "$VFIX" rebuild --from-file list --shard 2 --dry-run 2>/dev/null | grep -c 'team/[a-f]:1 ') + 1))" one)"
}

@test "list, scan: a registry, from its list to the report of what is affected" {
	run_vfix list "docker://$registry/team"
	expect images "$(sort <<<"$output" | tr '\n' ' ')" "$(printf "docker://$registry/team/%s:1 " a b c clean d e f)"
	run_vfix list "docker://$registry" --match 'team/?:1' --newer-than 3000-01-01
	expect 'none is newer' "$output" ''
	run_vfix list "docker://$registry/team" --platform linux/amd64
	echo "$output" >list
	before=$(wc -l <"$BATS_FILE_TMPDIR/registry.log")
	run_vfix 3 scan --from-file list --state done.jsonl --report r.csv --metrics m.prom
	expect_match table "$output" '7 images: 6 affected, 1 unaffected, 0 failed'
	expect 'rows' "$(grep -c ',affected,' r.csv)" 6
	expect_match counters "$(cat m.prom)" 'vfix_list_images_finished_total{result="affected"} 6'
	requests "$before" >seen
	expect 'nothing is written' "$(grep -c 'method=\(PUT\|POST\|PATCH\)' seen)" 0
	before=$(wc -l <"$BATS_FILE_TMPDIR/registry.log")
	run_vfix 3 scan --from-file list --state done.jsonl --report r.html
	expect 'skipped' "$(grep -c 'affected before' <<<"$output")" 7
	requests "$before" >seen
	expect 'requests' "$(grep -c 'method=HEAD' seen)" 7
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

@test "rebuild: the Kubernetes job is valid, and its command is one" {
	local job=$tree/deploy/kubernetes/rebuild-job.yaml
	get_kubernetes_validate
	"$venv/bin/kubernetes-validate" --strict "$job"
	sed 's/completionMode: Indexed/completionMode: [Indexed]/' "$job" >bad.yaml
	run "$venv/bin/kubernetes-validate" --strict bad.yaml
	expect 'status for a wrong one' "$status" 1
	# A part for each pod, and no part without a pod.
	expect 'parts' "$(sed -n 's/^ *- --shard=//p' "$job")" "$(sed -n 's/^  completions: \([0-9]*\).*/\1/p' "$job")"
	# Its options are those of this vfix: only the list is missing.
	# shellcheck disable=SC2016 # Kubernetes expands it
	mapfile -t command < <(sed -n 's/^ *- \(--.*\)$/\1/p' "$job" | sed 's/\$(JOB_COMPLETION_INDEX)/0/')
	expect 'number of options' "${#command[@]}" 6
	JOB_COMPLETION_INDEX=0 run_vfix 1 rebuild "${command[@]}"
	expect_match stderr "$stderr" '/list/list: no such file'
}
