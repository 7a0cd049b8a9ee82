// The finders, one for each program.

package hazards

import (
	"bytes"
	"strconv"
	"strings"
)

// java knows HotSpot, which names itself "… VM (RELEASE) for linux-amd64 JRE (VERSION), built on"
// (hotspot, Abstract_VM_Version::internal_vm_info_string). The abilities of a JDK show in the files that
// it reads: memory.limit_in_bytes is v1's, memory.max v2's, and cgroup.controllers shows since
// JDK-8349988 whether v2 is in use, in place of /proc/cgroups.
func java(t text) *Hazard {
	version := ""
	t.each(" for linux-amd64 JRE (", func(_, after []byte) bool {
		version = until(after, ")")
		return version == ""
	})
	if version == "" {
		return nil
	}
	switch {
	case t.has("/cgroup.controllers"):
		return nil
	case t.has("/proc/cgroups\x00"):
		return &Hazard{JavaCgroups, version}
	case t.has("memory.limit_in_bytes\x00"):
		return &Hazard{JavaCgroupV1, version}
	}
	return &Hazard{JavaUnaware, version}
}

// lastBad is the last letter of OpenSSL 1.0.2 whose code for SHA extensions has bugs, from 1.0.2-beta
// on. Source: Intel, "OpenSSL SHA Crash Bug Requires Application Update".
const lastBad = 'k'

// sha1rnds4 is the opcode of the instruction that only that code has (SDM).
const sha1rnds4 = "\x0f\x3a\xcc"

func openssl(t text) *Hazard {
	version := ""
	t.each("OpenSSL 1.0.2", func(_, after []byte) bool {
		if v, ok := badOpenSSL(until(after, " ")); ok {
			version = v
		} else if len(after) > 0 && after[0] == ' ' {
			version = "1.0.2"
		}
		return version == ""
	})
	if version == "" || !t.has(sha1rnds4) {
		return nil
	}
	return &Hazard{OpenSSLSHA, version}
}

// badOpenSSL completes a version from what follows "1.0.2": a letter, "-beta1", "k-fips".
func badOpenSSL(rest string) (version string, bad bool) {
	letter, _, _ := strings.Cut(rest, "-")
	bad = strings.HasPrefix(rest, "-beta") || len(letter) == 1 && letter[0] >= 'a' && letter[0] <= lastBad
	return "1.0.2" + rest, bad
}

// firstUnified is the first systemd that can be the init of a container on cgroup v2.
const firstUnified = 230

// systemd names itself "systemd 219 running in %ssystem mode" (systemd, src/core/main.c).
func systemd(t text) *Hazard {
	version := 0
	t.each(" running in ", func(before, _ []byte) bool {
		if n := bytes.LastIndex(before, []byte("systemd ")); n >= 0 {
			version, _ = strconv.Atoi(string(before[n+len("systemd "):])) // 0: another format, or not a version
		}
		return version == 0
	})
	if version == 0 || version >= firstUnified {
		return nil
	}
	return &Hazard{InitCgroupV2, strconv.Itoa(version)}
}
