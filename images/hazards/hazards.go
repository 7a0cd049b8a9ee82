// Package hazards recognizes programs and libraries that make old images fail on new hosts for other
// reasons than the vsyscall page: each finder knows one file by its name and proves from its bytes
// that its version is affected. Nothing here is patched.
package hazards

import (
	"bytes"
	"io"
	"path"
	"regexp"
	"strconv"

	"vfix.dev/vfix/internal/textutil"
)

// Kind is one hazard.
type Kind string

const (
	// JavaCgroups: a JDK that does not see its container's limits where /proc/cgroups does not list
	// the controllers of cgroup v1.
	JavaCgroups Kind = "java-cgroups"
	// JavaCgroupV1: a JDK that knows cgroup v1 only.
	JavaCgroupV1 Kind = "java-cgroup-v1"
	// JavaUnaware: a JDK that knows no control groups.
	JavaUnaware Kind = "java-unaware"
	// OpenSSLSHA: a libcrypto whose code for the SHA extensions of processors has bugs.
	OpenSSLSHA Kind = "openssl-sha"
	// InitCgroupV2: a systemd that does not start on cgroup v2; a hazard as a container's init.
	InitCgroupV2 Kind = "init-cgroup-v2"
	// Schema1: an image that is stored with a manifest of schema 1; its source knows, no file does.
	Schema1 Kind = "schema1"
)

// Hazard is a kind and the version that has it.
type Hazard struct {
	Kind    Kind
	Version string // of the JDK, OpenSSL or systemd, as it names itself; of the schema
}

// finder finds the hazards of one file.
type finder struct {
	name    string                // in the form of path.Match
	version func() *regexp.Regexp // matches the version, as its first group; a file without it has no hazard
	texts   []string              // by which its versions differ
	// kind decides by the version and the texts in the file; "" for no hazard.
	kind func(version string, has map[string]bool) Kind
}

var finders = []finder{
	{"libjvm.so", hotspot, []string{controllers, cgroups, limitV1}, java},
	{"libcrypto*.so*", badOpenSSL, []string{sha1rnds4}, openssl},
	{"systemd", runningSystemd, nil, systemd},
}

const (
	// window is how much of a file is in memory, in bytes, and overlap more than any version or text has.
	window  = 1 << 20
	overlap = 512
)

// Find examines an ELF file by its name; nil means no hazard. The error is r's.
func Find(name string, r io.ReaderAt, size int64) (*Hazard, error) {
	for _, f := range finders {
		if ok, _ := path.Match(f.name, path.Base(name)); ok {
			return f.find(r, size)
		}
	}
	return nil, nil
}

// find reads the file window by window.
func (f *finder) find(r io.ReaderAt, size int64) (*Hazard, error) {
	version, has, buf := "", map[string]bool{}, make([]byte, min(size, window))
	for at := int64(0); at < size; at += window - overlap {
		n, err := r.ReadAt(buf, at)
		if err != nil && err != io.EOF {
			return nil, err
		}
		if m := f.version().FindSubmatch(buf[:n]); m != nil && version == "" {
			version = string(m[1])
		}
		for _, text := range f.texts {
			has[text] = has[text] || bytes.Contains(buf[:n], []byte(text))
		}
	}
	if kind := f.kind(version, has); version != "" && kind != "" {
		return &Hazard{kind, version}, nil
	}
	return nil, nil
}

// hotspot is how HotSpot names itself (Abstract_VM_Version::internal_vm_info_string).
var hotspot = textutil.LazyRegexp(` for linux-amd64 JRE \(([^)\x00]+)\)`)

// Files that a JDK reads. limitV1 is version 1's; controllers shows since JDK-8349988 whether version 2 is in use, in
// place of cgroups.
const (
	controllers = "/cgroup.controllers"
	cgroups     = "/proc/cgroups\x00"
	limitV1     = "memory.limit_in_bytes\x00"
)

func java(_ string, has map[string]bool) Kind {
	switch {
	case has[controllers]:
		return ""
	case has[cgroups]:
		return JavaCgroups
	case has[limitV1]:
		return JavaCgroupV1
	}
	return JavaUnaware
}

// badOpenSSL is the versions whose code for SHA extensions has bugs, 1.0.2-beta1 to 1.0.2k. Source: Intel, "OpenSSL SHA
// Crash Bug Requires Application Update".
var badOpenSSL = textutil.LazyRegexp(`OpenSSL (1\.0\.2(?:-beta[^ \x00]*|[a-k](?:-[^ \x00]*)?)?) `)

// sha1rnds4 is the opcode of the instruction that only that code has (SDM).
const sha1rnds4 = "\x0f\x3a\xcc"

func openssl(_ string, has map[string]bool) Kind {
	if has[sha1rnds4] {
		return OpenSSLSHA
	}
	return ""
}

// runningSystemd is how systemd names itself: "systemd 219 running in %ssystem mode" (src/core/main.c).
var runningSystemd = textutil.LazyRegexp(`systemd (\d+) running in `)

// firstUnified is the first systemd that can be the init of a container on cgroup v2.
const firstUnified = 230

func systemd(version string, _ map[string]bool) Kind {
	if n, err := strconv.Atoi(version); err == nil && n < firstUnified {
		return InitCgroupV2
	}
	return ""
}

// about describes a kind: what it is, without the version, what happens, and where, and what helps.
var about = map[Kind]struct{ title, means, do string }{
	JavaCgroups: {"JDK",
		"ignores its memory limit on hosts with cgroup v2 whose /proc/cgroups does not list memory (some kernels since Linux 6.12 without CONFIG_MEMCG_V1): it is killed, with status 137",
		"rebuild the image with --fix java-cgroups, update the JDK, or set JAVA_TOOL_OPTIONS='-XX:MaxRAM=BYTES', with the limit in bytes"},
	JavaCgroupV1: {"JDK", "ignores its memory limit on hosts with cgroup v2: it is killed, with status 137", limitJava},
	JavaUnaware:  {"JDK", "ignores its memory limit on every host: it is killed, with status 137", limitJava},
	OpenSSLSHA: {"OpenSSL",
		"encrypts wrongly with AES-CBC in TLS 1.0 on Intel processors with SHA extensions (from 2019 on): the other side reports 'bad record mac'. It is also said to crash in SHA-1 and SHA-256, with status 139",
		"set OPENSSL_ia32cap=:~0x20000000 in the container's environment, or install OpenSSL 1.0.2l or later"},
	InitCgroupV2: {"systemd", "does not start as a container's init on hosts with cgroup v2",
		"boot the host with systemd.unified_cgroup_hierarchy=0, or start the service directly instead of systemd"},
	Schema1: {"manifest of schema", "Docker 28.2, containerd 2.1 and later refuse to pull it",
		"'vfix rebuild' stores it in a current format"},
}

const limitJava = "set JAVA_TOOL_OPTIONS='-XX:MaxRAM=BYTES', with the limit in bytes (before JDK 8: -Xmx), or update the JDK"

// Title says in a few words what it is, Means what happens, and where, and Do what helps.
func (h *Hazard) Title() string { return about[h.Kind].title + " " + h.Version }
func (h *Hazard) Means() string { return about[h.Kind].means }
func (h *Hazard) Do() string    { return about[h.Kind].do }
