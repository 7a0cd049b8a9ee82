package doctor

import (
	"errors"
	"strings"
	"testing"

	"vfix.dev/vfix/host/policy"
	"vfix.dev/vfix/host/starts"
)

func TestPolicy(t *testing.T) {
	for source, want := range map[starts.Source]Verdict{
		starts.FromFile: OK, starts.Defaults: OK, starts.LastGood: Warn, starts.ClosedDefault: Fail,
	} {
		p := policy.InForce{Source: source, Path: "/etc/vfix/runtime.json", Err: errors.New("line 3")}
		var c Check
		x := &examination{Options: Options{Policy: func() policy.InForce { return p }}}
		if checkPolicy(x, &c); c.Verdict != want || (c.Do != "") != (want != OK) {
			t.Errorf("%s: got %+v", source, c)
		}
		if want != OK && !strings.Contains(c.Found, "line 3") {
			t.Errorf("%s: got %q", source, c.Found)
		}
	}
}
