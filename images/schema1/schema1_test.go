package schema1_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/hazards"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/schema1"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
	"vfix.dev/vfix/tests/imagetest"
)

// oldID64 is the ID of the old layer number n.
func oldID64(n int) string { return fmt.Sprintf("%064x", n+1) }

// schema1Text makes a schema 1 manifest of layers, given base first: the blob, and members
// of its image JSON.
func schema1Text(t testing.TB, layers ...oldFixture) []byte {
	t.Helper()
	type fsLayer struct {
		BlobSum string `json:"blobSum"`
	}
	type history struct {
		V1 string `json:"v1Compatibility"`
	}
	var m struct {
		SchemaVersion int       `json:"schemaVersion"`
		Name          string    `json:"name"`
		Architecture  string    `json:"architecture"`
		FSLayers      []fsLayer `json:"fsLayers"`
		History       []history `json:"history"`
	}
	m.SchemaVersion, m.Name, m.Architecture = 1, "old", "amd64"
	for n := len(layers) - 1; n >= 0; n-- {
		l := layers[n]
		sum, _, _ := v1.SHA256(bytes.NewReader(l.blob))
		m.FSLayers = append(m.FSLayers, fsLayer{sum.String()})
		m.History = append(m.History, history{l.json(n)})
	}
	return imagetest.Must[[]byte](t)(json.MarshalIndent(m, "", "   "))
}

type oldFixture struct {
	blob    []byte
	members string // of the image JSON, with a comma before each
}

// json is the image JSON of the layer number n.
func (f oldFixture) json(n int) string {
	parent := ""
	if n > 0 {
		parent = `,"parent":"` + oldID64(n-1) + `"`
	}
	return `{"id":"` + oldID64(n) + `"` + parent + f.members + `}`
}

// oldChain is four layers: the last two add the same file, and one adds none.
func oldChain(t testing.TB) (layers []oldFixture, plain [][]byte) {
	base, top := imagetest.TarOf(t, "etc/base", "one", "etc/gone", "x"), imagetest.TarOf(t, "etc/top", "two", "etc/.wh.gone", "")
	nothing := make([]byte, 2*media.TarBlock)
	return []oldFixture{
		{imagetest.GzipOf(t, base), `,"created":"2014-01-01T00:00:00Z","author":"me","container_config":{"Cmd":["/bin/sh","-c","base"]}`},
		{imagetest.GzipOf(t, top), `,"container_config":{"Cmd":"one word"}`},
		{imagetest.GzipOf(t, nothing), `,"throwaway":true,"created":"2014-01-02T00:00:00Z","comment":"nothing"`},
		{imagetest.GzipOf(t, top), `,"config":{"Cmd":["/bin/true"],"Entrypoint":"","Env":["A=<b>"]},"os":"linux","Size":7,"docker_version":"1.6.0"`},
	}, [][]byte{base, top, top}
}

// sign puts a signature into a manifest as libtrust does.
func sign(t testing.TB, text []byte, alg jose.SignatureAlgorithm, key any, header string) []byte {
	t.Helper()
	end := bytes.LastIndexByte(text, '}') // the tail is from the line break before it
	cut := len(bytes.TrimRight(text[:end], "\n "))
	enc := base64.RawURLEncoding.EncodeToString
	protected := fmt.Sprintf(`{"formatLength":%d,"formatTail":%q,"time":"2015-01-01T00:00:00Z"}`, cut, enc(text[cut:]))
	signature := imagetest.Must[[]byte](t)(rawSign(key, []byte(enc([]byte(protected))+"."+enc(text))))
	block := fmt.Sprintf(`,"signatures":[{"header":{%s,"alg":%q},"signature":%q,"protected":%q}]`,
		header, alg, enc(signature), enc([]byte(protected)))
	return []byte(string(text[:cut]) + block + string(text[cut:]))
}

// rawSign signs as RFC 7518, sections 3.3 (RS256) and 3.4 (ES256), has it.
func rawSign(key any, input []byte) ([]byte, error) {
	sum := sha256.Sum256(input)
	switch k := key.(type) {
	case *ecdsa.PrivateKey:
		r, s, err := ecdsa.Sign(rand.Reader, k, sum[:])
		if err != nil {
			return nil, err
		}
		out := make([]byte, 64)
		r.FillBytes(out[:32])
		s.FillBytes(out[32:])
		return out, nil
	case *rsa.PrivateKey:
		return rsa.SignPKCS1v15(nil, k, crypto.SHA256, sum[:])
	}
	return nil, fmt.Errorf("no such key: %T", key)
}

func newECKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	return imagetest.Must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
}

func jwkHeader(t testing.TB, public any) string {
	t.Helper()
	return `"jwk":` + string(imagetest.Must[[]byte](t)(jose.JSONWebKey{Key: public, KeyID: "AAAA:BBBB"}.MarshalJSON()))
}

// dirOf puts a manifest and blobs where skopeo's dir: has them.
func dirOf(t testing.TB, manifest []byte, layers []oldFixture) string {
	t.Helper()
	dir := t.TempDir()
	imagetest.Write(t, filepath.Join(dir, media.DirManifest), manifest)
	for _, l := range layers {
		sum, _, _ := v1.SHA256(bytes.NewReader(l.blob))
		imagetest.Write(t, filepath.Join(dir, sum.Hex), l.blob)
	}
	return dir
}

func TestSchema1(t *testing.T) {
	imagetest.CleanTemp(t)
	layers, plain := oldChain(t)
	text := schema1Text(t, layers...)
	key := newECKey(t)
	rsaKey := imagetest.Must[*rsa.PrivateKey](t)(rsa.GenerateKey(rand.Reader, 2048))
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	cert := imagetest.Must[[]byte](t)(x509.CreateCertificate(rand.Reader, template, template, &rsaKey.PublicKey, rsaKey))
	want, _, _ := v1.SHA256(bytes.NewReader(text))
	for name, raw := range map[string][]byte{
		"unsigned": text,
		"ES256":    sign(t, text, jose.ES256, key, jwkHeader(t, &key.PublicKey)),
		"RS256":    sign(t, text, jose.RS256, rsaKey, jwkHeader(t, &rsaKey.PublicKey)),
		"x5c":      sign(t, text, jose.RS256, rsaKey, `"x5c":["`+base64.StdEncoding.EncodeToString(cert)+`"]`),
	} {
		t.Run(name, func(t *testing.T) {
			dir := dirOf(t, raw, layers)
			for _, source := range []string{dir, "dir:" + dir, filepath.Join(dir, media.DirManifest)} {
				src := imagetest.Open(t, source)
				if src.Digest != want.String() {
					t.Errorf("%s: digest: got %s, want %s", source, src.Digest, want)
				}
				wantOldImage(t, src.Image, plain)
				f, err := images.Scan(t.Context(), source, images.ScanOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if len(f.Hazards) != 1 || f.Hazards[0].Kind != hazards.Schema1 {
					t.Errorf("%s: hazards: got %v", source, f.Hazards)
				}
			}
		})
	}
}

// wantOldImage checks the image that is made of oldChain.
func wantOldImage(t *testing.T, img v1.Image, plain [][]byte) {
	t.Helper()
	imagetest.SameImage(t, img, img)
	cf := imagetest.Must[*v1.ConfigFile](t)(img.ConfigFile())
	for n, p := range plain {
		id, _, _ := v1.SHA256(bytes.NewReader(p))
		if n >= len(cf.RootFS.DiffIDs) || cf.RootFS.DiffIDs[n] != id {
			t.Errorf("diff IDs: got %v, want %v as number %d", cf.RootFS.DiffIDs, id, n)
		}
	}
	var history []string
	for _, h := range cf.History {
		history = append(history, fmt.Sprintf("%s|%s|%s|%v", h.Author, h.CreatedBy, h.Comment, h.EmptyLayer))
	}
	if got, want := strings.Join(history, "\n"), "me|/bin/sh -c base||false\n|one word||false\n||nothing|true\n|||false"; got != want {
		t.Errorf("history: got\n%s\nwant\n%s", got, want)
	}
	config := string(imagetest.Must[[]byte](t)(img.RawConfigFile()))
	for _, has := range []string{`"architecture":"amd64"`, `"os":"linux"`, `"Env":["A=<b>"]`, `"Entrypoint":null`, `"docker_version":"1.6.0"`} {
		if !strings.Contains(config, has) {
			t.Errorf("config: no %s in %s", has, config)
		}
	}
	for _, hasNot := range []string{`"id"`, `"parent"`, `"Size"`, `"throwaway"`} {
		if strings.Contains(config, hasNot) {
			t.Errorf("config: %s in %s", hasNot, config)
		}
	}
}

// Each defect has an error of its own, and the sound manifest none.
func TestSchema1Defects(t *testing.T) {
	imagetest.CleanTemp(t)
	layers, _ := oldChain(t)
	text := schema1Text(t, layers...)
	key, other := newECKey(t), newECKey(t)
	signed := string(sign(t, text, jose.ES256, key, jwkHeader(t, &key.PublicKey)))
	replace := func(s, old, new string) []byte {
		if !strings.Contains(s, old) {
			t.Fatalf("no %q in the manifest", old)
		}
		return []byte(strings.Replace(s, old, new, 1))
	}
	first, _, _ := v1.SHA256(bytes.NewReader(layers[0].blob))
	for name, c := range map[string]struct {
		raw  []byte
		says string
	}{
		"a changed name":            {replace(signed, `"old"`, `"new"`), "changed after it was signed"},
		"another's key":             {sign(t, text, jose.ES256, other, jwkHeader(t, &key.PublicKey)), "changed after it was signed"},
		"a private key":             {sign(t, text, jose.ES256, key, jwkHeader(t, key)), "private parameters"},
		"no key":                    {sign(t, text, jose.ES256, key, `"none":1`), "has no key"},
		"algorithm none":            {replace(signed, `"alg":"ES256"`, `"alg":"none"`), "signature 0"},
		"algorithm HS256":           {replace(signed, `"alg":"ES256"`, `"alg":"HS256"`), "signature 0"},
		"a length beyond the end":   {[]byte(`{"schemaVersion":1,"fsLayers":[],"signatures":[{"protected":"` + base64.RawURLEncoding.EncodeToString([]byte(`{"formatLength":99999}`)) + `"}]}`), "outside of the manifest"},
		"too many signatures":       {[]byte(`{"schemaVersion":1,"fsLayers":[],"signatures":[{}` + strings.Repeat(",{}", schema1.MaxSignatures) + `]}`), "at most 32"},
		"a wrong parent":            {replace(string(text), `\"parent\":\"`+oldID64(1), `\"parent\":\"`+oldID64(7)), "the layer below"},
		"a base with a parent":      {replace(string(text), `\"id\":\"`+oldID64(0)+`\"`, `\"parent\":\"`+oldID64(9)+`\",\"id\":\"`+oldID64(0)+`\"`), "the layer below"},
		"an ID that is invalid":     {replace(string(text), oldID64(3), "../"), "not an image ID"},
		"a blobSum that is invalid": {replace(string(text), first.String(), "sha256:00"), "not a digest"},
		"a blob that is missing":    {replace(string(text), first.Hex, strings.Repeat("0", 64)), "no file with the blob"},
		"no layers":                 {[]byte(`{"schemaVersion":1,"fsLayers":[],"history":[]}`), "no layers"},
		"too little history":        {[]byte(`{"schemaVersion":1,"fsLayers":[{}],"history":[]}`), "one for each history entry"},
		"an image JSON too few":     {replace(string(text), `"v1Compatibility": "{`, `"v1Compatibility": "[`), "image JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			imagetest.WantErr(t, imagetest.OpenErr(t, dirOf(t, c.raw, layers)), nil, c.says)
		})
	}
	imagetest.Open(t, dirOf(t, []byte(signed), layers))
}

// A layer that is there twice in a row is one.
func TestSchema1RepeatedLayer(t *testing.T) {
	layers, plain := oldChain(t)
	var m map[string]any
	if err := json.Unmarshal(schema1Text(t, layers...), &m); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"fsLayers", "history"} {
		list := m[key].([]any)
		m[key] = append(list[:1:1], list...)
	}
	wantOldImage(t, imagetest.Open(t, dirOf(t, imagetest.Must[[]byte](t)(json.Marshal(m)), layers)).Image, plain)
}

// A blob that is not what its digest says is an error, not an image with another diff ID.
func TestSchema1WrongBlob(t *testing.T) {
	layers, _ := oldChain(t)
	dir := dirOf(t, schema1Text(t, layers...), layers)
	sum, _, _ := v1.SHA256(bytes.NewReader(layers[0].blob))
	imagetest.Write(t, filepath.Join(dir, sum.Hex), layers[1].blob)
	imagetest.WantErr(t, imagetest.OpenErr(t, dir), hinterr.ErrDamaged, sum.Hex[:12])
}

// serveSchema1 has a registry answer for old:1 with a schema 1 manifest.
func serveSchema1(t *testing.T, f *imagetest.FakeRegistry, raw []byte, mediaType types.MediaType, digest string, layers []oldFixture) {
	t.Helper()
	f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/v2/old/manifests/") && r.Method == http.MethodGet {
			if !strings.Contains(r.Header.Get("Accept"), string(types.DockerManifestSchema1Signed)) ||
				!strings.Contains(r.Header.Get("Accept"), string(types.DockerManifestSchema1)+",") {
				t.Errorf("Accept: %s", r.Header.Get("Accept"))
			}
			w.Header().Set("Content-Type", string(mediaType))
			w.Header().Set("Docker-Content-Digest", digest)
			w.Write(raw)
			return true
		}
		for _, l := range layers {
			if sum, _, _ := v1.SHA256(bytes.NewReader(l.blob)); r.URL.Path == "/v2/old/blobs/"+sum.String() {
				w.Write(l.blob)
				return true
			}
		}
		return false
	})
}

func TestSchema1FromRegistry(t *testing.T) {
	imagetest.CleanTemp(t)
	f := imagetest.NewRegistry(t)
	layers, plain := oldChain(t)
	text := schema1Text(t, layers...)
	key := newECKey(t)
	signed := sign(t, text, jose.ES256, key, jwkHeader(t, &key.PublicKey))
	digest, _, _ := v1.SHA256(bytes.NewReader(text))
	for mt, raw := range map[types.MediaType][]byte{
		types.DockerManifestSchema1Signed: signed,
		types.DockerManifestSchema1:       text,
		"application/json":                text,
	} {
		serveSchema1(t, f, raw, mt, digest.String(), layers)
		for _, name := range []string{"/old:1", "/old@" + digest.String()} {
			src := imagetest.Open(t, "docker://"+f.Host+name)
			if src.Digest != digest.String() {
				t.Errorf("%s: digest: got %s, want %v", mt, src.Digest, digest)
			}
			wantOldImage(t, src.Image, plain)
			if n := f.Count("/blobs/"); n != 2 {
				t.Errorf("%s: got %d requests for blobs, want one for each of 2", mt, n)
			}
			f.Mu.Lock()
			f.Seen = nil
			f.Mu.Unlock()
		}
	}
	// The registry's word for a digest is not a proof.
	lie := strings.Repeat("1", 64)
	serveSchema1(t, f, signed, types.DockerManifestSchema1Signed, "sha256:"+lie, layers)
	imagetest.WantErr(t, imagetest.OpenErr(t, "docker://"+f.Host+"/old@sha256:"+lie), nil, digest.String())
}

// A chain of an archive and one of a manifest are the same image.
func TestV1Archive(t *testing.T) {
	imagetest.CleanTemp(t)
	layers, plain := oldChain(t)
	layers = layers[:4:4]
	dir := t.TempDir()
	archive := imagetest.Write(t, dir+"/save.tar", v1Archive(t, map[string]string{"redis:2.8": oldID64(3), "redis:latest": oldID64(3)}, layers, plain))
	for _, source := range []string{archive, "docker-archive:" + archive, "docker-archive:" + archive + ":redis:2.8", "docker-archive:" + archive + ":" + oldID64(3)} {
		src := imagetest.Open(t, source)
		if src.Ref.Transport != media.DockerArchive {
			t.Errorf("%s: got %+v", source, src.Ref)
		}
		wantOldImage(t, src.Image, plain)
	}
	imagetest.WantErr(t, imagetest.OpenErr(t, "docker-archive:"+archive+":redis:3"), hinterr.ErrNotFound, `"redis:3"`)

	two := imagetest.Write(t, dir+"/two.tar", v1Archive(t, map[string]string{"a:1": oldID64(3), "b:1": oldID64(1)}, layers, plain))
	err := imagetest.OpenErr(t, two)
	imagetest.WantErr(t, err, hinterr.ErrNotFound, "2 images")
	if h := hinterr.HintOf(err); !strings.HasSuffix(h, "a:1 b:1") {
		t.Errorf("hint: %q", h)
	}
	src := imagetest.Open(t, "docker-archive:"+two+":b:1")
	if n := len(imagetest.Must[[]v1.Layer](t)(src.Image.Layers())); n != 2 {
		t.Errorf("layers of b:1: got %d, want 2", n)
	}

	nameless := imagetest.Write(t, dir+"/nameless.tar", v1Archive(t, nil, layers, plain))
	if src := imagetest.Open(t, nameless); src.Ref.Tag != "" {
		t.Errorf("tag of an image without one: %q", src.Ref.Tag)
	}
	circle := layers
	circle[0].members += `,"parent":"` + oldID64(3) + `"`
	imagetest.WantErr(t, imagetest.OpenErr(t, imagetest.Write(t, dir+"/circle.tar", v1Archive(t, map[string]string{"a:1": oldID64(3)}, circle, plain))), hinterr.ErrDamaged, "circle")
	imagetest.WantErr(t, imagetest.OpenErr(t, imagetest.Write(t, dir+"/id.tar", v1Archive(t, map[string]string{"a:1": "../x"}, layers, plain))), hinterr.ErrDamaged, "not a layer ID")
	imagetest.WantErr(t, imagetest.OpenErr(t, imagetest.Write(t, dir+"/gone.tar", v1Archive(t, map[string]string{"a:1": oldID64(9)}, layers, plain))), hinterr.ErrNotFound, "no entry")
}

// v1Archive makes an archive as docker save wrote them before 1.10. The content of a layer
// that is there already is a symlink to it.
func v1Archive(t testing.TB, tags map[string]string, layers []oldFixture, plain [][]byte) []byte {
	t.Helper()
	files := []string{}
	contents := [][]byte{plain[0], plain[1], make([]byte, 2*media.TarBlock), plain[1]}
	for n, l := range layers {
		id := oldID64(n)
		files = append(files, id+"/VERSION", "1.0", id+"/json", l.json(n), id+"/layer.tar", string(contents[n]))
	}
	if len(tags) > 0 {
		repositories := map[string]map[string]string{}
		for name, id := range tags {
			repo, tag, _ := strings.Cut(name, ":")
			if repositories[repo] == nil {
				repositories[repo] = map[string]string{}
			}
			repositories[repo][tag] = id
		}
		files = append(files, media.ArchiveV1, string(imagetest.Must[[]byte](t)(json.Marshal(repositories))))
	}
	return imagetest.TarOf(t, files...)
}

// FuzzSchema1 reads bytes as a schema 1 manifest. It must end in an error or an image whose
// parts agree, and whatever it took for signed is what the text begins with.
func FuzzSchema1(f *testing.F) {
	layers, _ := oldChain(f)
	text := schema1Text(f, layers...)
	key := newECKey(f)
	f.Add(text)
	f.Add(sign(f, text, jose.ES256, key, jwkHeader(f, &key.PublicKey)))
	f.Add([]byte(`{"schemaVersion":1,"fsLayers":[{}],"history":[{}],"signatures":[{"protected":""}]}`))
	b := imagetest.OneBlob(layers[0].blob)
	f.Setenv("VFIX_DISABLE_IGZIP", "1") // a process for each layer would be all that is tried
	f.Setenv("VFIX_DISABLE_PIGZ", "1")
	f.Fuzz(func(t *testing.T, data []byte) {
		schema1.LooksSchema1(data)
		if m, err := schema1.Parse(data); err == nil {
			if chain, err := m.Chain(); err == nil && len(chain) > len(m.History) {
				t.Errorf("got %d layers of %d", len(chain), len(m.History))
			}
		}
		img, _, err := schema1.Image(context.Background(), data, b, progress.Silent{})
		if err != nil {
			return
		}
		n := len(imagetest.Must[[]v1.Layer](t)(img.Layers()))
		if cf, err := img.ConfigFile(); err == nil && len(cf.RootFS.DiffIDs) != n {
			t.Errorf("got %d diff IDs, want %d", len(cf.RootFS.DiffIDs), n)
		}
	})
}
