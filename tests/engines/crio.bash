# crio: CRI-O, which tests/engines/proxied builds, with Debian's conmon and crun.
# shellcheck shell=bash disable=SC2034,SC2154
engine=crio
program=crio
endpoint=unix:///run/crio/crio.sock
runtimes=(crun runc) # the first is the default

engine_version() { crictl version | sed -n 's/^RuntimeVersion: *//p'; }

# configure_engine: pinns is where a package has it, and the rest as little as this machine needs: there is no
# systemd, and the sandbox has a command of its own.
configure_engine() {
	ln -s "$("$tree/tests/engines/proxied" crio)"/{crio,pinns} /usr/local/bin/
	mkdir -p /etc/crio/crio.conf.d
	cat >/etc/crio/crio.conf <<-END
		[crio.runtime]
		cgroup_manager = "cgroupfs"
		conmon_cgroup = "pod"

		[crio.runtime.runtimes.crun]

		[crio.runtime.runtimes.runc]

		[crio.image]
		pause_image = "$pause"
		pause_command = ""

		[crio.network]
		plugin_dirs = ["/usr/lib/cni"]
	END
}

# import ARCHIVE NAME: the image of a docker archive, under this name.
import() { skopeo copy --quiet "docker-archive:$1" "containers-storage:$2"; }

# validator NAME VALUE: the configuration has the validator of NRI, with this option.
validator() {
	printf '[crio.nri.default_validator]\nnri_enable_default_validator = true\nnri_validator_%s = %s\n' "$@" >/etc/crio/crio.conf.d/50-validator.conf
}

no_validator() { rm /etc/crio/crio.conf.d/50-validator.conf; }
