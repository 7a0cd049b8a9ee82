# cluster: a cluster of one node, on a machine that tests/engines/enter made: registry, etcd, control
# plane, containerd and kubelet. Nothing but loopback and the pods' bridge is there, so addresses and
# ports are fixed.
# shellcheck shell=bash disable=SC2034,SC2154,SC2317

address=10.77.0.1 # the node's: on loopback, but not below 127, which Kubernetes refuses
registry=$address:5000
secret=not-a-secret # the administrator's token
patience=300        # a busy machine needs minutes for what takes an idle one seconds

# start NAME COMMAND...: start_service without bats' own files, for whose end bats waits: containerd
# leaves processes, and a run that is interrupted leaves them all.
start() {
	# shellcheck disable=SC2016 # for the shell in there
	start_service "$1" bash -c 'for fd in $(ls /proc/$$/fd); do [ "$fd" -le 2 ] || eval "exec $fd>&-"; done; exec "$@"' sh "${@:2}"
}

# start_registry: a registry behind TLS. Its certificate authority is among the machine's.
start_registry() {
	local dir=/root/registry
	mkdir -p "$dir/data"
	openssl req -x509 -newkey rsa:2048 -nodes -keyout "$dir/ca.key" -out "$dir/ca.crt" -subj '/CN=authority of the tests' -days 3650 \
		-addext keyUsage=critical,keyCertSign 2>/dev/null
	openssl req -x509 -newkey rsa:2048 -nodes -keyout "$dir/key" -out "$dir/crt" -subj /CN=registry -days 3650 \
		-CA "$dir/ca.crt" -CAkey "$dir/ca.key" -addext basicConstraints=CA:FALSE -addext "subjectAltName=IP:$address" 2>/dev/null
	cp "$dir/ca.crt" /usr/local/share/ca-certificates/tests.crt
	update-ca-certificates >/dev/null
	cat >"$dir/config.yml" <<-END
		version: 0.1
		log: {level: warn}
		storage: {filesystem: {rootdirectory: $dir/data}, delete: {enabled: true}}
		http: {addr: "$registry", tls: {certificate: $dir/crt, key: $dir/key}}
	END
	start registry docker-registry serve "$dir/config.yml"
	await_service registry bash -c "skopeo list-tags docker://$registry/none 2>&1 | grep 'repository name not known'"
}

# push_image NAME FILE: an image that has the one program in it, as its entrypoint.
push_image() {
	local dir=$BATS_FILE_TMPDIR/image
	rm -rf "$dir"
	mkdir -p "$dir/rootfs"
	install -m 755 "$2" "$dir/rootfs/program"
	tar -C "$dir/rootfs" --create --file "$dir/layer.tar" --owner 0 --group 0 --mtime @0 program
	jq -n --arg diff "sha256:$(sha256sum <"$dir/layer.tar" | cut -d ' ' -f 1)" \
		'{architecture: "amd64", os: "linux", config: {Entrypoint: ["/program"]}, rootfs: {type: "layers", diff_ids: [$diff]}}' >"$dir/config.json"
	jq -n --arg name "$1" '[{Config: "config.json", RepoTags: [$name], Layers: ["layer.tar"]}]' >"$dir/manifest.json"
	tar -C "$dir" --create --file "$dir/image.tar" manifest.json config.json layer.tar
	skopeo copy --quiet "docker-archive:$dir/image.tar" "docker://$registry/$1"
}

# kubeconfig: how every program finds the API server.
kubeconfig() {
	cat <<-END
		apiVersion: v1
		kind: Config
		clusters: [{name: c, cluster: {server: "https://$address:6443", insecure-skip-tls-verify: true}}]
		users: [{name: u, user: {token: $secret}}]
		contexts: [{name: x, context: {cluster: c, user: u}}]
		current-context: x
	END
}

start_control_plane() {
	local dir=/root/control-plane
	mkdir -p "$dir" /root/.kube
	kubeconfig >/root/.kube/config
	echo "$secret,admin,admin,system:masters" >"$dir/tokens"
	openssl genrsa -out "$dir/accounts.key" 2048 2>/dev/null
	start etcd etcd --data-dir /run/etcd --unsafe-no-fsync --log-level warn
	await_service etcd bash -c 'echo >/dev/tcp/127.0.0.1/2379'
	start kube-apiserver "$programs/kube-apiserver" --etcd-servers http://127.0.0.1:2379 --cert-dir "$dir/apiserver" \
		--advertise-address "$address" --service-cluster-ip-range 10.96.0.0/24 --token-auth-file "$dir/tokens" --authorization-mode RBAC \
		--service-account-issuer https://kubernetes.default.svc --service-account-key-file "$dir/accounts.key" \
		--service-account-signing-key-file "$dir/accounts.key" --kubelet-preferred-address-types InternalIP
	await_service kube-apiserver kubectl get --raw /readyz
	start kube-controller-manager "$programs/kube-controller-manager" --kubeconfig /root/.kube/config --leader-elect=false \
		--service-account-private-key-file "$dir/accounts.key" --cert-dir "$dir/controller-manager"
	start kube-scheduler "$programs/kube-scheduler" --kubeconfig /root/.kube/config --leader-elect=false --cert-dir "$dir/scheduler"
}

# configure_node: containerd's configuration as an administrator writes it, before vfix, and the network
# of the pods.
configure_node() {
	configure_pods "$registry/pause:1"
	cat >/etc/cni/net.d/10-bridge.conflist <<-END
		{"cniVersion": "1.0.0", "name": "pods", "plugins": [
		  {"type": "bridge", "bridge": "pods0", "isGateway": true,
		   "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
	END
	mknod -m 600 /dev/kmsg c 1 11 # the kubelet reads it
	# The kubelet sets these for the whole machine. Here it sets copies.
	for file in kernel/{panic,panic_on_oops,keys/root_maxkeys,keys/root_maxbytes} vm/{overcommit_memory,panic_on_oom}; do
		install -D -m 644 "/proc/sys/$file" "/run/settings/$file"
		mount --bind "/run/settings/$file" "/proc/sys/$file"
	done
}

start_containerd() {
	start containerd containerd
	await_service containerd ctr version
}

start_kubelet() {
	cat >/root/kubelet.yaml <<-END
		apiVersion: kubelet.config.k8s.io/v1beta1
		kind: KubeletConfiguration
		containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
		authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
		authorization: {mode: AlwaysAllow}
		cgroupDriver: cgroupfs
		failCgroupV1: false
		failSwapOn: false
		resolvConf: /etc/resolv.conf
		clusterDNS: [10.96.0.10]
		evictionHard: {memory.available: "0%", nodefs.available: "0%", imagefs.available: "0%", nodefs.inodesFree: "0%"}
		imageGCHighThresholdPercent: 100
		imageGCLowThresholdPercent: 99
	END
	start kubelet "$programs/kubelet" --config /root/kubelet.yaml --kubeconfig /root/.kube/config \
		--hostname-override node --node-ip "$address" --cert-dir /root/kubelet-certificates
	await_service kubelet kubectl get node node
}

# end_service NAME: ends it, as systemctl stop does.
end_service() {
	local pid
	pid=$(sed -n "s/ $1\$//p" "$BATS_FILE_TMPDIR/services" | tail -n 1)
	kill -TERM "$pid"
	poll has_ended "$pid"
	sed -i "/^$pid /d" "$BATS_FILE_TMPDIR/services"
}

start_cluster() {
	ip address add "$address/32" dev lo
	start_registry
	push_image pause:1 "$build/pause"
	skopeo copy --quiet "docker-archive:$legacy_image/redis-legacy.tar" "docker://$registry/redis:legacy"
	start_control_plane
	configure_node
	start_containerd
	start_kubelet
}

# what a failed step is followed by.
print_logs() {
	local log
	kubectl get pods --all-namespaces -o wide || true
	kubectl get events --all-namespaces --sort-by .lastTimestamp | tail -n 30 || true
	for log in kubelet containerd kube-apiserver kube-controller-manager kube-scheduler etcd registry; do
		echo "--- $log"
		grep -v 'level=info\|Caches are synced' "$BATS_FILE_TMPDIR/$log.log" | tail -n 25 | cut -c 1-400
	done
}
