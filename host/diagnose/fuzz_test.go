package diagnose

import (
	"bytes"
	"strings"
	"testing"
)

// Any core is diagnosed or refused, quickly and with little memory.
func FuzzCore(f *testing.F) {
	f.Add(crashedCore().bytes())
	noFile := crashedCore()
	noFile.noFile = true
	f.Add(noFile.bytes())
	root := testRoot()
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := Core("core", bytes.NewReader(b), Options{Root: root})
		if (c == nil) == (err == nil) {
			t.Fatalf("got %v, %v", c, err)
		}
		if err == nil && (c.Kind == "" || c.Meaning == "") {
			t.Fatalf("got %+v", c)
		}
	})
}

func FuzzLog(f *testing.F) {
	f.Add("[    2.866376] bash[106] vsyscall attempted with vsyscall=none ip:ffffffffff600400 cs:33 sp:7ff ax:0 si:0 di:0\nbash[106]: segfault at ffffffffff600400 ip ffffffffff600400 sp 7ff error 15 in x[1+2]")
	f.Add(`audit: type=1326 audit(1.2:3): pid=123 comm="bash" exe="/bin/bash" sig=31 ip=0xffffffffff600400 code=0x80000000`)
	f.Add("6,1,2,-;traps: a[1] general protection fault ip:7f sp:1 error:0 in b[1+1]")
	f.Add("[pid 7] --- SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=0xffffffffff600400} ---")
	f.Add("81 12:03:04.5 0 bash (7) > page_fault addr=FFFFFFFFFF600400 ip=FFFFFFFFFF600400 error=14\nbash-7 [000] d..1 12.3: page_fault_user: address=0xffffffffff600400 ip=0xffffffffff600400 error_code=0x14")
	f.Fuzz(func(t *testing.T, s string) {
		crashes, _, err := Log("log", strings.NewReader(s), Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range crashes {
			if c.Kind == "" || c.Meaning == "" || c.Count < 1 {
				t.Fatalf("got %+v", c)
			}
		}
	})
}
