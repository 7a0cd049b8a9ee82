package batch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"vfix.dev/vfix/images/outcome"
)

// FuzzState: whatever a state file holds, what is added to it is found again, and a line that was cut off hides no other.
func FuzzState(f *testing.F) {
	for _, text := range []string{"", "\n", "{", "null\n[]\n", `{"schema":1,"verb":"scan","source":"a","dest":"","status":"clean"}` + "\n", `{"schema":2,"verb":"scan","source":"a"}` + "\n{}"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "state"+stateEnding)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		open := func() *state {
			s, err := openState(context.Background(), path, Part{}, nil)
			if err != nil {
				return nil
			}
			return s
		}
		s := open()
		if s == nil {
			return // of another version, or no list of lines
		}
		o := outcome.Image{Item: outcome.Item{Source: "new", Dest: "to"}, Err: errors.New("it is down")}
		if err := s.add(o, "rebuild", "options"); err != nil {
			t.Fatal(err)
		}
		s.Close()
		if s = open(); s == nil {
			t.Fatal("cannot be opened again")
		}
		defer s.Close()
		if _, ok := s.at(stateKey{"rebuild", "new", "to"}); !ok {
			t.Error("what was added is not there")
		}
	})
}
