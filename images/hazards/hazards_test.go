package hazards

import (
	"errors"
	"strings"
	"testing"
)

func find(t *testing.T, name, content string) *Hazard {
	t.Helper()
	h, err := Find(name, strings.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// The text that programs of each version have in them, with its surroundings.
const (
	jre      = "\x00OpenJDK 64-Bit Server VM (%) for linux-amd64 JRE (%), built on Oct 17 2023 00:00:00\x00"
	v1Files  = "\x00/proc/self/cgroup\x00%s/memory.limit_in_bytes\x00"
	v2Files  = v1Files + "/proc/cgroups\x00/memory.max\x00"
	newFiles = v2Files + "/sys/fs/cgroup/cgroup.controllers\x00"
	shaCode  = "\x0f\x3a\xcc\xc1\x03"
)

func jvm(version, files string) string { return strings.ReplaceAll(jre, "%", version) + files }

func TestFind(t *testing.T) {
	for _, c := range []struct {
		name, content string
		kind          Kind
		version       string
	}{
		{"usr/lib/jvm/17/lib/server/libjvm.so", jvm("17.0.9+9", v2Files), JavaCgroups, "17.0.9+9"},
		{"libjvm.so", jvm("1.8.0_372-b07", v2Files), JavaCgroups, "1.8.0_372-b07"},
		{"libjvm.so", jvm("1.8.0_191-b12", v1Files), JavaCgroupV1, "1.8.0_191-b12"},
		{"libjvm.so", jvm("1.6.0_45-b06", ""), JavaUnaware, "1.6.0_45-b06"},
		{"libjvm.so", jvm("25+36", newFiles), "", ""},
		{"libjvm.so", jvm("17", v2Files) + jvm("18", v2Files), JavaCgroups, "17"},
		{"libjvm.so", jvm("", v2Files) + jvm("18", v2Files), JavaCgroups, "18"},
		{"libjvm.so", "another virtual machine\x00/proc/cgroups\x00", "", ""},
		{"libother.so", jvm("17.0.9+9", v2Files), "", ""},
		{"lib/x86_64-linux-gnu/libcrypto.so.1.0.0", "OpenSSL 1.0.2g  1 Mar 2016\x00" + shaCode, OpenSSLSHA, "1.0.2g"},
		{"libcrypto.so.10", "part of OpenSSL 1.0.2k-fips  26 Jan 2017\x00" + shaCode, OpenSSLSHA, "1.0.2k-fips"},
		{"libcrypto-41d5a7a6.so.1.0.2", "OpenSSL 1.0.2 22 Jan 2015\x00" + shaCode, OpenSSLSHA, "1.0.2"},
		{"libcrypto.so.1.0.2", "OpenSSL 1.0.2-beta1 24 Feb 2014\x00" + shaCode, OpenSSLSHA, "1.0.2-beta1"},
		{"libcrypto.so.1.0.2", "OpenSSL 1.0.2a 1 Mar\x00" + shaCode, OpenSSLSHA, "1.0.2a"},
		{"libcrypto.so.1.0.2", "OpenSSL 1.0.2k 1 Mar\x00OpenSSL 1.0.2a 1 Mar\x00" + shaCode, OpenSSLSHA, "1.0.2k"},
		{"libcrypto.so.1.0.2", "OpenSSL 1.0.2u 1 Mar\x00OpenSSL 1.0.2a 1 Mar\x00" + shaCode, OpenSSLSHA, "1.0.2a"},
		{"libcrypto.so.1.0.2", shaCode + "OpenSSL 1.0.2 ", OpenSSLSHA, "1.0.2"},
		{"libcrypto.so.1.0.2", shaCode + "OpenSSL 1.0.2", "", ""},
		{"libcrypto.so.1.0.2", "OpenSSL 1.0.2l  25 May 2017\x00" + shaCode, "", ""},
		{"libcrypto.so.1.0.2", "OpenSSL 1.0.2X  25 May 2017\x00" + shaCode, "", ""},
		{"libcrypto.so.1.0.2", "OpenSSL 1.0.2ab  25 May 2017\x00" + shaCode, "", ""},
		{"libcrypto.so.1.0.2", "OpenSSL 1.0.2-fips  22 Jan 2015\x00" + shaCode, "", ""},
		{"libcrypto.so.1.0.2", "OpenSSL 1.0.2u  20 Dec 2019\x00" + shaCode, "", ""},
		{"libcrypto.so.1.0.0", "OpenSSL 1.0.2g  1 Mar 2016\x00", "", ""},
		{"libcrypto.so.1.0.0", "OpenSSL 1.0.1t  3 May 2016\x00" + shaCode, "", ""},
		{"libcrypto.so.3", "OpenSSL 3.0.19 27 Jan 2026\x00" + shaCode, "", ""},
		{"libcrypto.so.1.0.2", shaCode + strings.Repeat("\x00", window-10-len(shaCode)) + "OpenSSL 1.0.2k-fips  26 Jan 2017", OpenSSLSHA, "1.0.2k-fips"},
		{"libcrypto.so.1.0.2", "OpenSSL 1.0.2k 1 Mar" + strings.Repeat("\x00", 2*window) + shaCode, OpenSSLSHA, "1.0.2k"},
		{"usr/lib/systemd/systemd", "\x00systemd 219 running in %ssystem mode. (%s)\x00", InitCgroupV2, "219"},
		{"lib/systemd/systemd", "\x00systemd 229 running in %ssystem mode. (%s)\x00", InitCgroupV2, "229"},
		{"lib/systemd/systemd", "systemd 1 running in %ssystem mode. (%s)\x00", InitCgroupV2, "1"},
		{"lib/systemd/systemd", "systemd 219 running in %s\x00systemd 232 running in %s", InitCgroupV2, "219"},
		{"lib/systemd/systemd", "systemd x running in %s\x00systemd 219 running in %s", InitCgroupV2, "219"},
		{"lib/systemd/systemd", "\x00systemd 230 running in %ssystem mode. (%s)\x00", "", ""},
		{"lib/systemd/systemd", "\x00systemd 232 running in %ssystem mode. (%s)\x00", "", ""},
		{"lib/systemd/systemd", "\x00systemd 252.39-1~deb12u2 running in %ssystem mode (%s)\x00", "", ""},
		{"lib/systemd/systemd", "\x00not running in any mode\x00", "", ""},
	} {
		h := find(t, c.name, c.content)
		switch {
		case c.kind == "" && h != nil:
			t.Errorf("%s, %.100q: got %+v, want none", c.name, c.content, h)
		case c.kind != "" && (h == nil || h.Kind != c.kind || h.Version != c.version):
			t.Errorf("%s, %.100q: got %+v, want %s %s", c.name, c.content, h, c.kind, c.version)
		case h != nil && (h.Title() == "" || h.Means() == "" || h.Do() == ""):
			t.Errorf("%s: no words for it", h.Kind)
		}
	}
}

// A file that cannot be read is an error; one that ends early is not.
func TestUnreadable(t *testing.T) {
	broken := errors.New("broken")
	if _, err := Find("systemd", failing{err: broken}, 100); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	const content = "systemd 219 running in "
	for _, size := range []int64{int64(len(content)), int64(len(content)) + 10} {
		if h, err := Find("systemd", strings.NewReader(content), size); err != nil || h == nil {
			t.Errorf("%d bytes: got %+v, %v", size, h, err)
		}
	}
}

// failing fails to read.
type failing struct{ err error }

func (i failing) ReadAt([]byte, int64) (int, error) { return 0, i.err }

func FuzzFind(f *testing.F) {
	f.Add("libjvm.so", jvm("17.0.9+9", v2Files))
	f.Add("libcrypto.so", "OpenSSL 1.0.2k  26 Jan 2017\x00"+shaCode)
	f.Add("systemd", "systemd 219 running in system mode")
	f.Fuzz(func(t *testing.T, name, content string) {
		if h := find(t, name, content); h != nil && h.Version == "" {
			t.Errorf("%+v", h)
		}
	})
}
