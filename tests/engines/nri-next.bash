# nri-next: the containerd that tests/engines/proxied builds.
# shellcheck shell=bash disable=SC2154
load nri

configure_engine() {
	configure_pods "$pause"
	ln -sf "$("$tree/tests/engines/proxied" containerd)"/* /usr/local/bin/ # which PATH has before Debian's
}

# validator NAME VALUE: the configuration has the validator of NRI, with this option.
validator() {
	printf "[plugins.'io.containerd.nri.v1.nri'.default_validator]\nenable = true\n%s = %s\n" "$@" >>/etc/containerd/config.toml
}

no_validator() { configure_pods "$pause"; }
