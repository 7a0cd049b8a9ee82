#!/usr/bin/env bats
# A node of Kubernetes, from the cluster's first start to the last line of docs/kubernetes.md. Each test
# is a step of one story and needs those before it. The commands are those of that page, and the files
# those of deploy/kubernetes. Each process that calls the vsyscall page is killed, by SIGSYS.
load ../helpers
load cluster

setup_file() {
	load ../helpers
	load cluster
	export work=/root/work
	mkdir -p "$work/deploy"
	cp -r "$tree/deploy/kubernetes" "$work/deploy/"
	start_cluster || { print_logs && false; }
}

teardown_file() { stop_services; }

teardown() { [ -n "${BATS_TEST_COMPLETED-}" ] || print_logs; }

say() { sed 's/^/#   /' >&3; }

# follow SECTION N [SED]: runs the Nth paragraph of commands in that section of the page, after the
# changes that a reader makes to it.
follow() {
	local commands
	commands=$(awk -v section="## $1" -v want="$2" '
		/^## / { inside = $0 == section }
		/^```$/ { if (inside && !open) n++; open = !open; next }
		inside && open && n == want' "$tree/docs/kubernetes.md" | sed "${3-}")
	[ -n "$commands" ] || fail "docs/kubernetes.md: no commands $2 in '$1'"
	say <<<"$commands"
	PATH=$(dirname "$VFIX"):$PATH timeout $((3 * patience)) bash -euo pipefail -c "$commands"
}

# get NAME JSONPATH: what the API server says of a pod.
get() { kubectl get pod "$1" -o jsonpath="$2"; }
pod_is() { [ "$(get "$1" "$2")" = "$3" ]; }
container='.status.containerStatuses[0]'
# pod_of APP: the name of its pod that is not being deleted.
pod_of() { kubectl get pods -l "app=$1" -o json | jq -r '[.items[] | select(.metadata.deletionTimestamp == null)][0].metadata.name'; }

# example NAME [SED]: the example of deploy/kubernetes under another name, with the tests' image.
example() {
	sed "s,name: legacy-redis,name: $1,; s,image: redis:2.8.22,image: $registry/redis:legacy,; ${2-}" "$tree/deploy/kubernetes/pod.yaml"
}

# answers POD: it becomes ready, and its redis-server answers.
answers() {
	kubectl wait --for condition=Ready --timeout "${patience}s" "pod/$1"
	poll kubectl exec "$1" -- redis-cli PING
	expect "$1" "$(kubectl exec "$1" -- bash -c 'redis-cli PING')" PONG
}

# events POD TEXT: the text is in one of its events.
events() { kubectl get events --field-selector "involvedObject.name=$1" -o jsonpath='{.items[*].message}' | grep -F "$2"; }

# dies POD: its container is killed each time it starts.
dies() {
	poll pod_is "$1" "{$container.lastState.terminated.exitCode}" "$status_sigsys"
	poll events "$1" 'Back-off restarting failed container'
	expect 'exit status of its container' "$(get "$1" "{$container.lastState.terminated.exitCode}")" "$status_sigsys"
	kubectl get pod "$1" | say
}

# machine: the files of the node, without those that Kubernetes itself writes.
machine() {
	find /etc /usr /opt /var/lib /root/work -xdev \
		\( -path '/var/lib/vfix' -o -path '/var/lib/kubelet' -o -path '/var/lib/containerd' -o -path '/var/lib/cni' -o -path /root/work \) -prune -o \
		! -type d -printf '%p %M %U:%G %T@ %s %l\n' -a -type f -path '/etc/*' -exec sha256sum {} \; | sort
}

@test "the node is Ready" {
	kubectl wait --for condition=Ready --timeout "${patience}s" node/node
	kubectl get node node -o jsonpath='{.status.nodeInfo}' |
		jq -r '"kubelet \(.kubeletVersion), \(.containerRuntimeVersion), Linux \(.kernelVersion)"' | say
	stat -f -c 'control groups: %T' /sys/fs/cgroup | say
	poll kubectl get serviceaccount default
	kubectl create deployment bystander --image "$registry/pause:1"
	kubectl rollout status --timeout "${patience}s" deployment/bystander
	machine >"$work/before"
}

@test "an unmodified legacy image crash-loops" {
	example plain '/runtimeClassName/d' | kubectl apply -f -
	dies plain
	kubectl delete pod plain
}

@test "the DaemonSet installs vfix" {
	cd "$work"
	follow 'Install on every node' 1 "s,YOUR/NAME,$registry/vfix,"
	kubectl -n vfix logs ds/vfix-install -c install | tee "$work/log"
	expect_match 'what the installer says to do' "$(<"$work/log")" 'systemctl restart containerd'
	say <"$work/log"
}

@test "after containerd's restart, pods with the RuntimeClass answer, and others have not noticed" {
	local pod id
	pod=$(pod_of bystander)
	id=$(get "$pod" "{$container.containerID}")
	example legacy-redis | kubectl apply -f -
	poll events legacy-redis 'no runtime for "vfix" is configured'
	end_service containerd
	start_containerd
	answers legacy-redis
	kubectl get pods -o wide | say
	expect "the bystander's container" "$(get "$pod" "{$container.containerID} {$container.restartCount}")" "$id 0"
}

@test "exec, logs and the record of starts" {
	expect 'status of exec' "$(kubectl exec legacy-redis -- bash -c 'clock && exit 7' 2>/dev/null || echo $?)" 7
	expect_match 'its log' "$(kubectl logs legacy-redis)" 'Ready to accept connections'
	expect_match 'output of a program' "$(kubectl exec legacy-redis -- callrate 20)" gettimeofday
	run /opt/vfix/bin/vfix runtime status
	expect_match 'the record' "$output" patched
	say <<<"$output"
}

# id POD: its container's, as containerd has it.
id() { get "$1" "{$container.containerID}" | sed 's,containerd://,,'; }

# restarted POD N: its container has been started anew N times, and answers.
restarted() {
	poll pod_is "$1" "{$container.restartCount}" "$2"
	answers "$1"
}

@test "probes; a container that is killed or hangs is restarted" {
	local pod
	kubectl apply -f - <<-END
		apiVersion: apps/v1
		kind: Deployment
		metadata: {name: served}
		spec:
		  selector: {matchLabels: {app: served}}
		  template:
		    metadata: {labels: {app: served}}
		    spec:
		      runtimeClassName: vfix
		      terminationGracePeriodSeconds: 3
		      containers:
		        - name: redis
		          image: $registry/redis:legacy
		          args: [redis-server, --protected-mode, "no"]
		          startupProbe: {exec: {command: [bash, -c, redis-cli PING]}, periodSeconds: 1, timeoutSeconds: 20, failureThreshold: 100}
		          readinessProbe: {tcpSocket: {port: 6379}, periodSeconds: 2, timeoutSeconds: 20}
		          livenessProbe: {exec: {command: [redis-cli, PING]}, periodSeconds: 5, timeoutSeconds: 20, failureThreshold: 2}
	END
	kubectl rollout status --timeout "${patience}s" deployment/served
	pod=$(pod_of served)
	answers "$pod"
	ctr --namespace k8s.io task kill --signal KILL "$(id "$pod")"
	restarted "$pod" 1
	ctr --namespace k8s.io task kill --signal STOP "$(id "$pod")"
	restarted "$pod" 2
	kubectl get pod "$pod" | say
}

@test "a pod that opts out is left as it is" {
	example out 's,dev.vfix.enable: "true",dev.vfix.enable: "false",' | kubectl apply -f -
	dies out
	kubectl delete pod out
}
