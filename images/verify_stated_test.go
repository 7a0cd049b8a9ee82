package images_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/tests/imagetest"
)

// falsify calls f with the JSON document once for each of its leaves, which is changed then, and
// the leaf's path.
func falsify(t *testing.T, raw []byte, f func(path string, changed []byte)) {
	t.Helper()
	var doc any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	var walk func(path string, v any, set func(any))
	walk = func(path string, v any, set func(any)) {
		other := func(changed any) {
			set(changed)
			f(path, imagetest.Must[[]byte](t)(json.Marshal(doc)))
			set(v)
		}
		switch v := v.(type) {
		case map[string]any:
			for k, e := range v {
				walk(path+"."+k, e, func(x any) { v[k] = x })
			}
		case []any:
			for i, e := range v {
				walk(fmt.Sprintf("%s[%d]", path, i), e, func(x any) { v[i] = x })
			}
		case string:
			other(v + "0")
			other("")
			if len(v) > 0 {
				other(string(v[0]^1) + v[1:])
			}
		case float64:
			other(v + 1)
		case bool:
			other(!v)
		default:
			t.Fatalf("%s: a leaf of type %T", path, v)
		}
	}
	walk("", doc, func(any) {})
}

// Each leaf of a statement is checked, or is in the list of those that are not.
func TestStatementLeaves(t *testing.T) {
	type kind struct {
		mode    fallback.Mode
		source  string
		checked int // leaves at least
	}
	withLoader := imagetest.Must[v1.Image](t)(mutate.AppendLayers(imagetest.Stack(t, []imagetest.TestMember{imagetest.LoaderM()}),
		imagetest.Must[[]v1.Layer](t)(imagetest.ProvedBase(t).Layers())...))
	fixture := filepath.Join("..", "tests", "build", "fixtures", "pie")
	content, err := os.ReadFile(fixture)
	all := map[string]kind{"fallback": {fallback.FallbackAlways, imagetest.StoreOCI(t, withLoader), 50}}
	if err == nil {
		all["program with symbols"] = kind{fallback.FallbackNever, imagetest.StoreOCI(t, imagetest.Stack(t, []imagetest.TestMember{imagetest.FileM("bin/x", content)})), 20}
	}
	index := regexp.MustCompile(`\[\d+\]`)
	for name, k := range all {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			dest, file := "oci:"+dir+"/out:x", dir+"/good.json"
			if _, err := images.Rebuild(context.Background(), k.source, images.RebuildOptions{
				Dest: dest, Version: "1", Provenance: file, Fallback: k.mode, ScanOptions: images.ScanOptions{Shim: imagetest.TestShim},
			}); err != nil {
				t.Fatal(err)
			}
			check := func(file string) (*images.Verified, error) {
				return images.Verify(context.Background(), dest, images.VerifyOptions{Statement: file, Provenance: true, ScanOptions: images.ScanOptions{Shim: imagetest.TestShim}})
			}
			good, err := check(file)
			if err != nil || len(good.Problems) != 0 {
				t.Fatalf("as it is: got %+v, %v", good, err)
			}
			unchecked := strings.Join(good.NotCompared, "\n")
			checked, listed := 0, map[string]bool{}
			falsify(t, imagetest.Must[[]byte](t)(os.ReadFile(file)), func(path string, changed []byte) {
				path = strings.TrimPrefix(strings.TrimPrefix(index.ReplaceAllString(path, "[]"), "."), "predicate.")
				v, err := check(imagetest.Write(t, dir+"/changed.json", changed))
				switch {
				case err != nil || len(v.Problems) > 0:
					checked++
				case strings.Contains(unchecked, path):
					listed[path] = true
				default:
					t.Errorf("%s: falsified and not noticed: %s", path, changed)
				}
			})
			if checked < k.checked || len(listed) != 1 || !listed["subject[].name"] {
				t.Errorf("%d leaves are checked, want at least %d; of those listed as not checked these are not: %v", checked, k.checked, listed)
			}
		})
	}
	if err != nil {
		t.Log("the fixtures are not built: ", err)
	}
}
